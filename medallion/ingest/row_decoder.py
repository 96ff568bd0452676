"""Decode a change, as the reader of its format returns it, into a row of typed values, or reject it with a reason.

The schema is declared, never inferred, and no value is silently turned into another.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from medallion.ingest.sources import NOTHING, Change, Reader, RecordForms, Unfit
from medallion.ingest.value_decoders import Decoder, value_decoder
from medallion.model.columns import Column
from medallion.model.table import EARLIEST, Feed

_MAX_UNKNOWN_COLUMNS = 1_000  # most names counted separately
_MAX_USUAL = 100
_MAX_NAME = 80  # most characters of a name that messages show


class _Plan(NamedTuple):
    """How rows with certain columns are read. columns: name in the row (None if missing), column, decoder, is key."""

    columns: list[tuple[Any, Column, Decoder, bool]]
    unknown: list[str]


class Row(NamedTuple):
    """A decoded row. values: of the declared columns, in order.

    kept: indexes of columns that keep their values in the table, whose row must exist; None for a whole row.
    """

    values: list[Any]
    kept: tuple[int, ...] | None


class RowDecoder:
    """Decode the changes of one file, and record which columns they have.

    unknown: undeclared columns, which are not loaded, with the number of changes that have them; names are escaped and
    cut. more_unknown: whether there are more of these than are counted. seen: declared columns that some change has.
    """

    def __init__(self, feed: Feed, hour: str, reader: Reader) -> None:
        self.seen: set[str] = set()
        self.unknown: Counter[str] = Counter()
        self.more_unknown = False
        self._feed, self._reader = feed, reader
        self._fields: set[str] = set()  # undeclared fields of STRUCT columns in the current change
        self._plans: dict[tuple[tuple[str, ...], RecordForms | None], _Plan] = {}  # most changes have the same columns
        self._decoders = {c.name: value_decoder(c.sql_type, c.name, self._note, reader.forms) for c in feed.columns}
        names = [column.name for column in feed.columns]
        self._times = [(name, names.index(name)) for name in feed.event_time]
        self._hour, self._latest = hour, feed.latest_event(hour)

    def decode(self, change: Change) -> Row:
        """Return the row of ``change``. Raises Unfit if it does not fit the declaration."""
        deleted, row, kept_names, forms, _ = change
        self._fields.clear()
        signature = (tuple(row), forms)
        plan = self._plans.get(signature)
        if plan is None:
            plan = self._plan(row, forms)
            if len(self._plans) < _MAX_USUAL:
                self._plans[signature] = plan
        for shown in plan.unknown:
            self._count(shown)
        values: list[Any] = []
        keeps: list[int] = []
        for name, column, convert, is_key in plan.columns:
            value = row.get(name)
            if value is None:
                if column.name in kept_names and name not in row and not is_key:
                    keeps.append(len(values))
                elif column.required and (is_key or not deleted):
                    raise Unfit(f"{column.name} is null but must have a value")
                values.append(None)
                continue
            try:
                values.append(convert(value))
            except (ValueError, TypeError, ArithmeticError):
                raise Unfit(_why_not(column, value)) from None
        if not deleted:  # a deletion is valid whatever its event time
            self._require_happened(values)
        return Row(values, None if kept_names is NOTHING else (*keeps,))

    def _plan(self, row: Mapping[str, Any], forms: RecordForms | None) -> _Plan:
        """Find the declared columns in a row, ignoring letter case. Raises Unfit for a column that occurs twice."""
        given: dict[str, list[str]] = {}
        for name in row:
            given.setdefault(name.casefold(), []).append(name)
        columns = []
        for column in self._feed.columns:
            others = given.get(column.name, [])
            if column.name not in row and len(others) > 1:
                raise Unfit(f"a column appears twice, as {shown_name(others[0])} and {shown_name(others[1])}")
            own = column.name if column.name in row else next(iter(others), None)
            columns.append((own, column, self._decoder(column, own, forms), column.name in self._feed.keys))
            if own is not None:
                self.seen.add(column.name)
        known, beside = {name for name, *_ in columns}, self._reader.ignored_prefix
        unknown = [name for name in row if name not in known and not (beside and name.startswith(beside))]
        return _Plan(columns, [shown_name(name) for name in unknown])

    def _decoder(self, column: Column, name: str | None, forms: RecordForms | None) -> Decoder:
        own = forms.by_name.get(name) if forms is not None and name is not None else None
        if own is None:
            return self._decoders[column.name]
        return value_decoder(column.sql_type, column.name, self._note, own)

    def _note(self, path: str) -> None:
        """Count an undeclared field of a column, once per change."""
        shown = shown_name(path)
        if shown not in self._fields:
            self._fields.add(shown)
            self._count(shown)

    def _count(self, shown: str) -> None:
        if shown in self.unknown or len(self.unknown) < _MAX_UNKNOWN_COLUMNS:
            self.unknown[shown] += 1
        else:
            self.more_unknown = True

    def _require_happened(self, values: list[Any]) -> None:
        """Raise Unfit if an event time is before EARLIEST, or too long after the end of the hour."""
        for name, place in self._times:
            moment = values[place]
            if moment is None or EARLIEST <= moment <= self._latest:
                continue
            if moment < EARLIEST:
                raise Unfit(f"{name}: {moment.isoformat()} is before {EARLIEST.year}")
            raise Unfit(
                f"{name}: {moment.isoformat()} is later than the end of hour {self._hour} by more than"
                f" {self._feed.max_skew}"
            )


def _why_not(column: Column, value: Any) -> str:
    if isinstance(value, list | dict):  # its text may be long and deeply nested
        shown = f"a {'list' if isinstance(value, list) else 'nested object'}"
    else:
        shown = repr(str(value)[:_MAX_NAME])
    hint = ""
    if column.type in {"TIMESTAMP", "DATE"} and type(value) is int:
        hint = "; where numbers are moments, the record's schema or source.moments in medallion.toml says their unit"
    article = "an" if column.type[0] in "AI" else "a"  # an INT, an ARRAY
    return f"{column.name}: {shown} is not {article} {column.type}{hint}"


def shown_name(name: str) -> str:
    """Return an external name in printable form: escaped, and cut to 80 characters."""
    return repr(name[:_MAX_NAME])[1:-1][:_MAX_NAME]
