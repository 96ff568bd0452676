"""Land the files of a feed and an hour as one file of lines, however many they are and however they are packed.

Records are not interpreted here: they stay as they came, so that the hour can be decoded again.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any

from medallion.errors import MedallionError
from medallion.ingest.change_lines import MAX_LINE
from medallion.ingest.delta_source import commit_lines, version_of
from medallion.ingest.json_lines import is_json
from medallion.ingest.parts import Part, Parts, in_order
from medallion.ingest.refused_file import AVRO, JSON_FROM_KAFKA_CONNECT
from medallion.ingest.repeated_records import require_same_records
from medallion.ingest.source import Landed, Source, copy_file, digest
from medallion.ingest.tabular_files import (
    ANY,
    CSV,
    GZIP,
    ZSTD,
    Columns,
    csv_lines,
    kind_of,
    parquet_lines,
    require_one_kind,
)
from medallion.ingest.withdrawn_parts import copy_parts
from medallion.storage import files
from medallion.storage.files import Place

_CHUNK = 1 << 20
_MAX_UNPACKED = 64 << 30  # most bytes of one unpacked file: a packed file may expand without limit


@dataclass(frozen=True)
class Reading:
    """How files become the lines of one landed file.

    columns: what is known of the columns of CSV and Parquet files. forget: removes lines about erased persons from a
    file, before records are compared: a part that landed before has none of them any more.
    """

    columns: Columns = ANY
    forget: Callable[[Path], object] | None = None


AS_IT_IS = Reading()


def land_files(source: Source, names: Sequence[str], target: Place, reading: Reading = AS_IT_IS) -> Landed:
    """Copy the files ``names``, in this order, to one landed file, whole or not at all.

    A single plain file is copied as it is. reading: how files become lines.

    Raises MedallionError if a file does not arrive whole, cannot be unpacked, or ends in the middle of a record, and if
    two files have different records at the same offset of a partition.
    """
    if len(names) == 1 and is_plain(names[0]):
        copied = copy_file(source, names[0], target)
        return replace(copied, parts=(Part(names[0], copied.bytes, copied.sha256, _count_lines(target)),))
    return _put_together(source, names, target, {}, reading)


def land_beside(
    source: Source,
    names: Sequence[str],
    target: Place,
    former: Landed,
    old_parts: Mapping[str, Part],
    reading: Reading,
) -> Landed:
    """Do the same as ``land_files``, but keep some parts of the existing ``target``, which ``former`` describes.

    old_parts: the parts to keep, by name. reading: as for ``land_files``.
    """
    if old_parts.keys() == {part.name for part in former.parts} >= {*names}:
        return former
    with TemporaryDirectory(prefix="medallion-") as folder:
        copies = copy_parts(target, former.parts, old_parts, Path(folder))
        lines = {name: (part, copies[name]) for name, part in old_parts.items()}
        return _put_together(source, in_order({*names, *old_parts}), target, lines, reading)


def _put_together(
    source: Source,
    names: Sequence[str],
    target: Place,
    old_parts: Mapping[str, tuple[Part, Path]],
    reading: Reading,
) -> Landed:
    hour = f"an hour at {source.root}"
    require_one_kind(names, hour, "nothing of it was landed; move those of one kind elsewhere, then run the hour again")
    parts: list[Part] = []
    with TemporaryDirectory(prefix="medallion-") as folder, files.whole(target) as together:
        with together.open("wb") as out:
            for name in names:
                if name in old_parts:
                    part, copied = old_parts[name]
                    with copied.open("rb") as stream:
                        _append_lines(part.name, stream, out)
                    parts.append(part)
                    continue
                copied = Path(folder, "part")
                as_it_came = copy_file(source, name, copied)
                lines = _append(source, name, copied, out, reading.columns)
                parts.append(Part(name, as_it_came.bytes, as_it_came.sha256, lines))
        if reading.forget is not None:
            reading.forget(together)
        require_same_records(together, Parts(parts))
        with together.open("rb") as stream:
            landed = digest(stream)
    return Landed(landed.bytes, landed.sha256, (*parts,))


def is_plain(name: str) -> bool:
    """Check by its name whether a file is one of plain lines: neither compressed, CSV, Parquet nor a commit."""
    return PurePosixPath(name).suffix.lower() not in GZIP + ZSTD and not kind_of(name) and version_of(name) is None


def same_files(source: Source, names: Sequence[str], landed: Landed) -> bool:
    """Check whether the files at the source are among those that landed, by name and content."""
    if not landed.parts:
        return len(names) == 1 and is_plain(names[0]) and describe_file(source, names[0]) == landed
    known = {part.name: Landed(part.bytes, part.sha256) for part in landed.parts}
    return all(name in known for name in names) and all(describe_file(source, name) == known[name] for name in names)


def _count_lines(file: Place) -> int:
    lines, last = 0, b"\n"
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            lines, last = lines + chunk.count(b"\n"), chunk[-1:]
    return lines + (last != b"\n")


def describe_file(source: Source, name: str) -> Landed:
    """Return size and checksum of a file at the source as it is now."""
    with source.open(name)[0] as stream:
        return digest(stream)


def _append(source: Source, name: str, file: Path, out: IO[bytes], columns: Columns) -> int:
    """Append the records of a copied file as lines; return how many."""
    shown, kind, count = f"{source.root}/{name}", kind_of(name), 0
    if version_of(name) is not None:
        for line in commit_lines(source, name):
            out.write(line)
            count += 1
        return count
    if not kind:
        with unpacked(shown, file) as stream:
            return _append_lines(shown, stream, out)
    with unpacked(shown, file) as stream:
        checked = _Checked(stream, shown)
        reader = io.BufferedReader(checked)
        lines = csv_lines(reader, shown, columns) if kind == CSV else parquet_lines(file, shown, columns)
        for line in lines:
            out.write(line)
            count += 1
        if kind == CSV and checked.last not in b"\r\n":
            raise _cut_off(shown, count)
    return count


class _Checked(io.RawIOBase):
    """The unpacked content of a file, as a stream whose errors name the file."""

    def __init__(self, stream: Any, shown: str) -> None:
        self._stream, self._shown, self.last = stream, shown, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = _read(self._stream, self._shown, len(buffer))
        buffer[: len(content)] = content
        self.last = content[-1:] or self.last
        return len(content)


def _append_lines(shown: str, stream: Any, out: IO[bytes]) -> int:
    """Append the lines of a file as they are; return how many."""
    lines = written = 0
    tail = b""  # a last line without a line end
    while chunk := _read(stream, shown):
        if not written and chunk.startswith(AVRO):
            raise MedallionError(
                f"{shown} is an Avro file, which is not read; nothing of its hour was landed:"
                f" {JSON_FROM_KAFKA_CONNECT}, then run the hour again"
            )
        lines += chunk.count(b"\n")
        _, end, rest = chunk.rpartition(b"\n")
        tail = (rest if end else tail + chunk)[: MAX_LINE + 1]
        written += len(chunk)
        if written > _MAX_UNPACKED:
            raise MedallionError(f"{shown} unpacks to more than {_MAX_UNPACKED >> 30} GB: it is not read")
        out.write(chunk)
    if tail:
        if tail.strip() and not is_json(tail):
            raise _cut_off(shown, lines + 1)
        out.write(b"\n")
        lines += 1
    return lines


def _cut_off(shown: str, line: int) -> MedallionError:
    return MedallionError(
        f"{shown} is cut off in the middle of line {line}; nothing of its hour was landed: have it delivered again,"
        " then run the hour again"
    )


@contextmanager
def unpacked(shown: str, file: Path) -> Iterator[Any]:
    """Open the unpacked content of a file; the suffix of its name says how it is packed."""
    suffix = PurePosixPath(shown).suffix.lower()
    if suffix in GZIP + ZSTD and not file.stat().st_size:  # a packed file has some bytes even if its content is empty
        raise MedallionError(
            f"{shown} has 0 bytes, which no packed file has: it was not written to its end; nothing of its hour was"
            " landed: have it delivered again, then run the hour again"
        )
    if suffix in ZSTD:
        import pyarrow as pa

        with pa.OSFile(str(file)) as raw, pa.CompressedInputStream(raw, "zstd") as stream:
            yield stream
    else:
        with gzip.open(file, "rb") if suffix in GZIP else file.open("rb") as stream:
            yield stream


def _read(stream: Any, shown: str, size: int = _CHUNK) -> bytes:
    try:
        content: bytes = stream.read(size)
    except EOFError:
        what = "ends before its gzip data does: it is cut off"
    except (OSError, zlib.error) as error:
        what = f"cannot be unpacked: {' '.join(str(error).split())[:120]}"
    else:
        return content
    raise MedallionError(
        f"{shown} {what}; nothing of its hour was landed: have it delivered again, then run the hour again"
    )
