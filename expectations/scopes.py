"""What an expectation that passed before has to read once some rows have changed: plain values.

Each says what a verdict on the changed rows proves of the whole table. An expectation without one reads whole tables.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rows:
    """Each row passes or fails by itself: inserted rows are read."""


@dataclass(frozen=True)
class RowCount:
    """The expectation is about the number of rows, which Delta's log has."""


@dataclass(frozen=True)
class Keys:
    """Rows fail together with others of the same ``columns``: all that share them with a changed row are read."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Lookup:
    """Each row passes or fails by itself and the rows of other tables that it refers to.

    others: table, its column, and the column of the table under check that is equal to it. Inserted rows are looked at,
    and rows that refer to what changed in the other table, deleted rows included.
    """

    others: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Sums:
    """Sums over the table equal sums over table ``of``, where ``where`` is true: what changed must change both alike.

    measures: name, what is added up here, what is added up there; exact types alone, 1 to count rows.
    """

    of: str
    measures: tuple[tuple[str, str, str], ...]
    where: str = "TRUE"

    def whole(self) -> str:
        """The query that finds a row when the sums over whole tables differ."""
        own_sums = ", ".join(f"{_sum(mine)} AS {name}" for name, mine, _ in self.measures)
        other_sums = ", ".join(f"{_sum(theirs)} AS {name}" for name, _, theirs in self.measures)
        return self._differing(
            f"(SELECT {own_sums} FROM {{batch}})", f"(SELECT {other_sums} FROM {{{self.of}}} WHERE {self.where})"
        )

    def by_change(self) -> str:
        """The query that finds a row when what was inserted and deleted changes the sums differently."""
        own_sums, other_sums = (
            "(SELECT "
            + ", ".join(f"came.{name} - went.{name} AS {name}" for name, *_ in self.measures)
            + " FROM "
            + " CROSS JOIN ".join(
                f"(SELECT {', '.join(f'{_sum(part[side])} AS {part[0]}' for part in self.measures)}"
                f" FROM {{{table}_{kind}}} WHERE {where}) AS {alias}"
                for kind, alias in (("inserted", "came"), ("deleted", "went"))
            )
            + ")"
            for side, table, where in ((1, "batch", "TRUE"), (2, self.of, self.where))
        )
        return self._differing(own_sums, other_sums)

    def _differing(self, own_sums: str, other_sums: str) -> str:
        columns = ", ".join(f"found.{name}, expected.{name} AS expected_{name}" for name, *_ in self.measures)
        differ = " OR ".join(f"found.{name} <> expected.{name}" for name, *_ in self.measures)
        return f"SELECT {columns} FROM {own_sums} AS found CROSS JOIN {other_sums} AS expected WHERE {differ}"


@dataclass(frozen=True)
class Share:
    """At most ``allowed_percent`` of the non-null values of ``column`` are no ``key`` of ``table``.

    Both are counted, and the counts of the last check are brought up to date by what changed.
    """

    column: str
    table: str
    key: str
    allowed_percent: float


ByChange = Rows | RowCount | Keys | Lookup | Sums | Share


def _sum(expression: str) -> str:
    return f"COALESCE(SUM({expression}), 0)"
