"""The newest hour of Bronze, where readers do not have it or a check found it red: every door asks here.

A shell, the scheduler and the pages find the same hour, and no hour is applied on top of a red one.
"""

from dataclasses import replace

from medallion.errors import HourOutOfOrder, advice
from medallion.hours import hour_or_snapshot
from medallion.ingest.ledger import landed_hours
from medallion.ingest.restatement import Restatement, read_restatement
from medallion.model.registry import Registry
from medallion.ops import event_log, releases
from medallion.ops.check_records import read_check_record
from medallion.ops.red_hours import RedHour, UnpublishedHour, read_red_hour
from medallion.storage.foreign_commits import ChangedByOthers
from medallion.storage.lake import Lake
from medallion.storage.named_versions import how_it_went_back


def find_unpublished(
    lake: Lake, tables: Registry, applied: str | None, restated: Restatement | None
) -> UnpublishedHour | None:
    """Return the last applied hour unless readers have it and every check of it passed.

    Not the newest release alone counts: after a roll back, hours that readers had are not published again unasked.

    Args:
        lake: The lake.
        tables: Its tables.
        applied: The last hour that every Bronze table has.
        restated: The restatement under way: its last hour is published again, earlier ones are not.
    """
    if applied is None or releases.latest(lake) is None or (restated is not None and restated.remaining(applied)):
        return None
    red = read_red_hour(lake, tables.layers)
    if red is not None:
        return UnpublishedHour(applied, red.run_id, replace(red, hour=min(red.hour, applied), until=applied))
    if restated is None and releases.was_published(lake, applied):
        return None
    return UnpublishedHour(applied, "")


def find_red(lake: Lake, tables: Registry, applied: str | None, restated: Restatement | None) -> RedHour | None:
    """Return the first red hour; None without one, and while hours are being restated. Arguments as above."""
    unpublished = find_unpublished(lake, tables, applied, restated)
    return unpublished.red if unpublished else None


def read_unpublished(lake: Lake, tables: Registry, applied: str | None) -> UnpublishedHour | None:
    """Return what ``find_unpublished`` does with the run that worked on the hour last, as the event log knows it."""
    unpublished = find_unpublished(lake, tables, applied, read_restatement(lake))
    if unpublished is None:
        return None
    rows = event_log.read_if_whole(lake, hour=applied) or []
    # A step that had nothing to do says nothing of who is at work on the hour.
    steps = [row for row in rows if row.table_name is None and row.status != "skipped"]
    return replace(unpublished, run_id=str(steps[-1].run_id)) if steps else unpublished


def find_unfinished(
    lake: Lake, tables: Registry, hour: str, applied: str | None, restated: Restatement | None, *, is_selection: bool
) -> str | None:
    """Return the last applied hour where ``hour`` must wait for its checks and its release; None where it need not.

    A check of ``hour`` would not see what an earlier one broke: rows that went, and others that came since.

    Args:
        lake: The lake.
        tables: Its tables.
        hour: The hour that is about to be applied.
        applied: The last hour that every Bronze table has.
        restated: The restatement under way.
        is_selection: Whether chosen tables alone are refreshed: these leave hours unpublished on purpose, and go on
            from one whose Bronze was checked.
    """
    unpublished = find_unpublished(lake, tables, applied, restated)
    if unpublished is None or unpublished.red is not None or hour <= unpublished.hour:
        return None
    record = read_check_record(lake, tables.layers[0]) if is_selection else None
    return None if record is not None and record.hour == unpublished.hour else unpublished.hour


def require_bronze_of_readers(lake: Lake, tables: Registry) -> None:
    """Refuse to go on from a Bronze table that is not what the newest release was made of, as its folder went back.

    Hours that it had would be missing in it, or be applied to it beside tables that are hours ahead. Raises
    ChangedByOthers, which names the hour to restate.
    """
    release = releases.latest(lake)
    for table in tables.layer(tables.fed_layer) if release else ():
        named = release.version_of(table.name) if release else None
        if named is None or (how := how_it_went_back(lake, named)) is None:
            continue
        had = lake.applied_hour(table.name)
        since = min((hour for hour in landed_hours(lake) if hour > (had or "")), default=None)
        way_out = f"{advice.restate(since)}, and its hours are applied again" if since else "restore the rest of it"
        raise ChangedByOthers(
            f"{table.name} {how} and ends with {hour_or_snapshot(had)}, and readers have version {named.version} of"
            f" {hour_or_snapshot(release.hour if release else None)}: somebody restored its folder; nothing was"
            f" written: {way_out}"
        )


def require_no_red_hour(
    lake: Lake, tables: Registry, hour: str, applied: str | None, restated: Restatement | None
) -> None:
    """Refuse to go on with ``hour`` while it or an earlier one is red, unless to check the last applied hour again.

    Hours of a restatement under way are applied: it begins with the first red hour, or before.

    Raises HourOutOfOrder, which names the first red hour, what made it red, and how it is healed.
    """
    red = find_red(lake, tables, applied, restated)
    if red is not None and hour != applied and hour >= red.hour:
        what = f"hour {hour} must wait"
        raise HourOutOfOrder(red.refuse(what), red.refuse_outside(what))
