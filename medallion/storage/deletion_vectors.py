"""Deletion vectors of a Delta table: which rows of its data files are deleted. They are written here, read by delta-rs.

A vector is a set of row positions of one file, as a roaring bitmap in the portable 64-bit format. The vectors of a
commit are in one file beside the data files: VACUUM of Delta 4.4 fails on a vector inside the log entry.
"""

import struct
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from medallion.errors import MedallionError
from medallion.storage.log_entries import Action

if TYPE_CHECKING:
    import numpy as np
    from deltalake import DeltaTable

Positions = Mapping[str, "np.ndarray[Any, Any]"]
FEATURE = "deletionVectors"
FILE_SUFFIX = ".bin"
_MAGIC = struct.pack("<i", 1681511377)
_FILE_VERSION = b"\x01"
_NO_RUNS = 12346  # the cookie of a 32-bit bitmap whose containers are only arrays and bit sets
_CONTAINER = 1 << 16  # positions per container
_MAX_ARRAY = 4096  # most positions in an array container; a bit set holds more
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAX_REMEMBERED = 64  # most versions of tables whose positions are cached
_remembered: OrderedDict[tuple[Any, ...], Positions] = OrderedDict()


def encode_vector(positions: "np.ndarray[Any, Any]") -> bytes:
    """Encode a set of row positions, sorted and distinct, as a deletion vector."""
    import numpy as np

    assert len(positions), "a vector that marks no row is no vector"
    assert 0 <= positions[0] <= positions[-1] < 1 << 32, "positions of rows in one file"
    highs, starts = np.unique(positions >> 16, return_index=True)
    parts = np.split((positions % _CONTAINER).astype("<u2"), starts[1:])
    heads, bodies = b"", []
    for high, part in zip(highs.tolist(), parts, strict=True):
        heads += struct.pack("<HH", high, len(part) - 1)
        bodies.append(part.tobytes() if len(part) <= _MAX_ARRAY else _bit_set(part))
    offsets, at = b"", 8 + 8 * len(bodies)  # counted from the cookie
    for body in bodies:
        offsets += struct.pack("<I", at)
        at += len(body)
    bitmap = struct.pack("<II", _NO_RUNS, len(bodies)) + heads + offsets + b"".join(bodies)
    # One 32-bit bitmap: the higher half of its positions is 0.
    return _MAGIC + struct.pack("<QI", 1, 0) + bitmap


def _bit_set(low_halves: "np.ndarray[Any, Any]") -> bytes:
    import numpy as np

    bits = np.zeros(_CONTAINER, np.uint8)
    bits[low_halves] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def encode_file(vectors: Mapping[str, "np.ndarray[Any, Any]"]) -> tuple[str, bytes, dict[str, Action]]:
    """Encode the vectors of a commit.

    Args:
        vectors: Row positions by data file, sorted and distinct.

    Returns:
        The name of a new file, its content, and the descriptor of the vector of each data file.
    """
    identity = uuid.uuid4()
    content, descriptors = bytearray(_FILE_VERSION), dict[str, Action]()
    for file, positions in vectors.items():
        vector = encode_vector(positions)
        descriptors[file] = {
            "storageType": "u",
            "pathOrInlineDv": z85(identity.bytes),
            "offset": len(content),
            "sizeInBytes": len(vector),
            "cardinality": len(positions),
        }
        content += struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    return f"deletion_vector_{identity}{FILE_SUFFIX}", bytes(content), descriptors


def z85(content: bytes) -> str:
    """Encode bytes, whose number is a multiple of four, in ZeroMQ's base 85."""
    text = ""
    for (number,) in struct.iter_unpack(">I", content):
        for power in (85**4, 85**3, 85**2, 85, 1):
            text += _Z85[number // power % 85]
    return text


def from_z85(text: str) -> bytes:
    """Decode the text that ``z85`` returned."""
    content = b""
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            number = number * 85 + _Z85.index(character)
        content += struct.pack(">I", number)
    return content


def vector_file(descriptor: Action) -> str | None:
    """Return the file of a vector, relative to its table; None if it is in the log entry or in another folder."""
    if descriptor.get("storageType") != "u":
        return None
    prefix, encoded = descriptor["pathOrInlineDv"][:-20], descriptor["pathOrInlineDv"][-20:]
    name = f"deletion_vector_{uuid.UUID(bytes=from_z85(encoded))}{FILE_SUFFIX}"
    return f"{prefix}/{name}" if prefix else name


def may_have_vectors(delta: "DeltaTable") -> bool:
    """Whether files of a table may have deletion vectors, according to its protocol."""
    return FEATURE in (delta.protocol().reader_features or ())


def deleted_positions(delta: "DeltaTable") -> Positions:
    """Return the sorted positions of deleted rows, by name of data file, for files that have some.

    Raises MedallionError if a vector cannot be read.
    """
    if not may_have_vectors(delta):
        return {}
    key = _log_key(delta)
    if key is None:
        return _readable_positions(delta)
    if key not in _remembered:
        _remembered[key] = _readable_positions(delta)
        while len(_remembered) > _MAX_REMEMBERED:
            _remembered.popitem(last=False)
    return _remembered[key]


def _readable_positions(delta: "DeltaTable") -> Positions:
    from deltalake.exceptions import DeltaError

    try:
        return read_positions(delta)
    except (DeltaError, OSError) as error:
        why = str(error).strip().splitlines()[0]
        raise MedallionError(f"{delta.table_uri} cannot be read at version {delta.version()}: {why}") from error


def read_positions(delta: "DeltaTable") -> Positions:
    """Return the same as ``deleted_positions``, always read from the files of the vectors.

    Raises DeltaError or OSError if a vector cannot be read.
    """
    import numpy as np
    import pyarrow as pa

    by_file: dict[str, np.ndarray[Any, Any]] = {}
    for batch in pa.table(delta.deletion_vectors()).to_batches():
        vectors = batch["selection_vector"]
        for number, uri in enumerate(batch["filepath"].to_pylist()):
            keeps = vectors[number].values.to_numpy(zero_copy_only=False)
            if len(positions := np.flatnonzero(~keeps)):
                by_file[file_name(uri)] = positions
    return by_file


def file_name(path: str) -> str:
    """Return the name of a data file, which is unique in its table, from its path in the log or its URI."""
    return unquote(path).rpartition("/")[2]


def _log_key(delta: "DeltaTable") -> tuple[Any, ...] | None:
    """Return a key that identifies a version of a table on a disk; None in a bucket, or if its log entry is gone."""
    place = delta.table_uri.removeprefix("file://")
    if "://" in place:
        return None
    try:
        stat = Path(unquote(place), "_delta_log", f"{delta.version():020}.json").stat()
    except OSError:
        return None
    return place, delta.version(), stat.st_ino, stat.st_mtime_ns, stat.st_size


def count_deleted(positions: Positions) -> int:
    """Count the deleted rows of all files."""
    return sum(map(len, positions.values()))


def vector_files(actions: Iterable[Action]) -> set[str]:
    """Return the files of vectors that ``add`` and ``remove`` actions name, relative to their table."""
    descriptors = (action.get("deletionVector") for action in actions)
    return {file for descriptor in descriptors if descriptor and (file := vector_file(descriptor))}
