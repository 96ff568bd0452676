"""Which rows of its inputs can matter to a query: a plain value that its refresh uses."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A row of a read can matter only if its value in ``column`` occurs in column ``of`` of another read.

    read: the number of the other read.
    """

    column: str
    read: int
    of: str


@dataclass(frozen=True)
class Read:
    """One read of an input.

    condition: what holds for every row that can matter, in SQL whose meaning is the same in Spark and in DuckDB; empty
    if nothing is known. links: what else holds for these rows.
    """

    input: str
    condition: str = ""
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Needs:
    """What a query needs of its inputs.

    reads: every read; none if nothing is known. required: numbers of reads without a row of which the query has none:
    of a keyed query, none with some value of the key if such a read has no row with this value.
    """

    reads: tuple[Read, ...] = ()
    required: tuple[int, ...] = ()

    def of(self, name: str) -> Iterator[tuple[int, Read]]:
        """Yield number and value of each read of an input."""
        return ((number, read) for number, read in enumerate(self.reads) if read.input == name)

    def condition_of(self, name: str) -> str:
        """Return what holds for every row of an input that can matter to any read of it; empty if nothing is known."""
        conditions = dict.fromkeys(read.condition for _, read in self.of(name))
        if "" in conditions:
            return ""
        return next(iter(conditions), "") if len(conditions) < 2 else " OR ".join(f"({text})" for text in conditions)
