"""The refresh methods of a table: values that are derived from its query, not declared.

``refresh.lock`` has one method for each table. The modules ``proof_*`` prove that it is right.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

POLICIES = ("auto", "incremental", "incremental strict", "full")


@dataclass(frozen=True)
class Via:
    """A path from rows of an input that does not have the key to the key.

    Args:
        column: The column of the input.
        through: Another input, in which its values are looked up.
        as_column: The column of ``through`` with these values.
        also: Further paths, for an input that is read more than once; a change of the input follows all of them.
    """

    column: str
    through: str
    as_column: str
    also: tuple["Via", ...] = ()

    @property
    def ways(self) -> "tuple[Via, ...]":
        """This path and the further ones."""
        return (self, *self.also)


@dataclass(frozen=True)
class ByKey:
    """Incremental upsert: rows whose value of ``column`` is touched by a change are recomputed and replaced.

    It is right for a table whose rows with a value of ``column`` depend only on the input rows with that value.

    Args:
        column: The key.
        via: By input without the key, the path to it: ``{"silver_customers": Via("customer_id", "bronze_orders",
            "user_id")}`` says that the value of customer_id is looked up in user_id of bronze_orders.
        columns: By input with the key, its key column; if empty, the columns with the name of the key.
    """

    column: str
    via: Mapping[str, Via] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Additive:
    """Incremental aggregate: inserted rows are added to sums and counts, deleted rows are subtracted.

    Args:
        parts: Common table expressions of the query that have only keys, SUM and COUNT, each over one input or over an
            earlier part; the rest of the query is computed from them in full. COUNT(DISTINCT x) adds up if the input is
            refreshed by key x, because a change then contains all rows of an x, before and after.
    """

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Recent:
    """Incremental: only the newest rows of an input matter.

    Args:
        input: The input of which only the newest rows matter.
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
        name: The name of the column.
        kind: "key" for a value of the rows or of the groups; else the SQL name of its aggregate.
        text: The value, or the input of the aggregate, in SQL.
        condition: The FILTER condition of the aggregate in SQL, if it has one.
        type: Its SQL type.
    """

    name: str
    kind: str
    text: str
    condition: str = ""
    type: str = ""


@dataclass(frozen=True)
class KeptPart:
    """A relation of a query whose state is kept: its rows, or the aggregates of its groups.

    Args:
        name: Its name in the rest of the query.
        ctes: The WITH clause of the common table expressions that its text reads; empty if it reads none.
        source: The SQL from FROM onwards, without GROUP BY.
        items: Its columns, in order.
        is_grouped: Whether it has one row per group: by the keys among its items, or a single row without keys.
        is_distinct: Whether its groups are written as SELECT DISTINCT.
        grouping: The SQL after GROUP BY if that is ROLLUP, CUBE or GROUPING SETS; empty if it groups by its keys.
        by: The key that connects its rows to the input rows that they depend on; None if each row depends on one row
            of one input.
        whole: The inputs of which every row may matter to every key; a change of one of them rebuilds the state.
    """

    name: str
    ctes: str
    source: str
    items: tuple[KeptItem, ...]
    is_grouped: bool
    is_distinct: bool = False
    grouping: str = ""
    by: ByKey | None = None
    whole: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kept:
    """Incremental aggregate over any relations, whose state is updated by differences.

    A change of the inputs adds to the state of a kept relation what its rows for the touched keys give after the
    change, less what they gave before.

    Args:
        parts: The kept relations.
        rest: The query of the table, with each kept relation in braces like an input.
    """

    parts: tuple[KeptPart, ...]
    rest: str


@dataclass(frozen=True)
class Full:
    """Full recompute: all rows are computed each time. reason: why no other method is used, in one sentence."""

    reason: str = field(default="", compare=False, repr=False)


Method = ByKey | Additive | Kept | Recent | Full
