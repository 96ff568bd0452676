"""The proof for a table: a plain value that its refresh uses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from medallion.model.needs import Needs
from medallion.model.plan import Column


@dataclass(frozen=True)
class Proof:
    """What is proven about a table: its refresh method, and the columns of the table and its inputs.

    Args:
        table: The name of the table.
        fingerprint: A hash of everything that the proof depends on, such as query, method, keys and input columns.
        query: The fingerprint of the query alone.
        method: The refresh method, in words.
        columns: Name, type and nullability of each output column.
        inputs: The columns of each input that the query can read, in order.
        reads: The names of the columns of each input that can affect the rows of the query, under an empty name, and of
            what a kept relation stores of it, under that of the relation: more, where the rest does not use all of it.
            If an input is missing, all columns can.
        restricted: For an upsert, the key column of each input that has the key.
        needs: What is needed of the inputs, by kept relation; for an upsert, under an empty name.
        unproven: Why nothing could be proven, in one line; the table is then recomputed in full.
    """

    table: str
    fingerprint: str
    query: str
    method: str
    columns: tuple[Column, ...]
    inputs: Mapping[str, tuple[Column, ...]]
    restricted: Mapping[str, str] = field(default_factory=dict)
    unproven: str = ""
    reads: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    needs: Mapping[str, Needs] = field(default_factory=dict)

    def reads_of(self, part: str = "") -> Mapping[str, tuple[str, ...]]:
        """Return, by input, the columns that can affect the query, or what is stored of one of its kept relations."""
        return self.reads.get(part, {})

    def needs_of(self, part: str = "") -> Needs:
        """Return what an upsert, or a kept relation, needs of the inputs."""
        return self.needs.get(part, Needs())

    def columns_by_part(self, name: str) -> Iterator[tuple[Column, ...]]:
        """Yield ``columns_of`` an input for the query and for each kept relation that reads it."""
        known = [part for part, reads in self.reads.items() if name in reads]
        return (self.columns_of(name, part) for part in known or [""])

    def columns_of(self, name: str, part: str = "") -> tuple[Column, ...]:
        """Return the columns of ``reads_of`` an input, in order; the first one if only its rows are counted."""
        every, used = self.inputs.get(name, ()), self.reads_of(part).get(name)
        return tuple(column for column in every if used is None or column[0] in used) or every[:1]
