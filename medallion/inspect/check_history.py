"""The history of each expectation: passed and failed records per check, from the event log."""

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
    """The result of one expectation in one check. passed, failed: numbers of rows; None if unknown.

    observed: the finding in words, for expectations that are judged by their history; else empty.
    """

    hour: str
    run_id: str
    status: str
    passed: int | None
    failed: int | None
    observed: str = ""

    @property
    def failed_as_a_whole(self) -> bool:
        """Whether it failed for the table as a whole, without any single record failing."""
        return self.status != "succeeded" and self.failed == 0

    @property
    def failed_records(self) -> int | None:
        """The number of failed records; None if unknown, or if the table failed as a whole."""
        return None if self.failed_as_a_whole else self.failed

    @property
    def passed_records(self) -> int | None:
        """The number of passed records; None if unknown, or if the table failed as a whole."""
        return None if self.failed_as_a_whole else self.passed


@dataclass(frozen=True)
class Trend:
    """One expectation of one table. checks: its most recent checks, oldest first."""

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
        """Failed records of each check in one line; ``x`` if the table failed as a whole, ``?`` if unknown."""
        return " ".join(map(_count, self.checks))


def _count(check: Judged) -> str:
    if check.failed is None:
        return "?"
    return "x" if check.failed_as_a_whole else str(check.failed)


def trends(lake: Lake, table: str | None = None, last: int = 24, hour: str | None = None) -> list[Trend]:
    """Return the trend of each expectation in the newest check of its table: failed ones first, then in table order.

    table: restricts the result to this table. last: the maximum number of checks per expectation. hour: ends the trends
    with the newest check of that hour. Checks are those of the 7 days before the newest event, or, with ``hour``, all
    checks up to it.
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
    places |= {name: len(places) for name in newest if name not in places}  # tables that no longer exist
    return sorted(known, key=lambda trend: (order.get(trend.last.status, 2), places[trend.table], not trend.is_broken))
