"""The history of each expectation, check by check: passed and failed records, from the event log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medallion.ops import event_log
from medallion.ops.event_schema import EventRow
from medallion.ops.lake_tables import tables_of
from medallion.storage.lake import Lake

COLUMNS = ("hour", "layer", "table_name", "details", "attempt", "run_id")


@dataclass(frozen=True)
class Judged:
    """One expectation in one check. passed, failed: rows; None where they are not known, as without a verdict.

    observed: what was found, in words, by an expectation that is judged by its history; else empty.
    """

    hour: str
    run_id: str
    status: str
    passed: int | None
    failed: int | None
    observed: str = ""

    @property
    def failed_as_a_whole(self) -> bool:
        """Whether it failed for the table as a whole, of which no single record fails."""
        return self.status != "succeeded" and self.failed == 0

    @property
    def failed_records(self) -> int | None:
        """How many records failed; None where that is no number, as of a table as a whole."""
        return None if self.failed_as_a_whole else self.failed

    @property
    def passed_records(self) -> int | None:
        """How many records passed; None where that is no number."""
        return None if self.failed_as_a_whole else self.passed


@dataclass(frozen=True)
class Trend:
    """One expectation of one table; checks: the last ones, oldest first."""

    layer: str
    table: str
    expectation: str
    severity: str
    checks: Sequence[Judged]

    @property
    def last(self) -> Judged:
        """The newest check."""
        return self.checks[-1]

    @property
    def is_broken(self) -> bool:
        """Whether it failed in one of the checks, for a record or for the table as a whole."""
        return any(check.failed != 0 or check.status != "succeeded" for check in self.checks)

    @property
    def counts(self) -> str:
        """Rows that broke it, check by check, in a line; ``x`` where it did not hold of the table as a whole."""
        return " ".join(map(_count, self.checks))


def _count(check: Judged) -> str:
    if check.failed is None:
        return "?"
    return "x" if check.failed_as_a_whole else str(check.failed)


def trends(lake: Lake, table: str | None = None, last: int = 24, hour: str | None = None) -> list[Trend]:
    """Every expectation that the newest check of its table knows: what failed now first, then by table, in their order.

    table: of this table alone. last: so many checks, of the 7 days before the newest event. hour: as the newest check
    of that hour found them, with the checks of earlier hours.
    """
    checks_by_expectation: dict[tuple[str, str], list[tuple[EventRow, dict[str, Any]]]] = {}
    newest: dict[str, str] = {}
    since = None if hour else event_log.RECENT
    for row in event_log.read(lake, since, COLUMNS, event_type="check", table_name=table):
        if hour and (row.hour or "") > hour:
            continue
        if row.table_name and (judged := row.details.get("expectations")):
            newest[row.table_name] = row.event_id
            for meaning, counts in judged.items():
                checks_by_expectation.setdefault((row.table_name, meaning), []).append((row, counts))
    known = [
        Trend(
            *(checks[-1][0].layer or "", name, meaning, checks[-1][1]["severity"]),
            [
                Judged(
                    *(row.hour or "snapshot", row.run_id),
                    *(counts["status"], counts["passed"], counts["failed"], counts.get("observed", "")),
                )
                for row, counts in checks[-last:]
            ],
        )
        for (name, meaning), checks in checks_by_expectation.items()
        if checks[-1][0].event_id == newest[name] and hour in (None, checks[-1][0].hour)
    ]
    order = {"failed": 0, "warned": 1}
    places = {name: place for place, name in enumerate(tables_of(lake).tables)}
    places |= {name: len(places) for name in newest if name not in places}  # tables of before
    return sorted(known, key=lambda trend: (order.get(trend.last.status, 2), places[trend.table], not trend.is_broken))
