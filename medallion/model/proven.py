"""The proof for a table: a plain value that its refresh uses."""

from collections.abc import Mapping
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
        reads: The names of the columns of each input that can affect its rows; if an input is missing, all of them can.
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
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs: Mapping[str, Needs] = field(default_factory=dict)

    def columns_of(self, name: str) -> tuple[Column, ...]:
        """Return the columns of an input that the query uses, in order; the first one if it only counts rows."""
        every, used = self.inputs.get(name, ()), self.reads.get(name)
        return tuple(column for column in every if used is None or column[0] in used) or every[:1]
