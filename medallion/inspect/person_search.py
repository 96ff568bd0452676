"""Search files of any kind for persons, by the content of a file and not by what a log says about it.

A number such as 42 counts only in a column, or after a name, that holds subjects; a text such as an address counts
anywhere.
"""

import gzip
import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from medallion.inspect.person import Person
from medallion.storage.files import Place, in_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_PARQUET, _GZIP, _ZSTD = b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_HEAD = 4 << 10  # bytes in which a file that is no text has a zero
_CHUNK, _OVERLAP = 4 << 20, 64 << 10  # bytes read at a time, and characters that chunks of a long line overlap by
_COMPOSITE = r"[\s\"'`\\<>,;:=?&|/(){}\[\]]"  # occurs in texts that may contain several values
_BATCH_ROWS = 65_536


def find_person(place: Place, person: Person, columns: Collection[str] | None = None) -> str | None:
    """Say where in a file a person is found first; None if the file does not contain the person.

    columns: the columns of a Parquet file to search, if no others can contain persons; all by default.
    """
    if person.is_in(place.name.replace("%3D", "=")):
        return "its name"
    with suppress(FileNotFoundError):  # such as a lease that was just replaced, which holds no personal data
        return _in_content(place, person, columns)
    return None


def _in_content(place: Place, person: Person, columns: Collection[str] | None) -> str | None:
    with place.open("rb") as stream:
        magic = stream.read(4)
        if magic == _PARQUET:
            return _in_parquet(place, person, columns)
        stream.seek(0)
        if magic[:2] == _GZIP:
            with gzip.open(stream, "rb") as unpacked:
                return _in_text(unpacked, person)
        if magic == _ZSTD:
            import pyarrow as pa

            with pa.CompressedInputStream(pa.PythonFile(stream), "zstd") as unpacked:
                return _in_text(unpacked, person)
        if place.name.endswith((".html", ".json")) and (where := _in_document(stream, person, place)):
            return where
        stream.seek(0)
        is_binary = b"\0" in stream.read(_HEAD)
        stream.seek(0)
        return _in_bytes(stream, person) if is_binary else _in_text(stream, person)


def _in_bytes(stream: IO[bytes], person: Person) -> str | None:
    """Search a file of an unknown form, such as a database, where no separator is around a text."""
    tail = b""
    while person.needles and (chunk := stream.read(_CHUNK)):
        window = tail + chunk
        if person.needles.are_in_bytes(window):
            return "its bytes"
        tail = window[-_OVERLAP:]
    return None


def _in_text(stream: Any, person: Person) -> str | None:
    """Search a text by lines; very long lines are read in chunks that overlap."""
    number, tail = 0, ""
    while chunk := stream.read(_CHUNK):
        text = tail + chunk.decode("utf-8", "replace")
        if person.is_in(text):
            before = text[: _first(text, person)]
            return f"line {number + before.count(chr(10)) + 1}"
        whole, _, rest = text.rpartition("\n")
        number += whole.count("\n") + bool(whole)
        tail = rest if len(rest) < _OVERLAP else rest[-_OVERLAP:]
    return None


def _first(text: str, person: Person) -> int:
    """Return the offset of the first line that contains the person."""
    place = 0
    for line in text.split("\n"):
        if person.is_in(line):
            return place
        place += len(line) + 1
    return 0


def _in_document(stream: IO[bytes], person: Person, place: Place) -> str | None:
    """Search documents where a value and its column name are apart: tables of a page and results of checks."""
    text = stream.read().decode("utf-8", "replace")
    if not any(name in text.casefold() for name in person.names):
        return None
    if place.name.endswith(".html"):
        cells = _Cells(person, any_cell="gx" in place.parts)
        cells.feed(text)
        return "a table of the page" if cells.found else None
    try:
        return "a result" if _in_result(json.loads(text), person) else None
    except (ValueError, RecursionError):
        return None


def _in_result(value: Any, person: Person) -> bool:
    """Return whether a check result about a subject column lists one of the person's values."""
    if isinstance(value, list):
        return any(_in_result(item, person) for item in value)
    if not isinstance(value, dict):
        return False
    if any(str(name).casefold() in person.names for name in _columns_below(value, 3)):
        return any(str(leaf) in person.subjects for leaf in _scalars_in(value))
    return any(_in_result(item, person) for item in value.values())


def _columns_below(value: dict[str, Any], depth: int) -> Iterator[Any]:
    for name, item in value.items():
        if name == "column":
            yield item
        elif depth and isinstance(item, dict):
            yield from _columns_below(item, depth - 1)


def _scalars_in(value: Any, *, in_list: bool = False) -> Iterator[Any]:
    """Yield every scalar in a list, at any depth; of objects in a list, only what is under the key ``value``."""
    if isinstance(value, list):
        for item in value:
            yield from _scalars_in(item, in_list=True)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _scalars_in(item, in_list=in_list and name == "value")
    elif in_list:
        yield value


class _Cells(HTMLParser):
    """Finds a person in the tables of a page. any_cell: search every cell, because headings do not name columns."""

    def __init__(self, person: Person, *, any_cell: bool) -> None:
        super().__init__()
        self.found = False
        self._person, self._any = person, any_cell
        self._headings: list[str] = []
        self._row: list[str] = []
        self._text, self._is_heading = "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._headings = []
        elif tag == "tr":
            self._row, self._is_heading = [], False
        elif tag in {"td", "th"}:
            self._text, self._is_heading = "", tag == "th"

    def handle_data(self, data: str) -> None:
        self._text += data
        self.found |= self._any and data.strip() in self._person.subjects

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self._row.append(self._text.strip())
        elif tag == "tr" and self._is_heading and not self._headings:
            self._headings = [text.casefold() for text in self._row]
        elif tag == "tr":
            pairs = zip(self._headings, self._row, strict=False)
            self.found |= any(name in self._person.names and text in self._person.subjects for name, text in pairs)


def _in_parquet(place: Place, person: Person, columns: Collection[str] | None) -> str | None:
    import pyarrow.parquet as pq

    name, at = in_arrow(place)
    with pq.ParquetFile(name, filesystem=at) as file:
        known = {key: value for key, value in (file.metadata.metadata or {}).items() if key != b"ARROW:schema"}
        if any(person.is_in(value.decode("utf-8", "replace")) for value in known.values()):
            return "its metadata"
        wanted = None if columns is None else [n for n in file.schema_arrow.names if n.casefold() in columns]
        if wanted == []:
            return None
        groups = [g for g in range(file.num_row_groups) if wanted is None or _may_hold(file, g, wanted, person)]
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=wanted):
            for field, column in zip(batch.schema, batch.columns, strict=True):
                if (field_name := _in_column(field.name, column, person)) is not None:
                    return f"column {field_name}"
    return None


def _may_hold(file: "pq.ParquetFile", group: int, wanted: Collection[str], person: Person) -> bool:
    """Return whether a row group may contain the person: by min/max for numbers, always if texts are searched."""
    meta, seen = file.metadata.row_group(group), 0
    for place in range(meta.num_columns):
        column = meta.column(place)
        if column.path_in_schema not in wanted:
            continue
        seen += 1
        if column.path_in_schema.casefold() not in person.names:
            if person.needles or person.hints:
                return True
            continue
        bounds = column.statistics
        if bounds is None or not bounds.has_min_max or person.has_number_between(bounds.min, bounds.max):
            return True
    return not seen


def _in_column(name: str, values: "pa.Array", person: Person) -> str | None:
    """Return the name of the column, or of the nested field, that contains a value of the person; None if none does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_dictionary(kind):
        return _in_column(name, values.dictionary, person)
    if pa.types.is_struct(kind):
        parts = ((kind.field(i).name, values.field(i)) for i in range(kind.num_fields))
        return next((field_name for part, own in parts if (field_name := _in_column(part, own, person))), None)
    if pa.types.is_map(kind):
        return _in_column(name, values.keys, person) or _in_column(name, values.items, person)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _in_column(name, values.flatten(), person)
    is_named = name.casefold() in person.names
    if pa.types.is_integer(kind):
        return name if is_named and _has_any(values, person._numbers) else None
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        texts = {value.decode("utf-8", "replace") for value in values.to_pylist() if value}
        return name if any(person.is_in(text) for text in texts) else None
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return None
    texts = pc.unique(values.cast(pa.string()))
    sought = person.needles.texts | (person.subjects if is_named else frozenset())
    if sought and pc.any(pc.is_in(texts, value_set=pa.array(sorted(sought), pa.string()))).as_py():
        return name
    composite = texts.filter(pc.match_substring_regex(texts, _COMPOSITE))
    return name if any(person.is_in(text) for text in composite.to_pylist()) else None


def _has_any(values: "pa.Array", numbers: Iterable[int]) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    sought = pa.array(numbers, pa.int64())
    return bool(pc.any(pc.is_in(values.cast(pa.int64(), safe=False), value_set=sought)).as_py())


def every_file(folder: Place) -> Iterator[Place]:
    """Yield every file under a folder, including hidden ones."""
    places = (place for place in folder.rglob("*") if not isinstance(place, Path) or place.is_file())
    yield from sorted(places, key=str)


def is_below(place: Place, folder: Place) -> bool:
    """Return whether a file is in a folder, at any depth."""
    return len(place.parts) > len(folder.parts) and place.parts[: len(folder.parts)] == folder.parts
