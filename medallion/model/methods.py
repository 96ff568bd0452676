"""How a table can be refreshed: values that are derived from its query, and declared by nobody.

``refresh.lock`` has one for each table. What may follow from a change, and why, is proven in the modules ``proof_*``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

POLICIES = ("auto", "incremental", "incremental strict", "full")


@dataclass(frozen=True)
class Via:
    """How rows of an input lead to a key that they do not have.

    Args:
        column: The column of the input.
        through: Another input, in which its values are found.
        as_column: The column in which they are found there.
    """

    column: str
    through: str
    as_column: str


@dataclass(frozen=True)
class ByKey:
    """Incremental upsert: the rows with those values of ``column`` that a change touches are recomputed and replaced.

    Right for a table whose rows with one value of ``column`` follow from the input rows with that value.

    Args:
        column: The key.
        via: How a row of an input without such a column leads to one: ``{"silver_customers": Via("customer_id",
            "bronze_orders", "user_id")}`` says that a customer_id is found as user_id in bronze_orders.
        columns: By input that has the key, the column with it; where empty, those that are called like it.
    """

    column: str
    via: Mapping[str, Via] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Additive:
    """Incremental aggregate: inserted rows are added to sums and counts, deleted rows are subtracted.

    Args:
        parts: Common table expressions of the query, each over one input or over an earlier part, of keys, SUM and
            COUNT alone; the rest of the query is computed from them in full. COUNT(DISTINCT x) adds up where the input
            is refreshed by key x: a change then brings all rows of an x, as they were and as they are.
    """

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Recent:
    """Incremental: only the newest part of an input matters.

    Args:
        input: The table that it is the newest part of.
        column: What orders its rows, a moment.
        span: How far before the largest value of ``column`` rows matter.
    """

    input: str
    column: str
    span: timedelta


@dataclass(frozen=True)
class Full:
    """All rows are computed each time. reason: why nothing else is done, in a sentence."""

    reason: str = field(default="", compare=False, repr=False)


Method = ByKey | Additive | Recent | Full
