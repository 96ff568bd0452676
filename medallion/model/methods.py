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
        also: Further ways, of an input that is read more than once: a change of it goes all of them.
    """

    column: str
    through: str
    as_column: str
    also: tuple["Via", ...] = ()

    @property
    def ways(self) -> "tuple[Via, ...]":
        """This way and the further ones."""
        return (self, *self.also)


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
            is refreshed by key x: a change then contains all rows of an x, before and after.
    """

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Recent:
    """Incremental: only the newest part of an input matters.

    Args:
        input: The table that it is the newest part of.
        column: The TIMESTAMP or DATE column that orders its rows.
        span: How far before the largest value of ``column`` rows matter.
    """

    input: str
    column: str
    span: timedelta


@dataclass(frozen=True)
class KeptItem:
    """A column of a kept relation.

    Args:
        name: What it is called.
        kind: What it is: "key" for a value of the rows or of the groups; else the aggregate that it is, in SQL.
        text: The value, or what is aggregated, in SQL.
        condition: Of an aggregate with FILTER, what that asks for, in SQL.
        type: Its type in SQL.
    """

    name: str
    kind: str
    text: str
    condition: str = ""
    type: str = ""


@dataclass(frozen=True)
class KeptPart:
    """A relation of a query of which state is kept: its rows, or what its groups add up to.

    Args:
        name: What the rest of the query calls it.
        ctes: The common table expressions that its text reads, in SQL, with their WITH; empty where it reads none.
        source: From what its columns are taken, in SQL: FROM and all that follows, but for the groups.
        items: Its columns, in order.
        is_grouped: Whether it has one row per group: by the keys among its items, or one in all where it has none.
        is_distinct: Whether its groups are written as SELECT DISTINCT.
        grouping: What follows GROUP BY where that is ROLLUP, CUBE or GROUPING SETS, in SQL; empty where its groups are
            those of its keys.
        by: The key by which its rows follow from those of its inputs; without one each follows from one row of one.
    """

    name: str
    ctes: str
    source: str
    items: tuple[KeptItem, ...]
    is_grouped: bool
    is_distinct: bool = False
    grouping: str = ""
    by: ByKey | None = None


@dataclass(frozen=True)
class Kept:
    """Incremental aggregate over any rows: what a change of the inputs adds to kept relations is the difference of what
    they give for the touched keys, before and after.

    Args:
        parts: The relations that are kept.
        rest: The table's query with each of them in braces, like an input.
    """

    parts: tuple[KeptPart, ...]
    rest: str


@dataclass(frozen=True)
class Full:
    """All rows are computed each time. reason: why nothing else is done, in a sentence."""

    reason: str = field(default="", compare=False, repr=False)


Method = ByKey | Additive | Kept | Recent | Full
