"""Scopes: what an expectation that passed before has to read after some rows have changed, as plain values.

Each scope says what a verdict on the changed rows proves about the whole table. An expectation without a scope reads
whole tables. A query must provably have the shape that its scope promises (medallion/checks/scope_proof.py), or it is
refused.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rows:
    """Each row passes or fails by itself, so only inserted rows are read."""


@dataclass(frozen=True)
class RowCount:
    """The expectation is about row counts, which are in Delta's log, so its query reads no column."""


@dataclass(frozen=True)
class Keys:
    """Rows with the same ``columns`` fail together, so all rows that share them with a changed row are read."""

    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("Keys names no column: name those that its rows share, or leave out by_change")


@dataclass(frozen=True)
class Lookup:
    """Each row passes or fails by itself and by the rows of other tables that it refers to.

    others: a table, its column, and the column of the checked table that equals it. Inserted rows are read, and rows
    that refer to changed rows of the other table, including deleted ones.
    """

    others: tuple[tuple[str, str, str], ...]

    def __post_init__(self) -> None:
        if not self.others:
            raise ValueError("a look-up names no table: use Rows, or leave out by_change")
        if len({table for table, *_ in self.others}) < len(self.others):
            raise ValueError("a look-up names a table twice: read it once, or leave out by_change")


@dataclass(frozen=True)
class Sums:
    """Sums over the table equal sums over the rows of ``of`` that match ``where``; a change must change both equally.

    measures: name, expression summed in this table, expression summed in ``of``; only exact types, 1 to count rows.
    NULL counts as 0; whether a measure may be NULL is a separate expectation. by: a column of both tables; the sums are
    equal for each of its values, and 0 for a value without rows. within: a table that also has this column; for values
    that it lacks the sums in this table must be 0, whatever ``of`` has.
    """

    of: str
    measures: tuple[tuple[str, str, str], ...]
    where: str = "TRUE"
    by: str = ""
    within: str = ""

    def __post_init__(self) -> None:
        if self.within and not self.by:
            raise ValueError(f"sums equal to those of {self.of} within {self.within}: say by which column")

    def whole(self) -> str:
        """Return the query for groups whose sums over whole tables differ."""
        is_within = self._is_in(f"{{{self.within}}}") if self.within else "TRUE"
        return self._differing(self._sum_checked("{batch}"), self._sum_source(f"{{{self.of}}}", is_within))

    def by_change(self) -> str:
        """Return the query for groups whose sums changed differently in the two tables.

        For groups that table ``within`` gained or lost, whole sums are compared, as no earlier check compared them.
        """
        if not self.within:
            return self._differing(*self._sum_changes())
        gained_or_lost = self._is_in("groups", "is_within <> was_within")
        parts = (
            *self._sum_changes(f"({gained_or_lost}) IS NOT TRUE", self._is_in("groups", "is_within AND was_within")),
            self._sum_checked("{batch}", gained_or_lost),
            self._sum_source(f"{{{self.of}}}", self._is_in("groups", "is_within AND NOT was_within")),
        )
        rows = f"{{{self.within}}}", f"{{{self.within}_inserted}}", f"{{{self.within}_deleted}}"
        return _GROUPS.format(self.by, *rows) + self._differing(*parts)

    def _sum_changes(self, checked: str = "TRUE", source: str = "TRUE") -> tuple[str, ...]:
        """Return the sums of inserted rows and the negated sums of deleted rows. checked, source: row conditions."""
        return (
            self._sum_checked("{batch_inserted}", checked),
            self._sum_checked("{batch_deleted}", checked, "-"),
            self._sum_source(f"{{{self.of}_inserted}}", source),
            self._sum_source(f"{{{self.of}_deleted}}", source, "-"),
        )

    def _sum_checked(self, rows: str, condition: str = "TRUE", sign: str = "") -> str:
        sums = ", ".join(
            f"{sign}SUM({checked}) AS {name}, NULL AS expected_{name}" for name, checked, _ in self.measures
        )
        return self._grouped(f"{sums} FROM {rows} WHERE {condition}")

    def _sum_source(self, rows: str, condition: str = "TRUE", sign: str = "") -> str:
        sums = ", ".join(f"NULL AS {name}, {sign}SUM({source}) AS expected_{name}" for name, _, source in self.measures)
        return self._grouped(f"{sums} FROM {rows} WHERE ({self.where}) AND {condition}")

    def _is_in(self, rows: str, condition: str = "TRUE") -> str:
        return f"{self.by} IN (SELECT known.{self.by} FROM {rows} AS known WHERE {condition})"

    def _differing(self, *parts: str) -> str:
        names = [column for name, *_ in self.measures for column in (name, f"expected_{name}")]
        columns = ", ".join(f"COALESCE(SUM({name}), 0) AS {name}" for name in names)
        differ = " OR ".join(
            f"COALESCE(SUM({name}), 0) <> COALESCE(SUM(expected_{name}), 0)" for name, *_ in self.measures
        )
        rows = " UNION ALL ".join(parts)
        return self._grouped(f"{columns} FROM ({rows}) AS parts") + f" HAVING {differ}"

    def _grouped(self, query: str) -> str:
        return f"SELECT {self.by}, {query} GROUP BY {self.by}" if self.by else f"SELECT {query}"


_GROUPS = """
    WITH groups AS MATERIALIZED (
        SELECT {0}, SUM(row_count) > 0 AS is_within, SUM(row_count - growth) > 0 AS was_within
        FROM (
            SELECT {0}, 1 AS row_count, 0 AS growth FROM {1}
            UNION ALL SELECT {0}, 0, 1 FROM {2}
            UNION ALL SELECT {0}, 0, -1 FROM {3}
        ) AS changes
        GROUP BY {0}
    )
"""


@dataclass(frozen=True)
class Share:
    """At most ``allowed_percent`` of the non-null values of ``column`` are missing in ``key`` of ``table``.

    Missing and non-null values are counted, and the counts of the last check are updated from the changes.
    """

    column: str
    table: str
    key: str
    allowed_percent: float


@dataclass(frozen=True)
class Tolerance:
    """Of the rows for which ``condition`` is not NULL, it is false for at most ``allowed_percent``.

    condition: SQL that means the same in Spark and DuckDB. Rows are counted as for a Share.
    """

    condition: str
    allowed_percent: float


@dataclass(frozen=True)
class Window:
    """The query reads only rows of ``table`` whose ``column`` is within ``days`` of the newest row."""

    table: str
    column: str
    days: int


Counted = Share | Tolerance
ByChange = Rows | RowCount | Keys | Lookup | Sums | Share | Tolerance | Window
