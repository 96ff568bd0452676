"""Infer a declaration for a feed that has none: columns, types and keys from its newest change files."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from medallion.errors import UsageError
from medallion.ingest.change_lines import read_lines
from medallion.ingest.listing import change_files
from medallion.ingest.put_together import land_files
from medallion.ingest.source import Source
from medallion.ingest.sources import NOTHING, Change, RecordForms, RefusedRecord, Unfit, reader_of
from medallion.ingest.tabular_files import CSV, kind_of
from medallion.ingest.value_decoders import value_decoder
from medallion.ingest.value_forms import Forms
from medallion.model.column_types import DecimalType, Scalar
from medallion.model.table import BESIDE_A_CHANGE, Feed

MAX_HOURS, MAX_CHANGES = 6, 20_000  # newest hours to read, and changes to read from them
MIN_ROWS = 100  # fewest rows to declare a column that is never null as NOT NULL
_COLUMN = re.compile(r"[a-z_][a-z0-9_]*")
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")  # leading zeros mean a code, which is text
_DECIMAL = re.compile(r"[+-]?[0-9]{1,30}\.[0-9]{1,18}")
_USUAL_DIGITS, _MAX_DIGITS, _MAX_SCALE = 18, 38, 9
_MAX_EXPONENT = 400  # a number with more digits fits no type
_BIGINT = 1 << 63


@dataclass
class _Column:
    """The observed values of a column.

    kinds: names of their types. whole, scale: most digits before and after the point. values: how many are not null.
    elements: those of arrays. fields: those of structs, by name.
    """

    kinds: set[str] = field(default_factory=set)
    whole: int = 1
    scale: int = 0
    values: int = 0
    elements: "_Column | None" = None
    fields: dict[str, "_Column"] = field(default_factory=dict)

    def add(self, value: Any, forms: Forms | None) -> None:
        """Record a value; null is ignored."""
        if value is None:
            return
        self.values += 1
        self.kinds.add(self._kind(value, forms))

    def _kind(self, value: Any, forms: Forms | None) -> str:
        if forms is not None and forms.moments is not None and isinstance(value, int):
            return "DATE" if forms.moments == "days" else "TIMESTAMP"
        if forms is not None and forms.decimals == "precise" and isinstance(value, str):
            return self._precise(value, forms)
        if forms is not None and forms.variable_scale and isinstance(value, dict):
            return self._precise(value, replace(forms, scale=scale if type(scale := value.get("scale")) is int else 0))
        if isinstance(value, bool):
            return "BOOLEAN"
        if isinstance(value, int):
            return self._integer(value)
        if isinstance(value, Decimal):
            return self._decimal(value)
        if isinstance(value, list):
            self.elements = self.elements or _Column()
            for element in value:
                self.elements.add(element, forms)
            return "ARRAY"
        if isinstance(value, dict):
            for name, inner in value.items():
                self.fields.setdefault(name, _Column()).add(inner, dict(forms.fields).get(name) if forms else None)
            return "STRUCT"
        return self._cell(str(value)) if forms is not None and forms.texts else self._text(str(value))

    def _precise(self, value: Any, forms: Forms) -> str:
        """Record a decimal that is written as bytes, with the scale that its schema or the value states."""
        scale = min(max(0, forms.scale or 0), _MAX_DIGITS)
        self.scale = max(self.scale, scale)
        with suppress(ValueError, TypeError, ArithmeticError):  # it does not fit its schema
            decode = value_decoder(DecimalType(_MAX_DIGITS, scale), "", lambda _: None, forms)
            self.whole = max(self.whole, decode(value).adjusted() + 1)
        return "DECIMAL"

    def _integer(self, value: int) -> str:
        """Record a whole number. Its digits count, because other values of the column may have a fraction."""
        if not -_BIGINT <= value < _BIGINT:
            return self._decimal(Decimal(value))
        self.whole = max(self.whole, len(str(abs(value))))
        return "BIGINT"

    def _decimal(self, value: Decimal) -> str:
        if value and abs(value.adjusted()) > _MAX_EXPONENT:
            return "DOUBLE"
        scale = max(0, -int(value.as_tuple().exponent))
        self.scale, self.whole = max(self.scale, scale), max(self.whole, value.adjusted() + 1)
        return "DECIMAL" if self.scale <= _MAX_SCALE and self.whole + self.scale <= _MAX_DIGITS else "DOUBLE"

    def _cell(self, text: str) -> str:
        """Record a cell of a CSV, in which numbers and booleans are text too."""
        if _WHOLE.fullmatch(text):
            return self._integer(int(text))
        return "BOOLEAN" if text in ("true", "false") else self._text(text)

    def _text(self, text: str) -> str:
        if _DECIMAL.fullmatch(text):
            return self._decimal(Decimal(text))
        for kind in ("DATE", "TIMESTAMP"):
            with suppress(ValueError, TypeError):
                value_decoder(Scalar(kind), "", lambda _: None)(text)
                return kind
        return "STRING"

    @property
    def type(self) -> str:
        """The narrowest declarable type that holds every value; STRING for a column without values."""
        kinds = self.kinds - ({"BIGINT"} if self.kinds & {"DECIMAL", "DOUBLE"} else set())
        if len(kinds) != 1:
            return "DOUBLE" if kinds == {"DECIMAL", "DOUBLE"} else "STRING"
        (kind,) = kinds
        if kind == "DECIMAL":
            digits = self.whole + self.scale
            return f"DECIMAL({_USUAL_DIGITS if digits <= _USUAL_DIGITS else _MAX_DIGITS},{self.scale})"
        if kind == "ARRAY":
            return f"ARRAY<{self.elements.type if self.elements else 'STRING'}>"
        if kind == "STRUCT":
            inner = ", ".join(f"{name}: {column.type}" for name, column in self.fields.items() if name.isidentifier())
            return f"STRUCT<{inner}>" if inner else "MAP<STRING, STRING>"
        return kind


def infer_declaration(source: Source, feed: Feed) -> str:
    """Return the text of a module that declares a feed, for the user to review and paste; comments say what is a guess.

    feed: says only where its files are: name, layer and delivery.

    Raises UsageError if the source has no readable change of the feed, or none with a column that can be declared.
    """
    columns, rows, deletions = dict[str, _Column](), 0, list[set[str]]()
    notes: list[str] = []
    for change in _changes(source, feed, notes):
        if change.deleted or change.kept is not NOTHING:
            deletions.append({name.casefold() for name, value in change.row.items() if value is not None})
            continue
        rows += 1
        forms: Mapping[str, Forms] = change.forms.by_name if change.forms else {}
        for name, value in change.row.items():
            if not name.startswith("__"):
                columns.setdefault(name.casefold(), _Column()).add(value, forms.get(name))
    if not rows:
        why = f": {notes[0]}" if notes else ""
        raise UsageError(f"no change of {feed.topic} could be read, so nothing is known of its columns{why}")
    for name in [name for name in columns if not _COLUMN.fullmatch(name) or name in BESIDE_A_CHANGE]:
        notes.append(f"the column {name!r} is left out: its name cannot be declared")
        del columns[name]
    if not columns:
        why = f": {notes[0]}" if notes else ""
        raise UsageError(f"the changes of {feed.topic} have no column that can be declared{why}")
    keys = _keys(feed, columns, rows, deletions, notes)
    for name, column in columns.items():
        if not column.kinds:
            notes.append(f"{name} was null in all {rows:,} rows: its type is a guess")
        elif column.type == "STRING" and column.kinds != {"STRING"}:
            notes.append(f"{name} has values of several kinds ({', '.join(sorted(column.kinds))}): its type is a guess")
    return _module(feed, columns, keys, rows, notes)


def _changes(source: Source, feed: Feed, notes: list[str]) -> Iterator[Change]:
    """Yield the changes of the newest hours that can be read; ``notes`` gets the first line that cannot."""
    listing = change_files(source, [feed])
    hours = [hour for hour, topics in listing.hours.items() if feed.topic in topics][-MAX_HOURS:]
    if not hours:
        raise UsageError(
            f"{source.root} has no change file of {feed.topic}: none is named"
            f" {feed.delivery.layout.text.replace('{feed}', feed.source_name)}"
        )
    count, all_read = 0, True
    for hour in hours:
        reader = reader_of(feed)
        with TemporaryDirectory(prefix="medallion-") as folder:
            landed = Path(folder, f"{hour}.json")
            names = listing.hours[hour][feed.topic]
            has_cells = kind_of(names[0]) == CSV
            land_files(source, names, landed)
            for number, raw, _ in read_lines(landed):
                try:
                    changes: Sequence[Change] = reader.read(raw)
                except (Unfit, RefusedRecord) as unfit:
                    if all_read:
                        notes.append(f"line {number} of {hour} could not be read: {unfit}")
                    all_read = False
                    continue
                yield from (_as_cells(change) for change in changes) if has_cells else changes
                count += len(changes)
                if count >= MAX_CHANGES:
                    return


def _as_cells(change: Change) -> Change:
    """Return a change whose values are text cells of a CSV."""
    return change._replace(forms=RecordForms(dict.fromkeys(change.row, Forms(texts=True))))


def _keys(
    feed: Feed, columns: Mapping[str, _Column], rows: int, deletions: Iterable[set[str]], notes: list[str]
) -> list[str]:
    """Return the keys: the columns that all deletions and partial updates have a value for, else a guess by name."""
    deletions = [*deletions]
    stated = set.intersection(*deletions) & columns.keys() if deletions else set()
    if stated and len(stated) < len(columns):
        return [name for name in columns if name in stated]
    singular = feed.topic.removesuffix("s")
    names = [name for name in ("id", f"{feed.topic}_id", f"{singular}_id", *columns) if name in columns]
    key = next((name for name in names if columns[name].values == rows), names[0])
    notes.append(f"the key {key} is a guess: no deletion names columns of a key alone")
    return [key]


def _module(feed: Feed, columns: Mapping[str, _Column], keys: Sequence[str], rows: int, notes: Sequence[str]) -> str:
    declared = []
    for name, column in columns.items():
        required = name in keys or (rows >= MIN_ROWS and column.values == rows)
        declared.append(f"        {name} {column.type}{' NOT NULL' * required}")
    shown = ", ".join(f'"{key}"' for key in keys)
    lines = [
        f"# spark_jobs/{feed.layer}/{feed.topic}.py, inferred from {rows:,} rows: read it over before you paste it.",
        *(f"# {' '.join(note.split())}" for note in notes),
        f'"""{feed.topic.replace("_", " ").capitalize()}. One row per {", ".join(keys)}."""',
        "",
        "from medallion import Feed",
        "",
        "TABLE = Feed(",
        f"    keys=({shown},),",
        '    schema="""',
        ",\n".join(declared),
        '    """,',
        ")",
    ]
    return "\n".join(lines)
