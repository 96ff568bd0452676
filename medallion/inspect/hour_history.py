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
MAX_DELAY = timedelta(days=1)  # from the end of an hour to its release, of a lake that is refreshed as hours pass


@dataclass(frozen=True)
class HourMark:
    """One hour; run_id: the run that made it so, such as the one that published it; None where none did anything."""

    hour: str
    status: HourStatus
    run_id: str | None = None


def hour_history(lake: Lake, pending: Collection[str] = (), running: Collection[str] = ()) -> list[HourMark]:
    """Every hour from the first to the last that is known, of the newest MAX_DAYS days, oldest first.

    An hour that lies between others and of which neither source nor lake knows anything is missing.

    Args:
        lake: Whose event log and releases are read.
        pending: The hours that the source has and the lake has not.
        running: The ids of the runs at work now.
    """
    steps: dict[str, list[EventRow]] = {}
    for row in event_log.read(lake, event_log.RECENT, COLUMNS):
        if row.hour and row.table_name is None:
            # A restatement checks and publishes its last hour for all its hours.
            for hour in {row.hour, *row.details.get("restated", ())}:
                steps.setdefault(hour, []).append(row)
    releases = {release.hour: release for release in read_all(lake) if release.hour}
    # An hour that the source does not have, asked for by mistake, does not stretch the span.
    worked_on = {hour for hour, rows in steps.items() if any(map(_did_something, rows))}
    known = sorted({*worked_on, *releases, *pending})
    marks = (_mark(hour, steps.get(hour, []), releases.get(hour), pending) for hour in _span(known))
    return [_if_running(mark, steps.get(mark.hour, []), running) for mark in marks]


def goes_with_clock(releases: Iterable[Release]) -> bool:
    """Whether some kept release was published within a day of its hour's end: not so for a history that is replayed."""
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
    """Return ``mark`` as running where a run is at work on the hour and has not published it."""
    last = next((row.run_id for row in reversed(steps) if row.run_id in running), None)
    if last is None or any(row.run_id == last and _publishes(row) for row in steps):
        return mark
    return HourMark(mark.hour, "running", last)


def _is_applied_again(steps: Sequence[EventRow]) -> bool:
    """Whether a run applied the hour after another had: a restatement does so, before or after it was published."""
    applied_by: set[str] = set()
    for row in steps:
        if row.event_type == "apply" and row.status in DID_WORK:
            if applied_by - {row.run_id}:
                return True
            applied_by.add(row.run_id)
    return False
