"""Read the input rows that can matter to some values of the key, in this process.

Three things say which rows these are. An input that has the key is restricted to the values. Of an input without it,
only those rows can matter that its path to the key connects with rows that were read. And the needs of the query say
what holds for rows that matter: a condition, and partners in other inputs. What is read first restricts what is read
next, and a value of the key for which no row is left is dropped; so the smallest inputs come first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from medallion.model.methods import ByKey
from medallion.model.needs import Needs, Read
from medallion.refresh.plan import Target
from medallion.refresh.touched import MAX_LEADING_VALUES
from medallion.storage.keyed_rows import Clause, Values, rows_that_hold
from medallion.storage.lake import TableState

if TYPE_CHECKING:
    import pyarrow as pa

MIN_SHARED_BYTES = 64 << 20  # bytes of an input of which tables share one read, however few rows each of them needs
MAX_SMALL_BYTES = 1 << 20  # bytes of an input that is read whole if that can restrict others
_ANY_READ = -1


@dataclass
class NeededInputs:
    """The needed rows of the inputs of a table.

    target, by, keyed, sides, part, changed: as in ``KeyedInputs``. values: of the key, sorted, null last; those for
    which no row is needed are dropped.
    """

    target: Target
    by: ByKey
    keyed: Mapping[str, str]
    sides: Sequence[Mapping[str, TableState]]
    values: Values
    part: str = ""
    changed: Callable[[], Iterable[Any]] = tuple
    _rows: "dict[str, list[pa.Table] | None]" = field(default_factory=dict)
    _values: dict[tuple[str, int, str], Values | None] = field(default_factory=dict)  # by input, read and column
    _held: dict[str, list[Clause]] = field(default_factory=dict)  # the clauses that hold for the rows of an input

    @cached_property
    def needs(self) -> Needs:
        """What is needed of the inputs."""
        return self.target.proof.needs_of(self.part)

    def read(self) -> "dict[str, list[pa.Table] | None]":
        """Return, by input, its needed rows on each side; None for an input that Spark has to read."""
        states = self.sides[-1]
        waiting = sorted(states, key=lambda name: (states[name].bytes, name))
        order = []
        while self.values and (found := next(self._readable(waiting), None)) is not None:
            name, clauses = found
            waiting.remove(name)
            order.append(name)
            self._keep(name, self._read(name, clauses))
            for former in (*reversed(order), *order):
                self._narrow(former)
        return {**dict.fromkeys(states), **self._rows}

    def _readable(self, waiting: Sequence[str]) -> Iterator[tuple[str, tuple[Clause, ...]]]:
        for name in waiting:
            if clauses := self._clauses(name):
                yield name, clauses

    def _read(self, name: str, clauses: tuple[Clause, ...]) -> "list[pa.Table] | None":
        states = [side[name] for side in self.sides]
        own = {column for column, *_ in self.target.proof.columns_of(name, self.part)}
        ways = (way for via in self.by.via.values() for way in via.ways)
        paths = {way.as_column for way in ways if way.through == name}
        of_links = {link.of for read in self.needs.reads for link in read.links if self._input(link.read) == name}
        columns = own | paths | of_links | {column for clause in clauses for column, _ in clause.wanted}
        run, folder = self.target.run, self.target.lake.folder(name)
        if name in self.keyed and states[-1].bytes >= MIN_SHARED_BYTES:
            columns |= run.columns_read(name)
            shared = run.rows.read_shared(folder, states, columns, (self.keyed[name], self.values), self.changed)
            if shared is not None:
                return [rows_that_hold(rows, clauses) for rows in shared]
        if len(clauses) == 1 and len(clauses[0].wanted) == 1 and not clauses[0].condition:
            columns |= run.columns_read(name)  # other tables of the run may need the same rows
        return run.rows.read(folder, states, sorted(columns), clauses)

    def _narrow(self, name: str) -> None:
        """Drop rows of an input that other inputs have no partners for by now, and then values of the key."""
        if (sides := self._rows[name]) is None:
            return
        clauses = [Clause(clause.wanted) for clause in self._clauses(name)]
        if not clauses or clauses == self._held.get(name):
            return
        self._held[name] = clauses
        narrowed = [rows_that_hold(rows, clauses) for rows in sides]
        if [rows.num_rows for rows in narrowed] != [rows.num_rows for rows in sides]:
            self._keep(name, narrowed)
        for number, _ in self.needs.of(name) if name in self.keyed else ():
            if number in self.needs.required:
                self._keep_values_in(self._rows_of(number, narrowed), self.keyed[name])

    def _keep(self, name: str, rows: "list[pa.Table] | None") -> None:
        self._rows[name] = rows
        self._values = {place: values for place, values in self._values.items() if place[0] != name}

    def _keep_values_in(self, sides: "Sequence[pa.Table]", column: str) -> None:
        if (found := _distinct(sides, column)) is None:
            return
        if len(kept := tuple(value for value in self.values if value in found)) < len(self.values):
            self.values = kept

    def _clauses(self, name: str) -> tuple[Clause, ...]:
        """Return clauses of which one holds for every row of an input that can matter; none if they are not known."""
        key = ((self.keyed[name], self.values),) if name in self.keyed else ()
        clauses = []
        for _, read in self.needs.of(name):
            links = ((link.column, self._values_in(self._input(link.read), link.of, link.read)) for link in read.links)
            wanted = (*key, *((column, values) for column, values in links if values is not None))
            is_small = bool(read.condition) and self.sides[-1][name].bytes <= MAX_SMALL_BYTES
            if not wanted and not is_small:
                return self._clauses_by_path(name)
            clauses.append(Clause(tuple(dict.fromkeys(wanted)), read.condition))
        if clauses and (key or name in self.by.via):
            return tuple(dict.fromkeys(clauses))
        return (Clause(key),) if key else self._clauses_by_path(name)

    def _clauses_by_path(self, name: str) -> tuple[Clause, ...]:
        if name not in self.by.via:
            return ()
        clauses = []
        for way in self.by.via[name].ways:
            if (values := self._values_in(way.through, way.as_column)) is None:
                return ()
            clauses.append(Clause(((way.column, values),)))
        return tuple(clauses)

    def _values_in(self, name: str, column: str, number: int = _ANY_READ) -> Values | None:
        """Return the values of a column in the rows that were read, sorted; None if they are not known.

        number: the read of the input that can need the rows; by default, any.
        """
        if (sides := self._rows.get(name)) is None:
            return None
        place = (name, number, column)
        if place not in self._values:
            self._values[place] = values_in(sides if number == _ANY_READ else self._rows_of(number, sides), column)
        return self._values[place]

    def _rows_of(self, number: int, sides: "list[pa.Table]") -> "list[pa.Table]":
        """Return the rows of an input that one read of it can need. sides: those that any read of it can need."""
        read = self.needs.reads[number]
        if len([*self.needs.of(read.input)]) == 1:
            return sides
        return [rows_that_hold(rows, [self._clause_of(read)]) for rows in sides]

    def _clause_of(self, read: Read) -> Clause:
        key = ((self.keyed[read.input], self.values),) if read.input in self.keyed else ()
        others = [link for link in read.links if self._input(link.read) != read.input]
        found = ((link.column, self._values_in(self._input(link.read), link.of)) for link in others)
        return Clause((*key, *((column, values) for column, values in found if values is not None)), read.condition)

    def _input(self, number: int) -> str:
        return self.needs.reads[number].input


def values_in(sides: "Sequence[pa.Table]", column: str) -> Values | None:
    """Return the values in a column of rows, sorted, without null, which equals nothing; None if not known.

    Those of floating columns are not: 0.0 and -0.0 are equal in a join, and different in a list of values.
    """
    import pyarrow.types as of

    found = None if of.is_floating(sides[0].schema.field(column).type) else _distinct(sides, column)
    return tuple(sorted(found - {None})) if found is not None and len(found) <= MAX_LEADING_VALUES else None


def _distinct(sides: "Sequence[pa.Table]", column: str) -> set[Any] | None:
    """Return the values in a column of rows; None if Python cannot hold one, such as a date after the year 9999."""
    try:
        return {value for rows in sides for value in rows[column].unique().to_pylist()}
    except OverflowError:
        return None
