"""What is proven of a table: a value, by which its refresh goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from medallion.model.plan import Column


@dataclass(frozen=True)
class Proof:
    """What is proven of a table: how its refresh goes, and of what columns.

    Args:
        table: Its name.
        fingerprint: Of all that the proof goes by: query, method, keys, and the columns of its inputs.
        query: The fingerprint of the query alone.
        method: Its refresh method, in words.
        columns: Name and type of each column that it gives.
        inputs: The columns of each input that its query sees, in order.
        restricted: Of an upsert, by input that has the key, the column with it.
        unproven: Why nothing could be proven here, in one line: the table is then recomputed in full.
    """

    table: str
    fingerprint: str
    query: str
    method: str
    columns: tuple[Column, ...]
    inputs: Mapping[str, tuple[Column, ...]]
    restricted: Mapping[str, str] = field(default_factory=dict)
    unproven: str = ""
