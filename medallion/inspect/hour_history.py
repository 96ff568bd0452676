"""The state of each hour: published, running, red, missing, skipped, restated, reprocessed or pending."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from medallion.hours import ONE_HOUR, format_hour, parse_hour
from medallion.ops import event_log
from medallion.ops.event_schema import DID_WORK, EventRow
from medallion.ops.releases import Release, read_all
from medallion.storage.lake import Lake

HourStatus = Literal["published", "running", "restated", "reprocessed", "red", "skipped", "pending", "missing"]
COLUMNS = ("run_id", "hour", "event_type", "table_name", "status", "details")
MAX_DAYS = 14
MAX_DELAY = timedelta(days=1)  # from the end of an hour to its release, in a lake that is refreshed in real time


@dataclass(frozen=True)
class HourMark:
    """The status of one hour. run_id: the run that caused it, such as the one that published it; None if no run did."""

    hour: str
    status: HourStatus
    run_id: str | None = None


def hour_history(lake: Lake, pending: Collection[str] = (), running: Collection[str] = ()) -> list[HourMark]:
    """Return the status of every hour from the first to the last known one in the newest MAX_DAYS days, oldest first.

    An hour between others that is unknown to both source and lake is missing.

    Args:
        lake: The lake whose event log and releases are read.
        pending: The hours that the source has and the lake does not have.
        running: The ids of the runs that are running now.
    """
    steps: dict[str, list[EventRow]] = {}
    for row in event_log.read(lake, event_log.RECENT, COLUMNS):
        if row.hour and row.table_name is None:
            # A restatement checks and publishes once, at its last hour, for all its hours.
            for hour in {row.hour, *row.details.get("restated", ())}:
                steps.setdefault(hour, []).append(row)
    releases = {release.hour: release for release in read_all(lake) if release.hour}
    # An hour that was requested by mistake and that the source does not have must not extend the range.
    worked_on = {hour for hour, rows in steps.items() if any(map(_did_something, rows))}
    known = sorted({*worked_on, *releases, *pending})
    marks = (_mark(hour, steps.get(hour, []), releases.get(hour), pending) for hour in _span(known))
    return [_if_running(mark, steps.get(mark.hour, []), running) for mark in marks]


def goes_with_clock(releases: Iterable[Release]) -> bool:
    """Return whether any release was published within a day of its hour's end, which a replayed history never is."""
    return any(
        release.hour and release.published_at - parse_hour(release.hour) - ONE_HOUR < MAX_DELAY for release in releases
    )


def _did_something(row: EventRow) -> bool:
    return row.event_type != "land" or row.status in DID_WORK


def _span(known: Sequence[str]) -> list[str]:
    if not known:
        return []
    last = parse_hour(known[-1])
    first = max(parse_hour(known[0]), last.replace(hour=0) - timedelta(days=MAX_DAYS - 1))
    return [format_hour(first + number * ONE_HOUR) for number in range(int((last - first) / ONE_HOUR) + 1)]


def _mark(hour: str, steps: Sequence[EventRow], release: Release | None, pending: Collection[str]) -> HourMark:
    judged = [row for row in steps if row.event_type in ("check", "publish", "validate") and row.status != "skipped"]
    if judged and judged[-1].status == "failed":
        return HourMark(hour, "red", judged[-1].run_id)
    publishing = [row for row in steps if _publishes(row)]
    if publishing or release:
        run_id = publishing[-1].run_id if publishing else release.run_id if release else None
        if _is_applied_again(steps):
            return HourMark(hour, "restated", run_id)
        several = len({row.run_id for row in publishing}) > 1
        return HourMark(hour, "reprocessed" if several else "published", run_id)
    working = [row for row in steps if row.status != "skipped"] or steps
    run_id = str(working[-1].run_id) if working else None
    if hour in pending:
        return HourMark(hour, "pending", run_id)
    return HourMark(hour, "skipped" if any(row.status == "skipped" for row in steps) else "missing", run_id)


def _publishes(row: EventRow) -> bool:
    return row.event_type == "publish" and row.status in DID_WORK and "rolled_back_to" not in row.details


def _if_running(mark: HourMark, steps: Sequence[EventRow], running: Collection[str]) -> HourMark:
    """Return ``mark`` as running if a current run is working on the hour and has not published it."""
    last = next((row.run_id for row in reversed(steps) if row.run_id in running), None)
    if last is None or any(row.run_id == last and _publishes(row) for row in steps):
        return mark
    return HourMark(mark.hour, "running", last)


def _is_applied_again(steps: Sequence[EventRow]) -> bool:
    """Return whether the hour was applied by a second run, as a restatement does, whether or not it was published."""
    applied_by: set[str] = set()
    for row in steps:
        if row.event_type == "apply" and row.status in DID_WORK:
            if applied_by - {row.run_id}:
                return True
            applied_by.add(row.run_id)
    return False
