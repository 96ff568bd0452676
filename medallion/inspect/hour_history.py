"""The state of each hour: published, red, missing, skipped, restated or pending."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from medallion.hours import ONE_HOUR, format_hour, parse_hour
from medallion.ops import event_log
from medallion.ops.event_schema import EventRow
from medallion.ops.releases import Release, read_all
from medallion.storage.lake import Lake

HourStatus = Literal["published", "restated", "red", "skipped", "pending", "missing"]
COLUMNS = ("run_id", "hour", "event_type", "table_name", "status", "details")
MAX_DAYS = 14
MAX_DELAY = timedelta(days=1)  # from the end of an hour to its release, of a lake that goes with the clock


@dataclass(frozen=True)
class HourMark:
    """One hour; run_id: the last run that did something about it, None where none did."""

    hour: str
    status: HourStatus
    run_id: str | None = None


def hour_history(lake: Lake, pending: Collection[str] = ()) -> list[HourMark]:
    """Every hour from the first to the last that is known, of the newest MAX_DAYS days, oldest first.

    pending: the hours that the source has and the lake has not. An hour that lies between others and of which neither
    knows anything is missing.
    """
    steps: dict[str, list[EventRow]] = {}
    for row in event_log.read(lake, event_log.RECENT, COLUMNS):
        if row.hour and row.table_name is None:
            steps.setdefault(row.hour, []).append(row)
    releases = {release.hour: release for release in read_all(lake) if release.hour}
    known = sorted({*steps, *releases, *pending})
    return [_mark(hour, steps.get(hour, []), releases.get(hour), pending) for hour in _span(known)]


def goes_with_clock(releases: Iterable[Release]) -> bool:
    """Whether some kept release was published within a day of its hour's end: not so for a history that is replayed."""
    return any(
        release.hour and release.published_at - parse_hour(release.hour) - ONE_HOUR < MAX_DELAY for release in releases
    )


def _span(known: Sequence[str]) -> list[str]:
    if not known:
        return []
    last = parse_hour(known[-1])
    first = max(parse_hour(known[0]), last.replace(hour=0) - timedelta(days=MAX_DAYS - 1))
    return [format_hour(first + number * ONE_HOUR) for number in range(int((last - first) / ONE_HOUR) + 1)]


def _mark(hour: str, steps: Sequence[EventRow], release: Release | None, pending: Collection[str]) -> HourMark:
    run_id = str(steps[-1].run_id) if steps else release.run_id if release else None
    publishing = {
        row.run_id
        for row in steps
        if row.event_type == "publish" and row.status != "failed" and "rolled_back_to" not in row.details
    }
    judged = [row.status for row in steps if row.event_type in ("check", "publish", "validate")]
    if judged and judged[-1] == "failed":
        return HourMark(hour, "red", run_id)
    if len(publishing) > 1:
        return HourMark(hour, "restated", run_id)
    if publishing or release:
        return HourMark(hour, "published", run_id)
    if hour in pending:
        return HourMark(hour, "pending", run_id)
    return HourMark(hour, "skipped" if any(row.status == "skipped" for row in steps) else "missing", run_id)
