"""Find the newest hour of Bronze if it is not published or a check of it failed; every command and DAG uses this.

So a shell, the scheduler and the pages find the same hour, and no hour is applied on top of a red one.
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
    """Return the last applied hour unless it was published and every check of it passed.

    Earlier releases count too: after a rollback, hours that were published before are not published again by
    themselves.

    Args:
        lake: The lake.
        tables: Its tables.
        applied: The last hour that every Bronze table has.
        restated: The restatement under way: its last hour is published again. Earlier hours are not, and are red only
            if somebody checked one on the way.
    """
    if applied is None or releases.latest(lake) is None:
        return None
    if restated is not None and not restated.rewound:
        return None
    # Until a layer is refreshed after the last hour, it has the rows whose failed check the restatement is to heal.
    former = restated.failed_before if restated is not None else ()
    red = read_red_hour(lake, tables.layers, of_current_rows=restated is not None, without=former)
    if red is not None:
        return UnpublishedHour(applied, red.run_id, replace(red, hour=min(red.hour, applied), until=applied))
    has_more_to_apply = restated is not None and bool(restated.remaining(applied))
    if has_more_to_apply or (restated is None and releases.was_published(lake, applied)):
        return None
    return UnpublishedHour(applied, "")


def find_red(lake: Lake, tables: Registry, applied: str | None, restated: Restatement | None) -> RedHour | None:
    """Return the first red hour; None if there is none.

    The arguments are those of ``find_unpublished``.
    """
    unpublished = find_unpublished(lake, tables, applied, restated)
    return unpublished.red if unpublished else None


def read_unpublished(lake: Lake, tables: Registry, applied: str | None) -> UnpublishedHour | None:
    """Return the hour of ``find_unpublished`` with the run that last worked on it, according to the event log."""
    unpublished = find_unpublished(lake, tables, applied, read_restatement(lake))
    if unpublished is None:
        return None
    rows = event_log.read_if_whole(lake, hour=applied) or []
    # A skipped step does not show which run is working on the hour.
    steps = [row for row in rows if row.table_name is None and row.status != "skipped"]
    return replace(unpublished, run_id=str(steps[-1].run_id)) if steps else unpublished


def find_unfinished(
    lake: Lake, tables: Registry, hour: str, applied: str | None, restated: Restatement | None, *, is_selection: bool
) -> str | None:
    """Return the last applied hour if ``hour`` must wait for its checks and its release; None if it need not wait.

    A check of ``hour`` might not see what an earlier hour broke, if rows were deleted and others inserted since.

    Args:
        lake: The lake.
        tables: Its tables.
        hour: The hour that is about to be applied.
        applied: The last hour that every Bronze table has.
        restated: The restatement under way.
        is_selection: Whether only selected tables are refreshed. Such runs leave hours unpublished on purpose, so they
            need not wait for an hour whose Bronze was checked.
    """
    unpublished = find_unpublished(lake, tables, applied, restated)
    if unpublished is None or unpublished.red is not None or hour <= unpublished.hour:
        return None
    record = read_check_record(lake, tables.layers[0]) if is_selection else None
    return None if record is not None and record.hour == unpublished.hour else unpublished.hour


def require_bronze_of_readers(lake: Lake, tables: Registry) -> None:
    """Raise ChangedByOthers if a Bronze table is older than in the newest release, because its folder was restored.

    Hours would be missing in it, or be applied again while other tables are hours ahead. The message names the hour to
    restate.
    """
    release = releases.latest(lake)
    for table in tables.layer(tables.fed_layer) if release else ():
        version = release.version_of(table.name) if release else None
        if version is None or (how := how_it_went_back(lake, version)) is None:
            continue
        had = lake.applied_hour(table.name)
        since = min((hour for hour in landed_hours(lake) if hour > (had or "")), default=None)
        way_out = f"{advice.restate(since)}, and its hours are applied again" if since else "restore the rest of it"
        raise ChangedByOthers(
            f"{table.name} {how} and ends with {hour_or_snapshot(had)}, and readers have version {version.version} of"
            f" {hour_or_snapshot(release.hour if release else None)}: somebody restored its folder; nothing was"
            f" written: {way_out}"
        )


def require_no_red_hour(
    lake: Lake, tables: Registry, hour: str, applied: str | None, restated: Restatement | None
) -> None:
    """Refuse ``hour`` while it or an earlier hour is red, unless it is the last applied hour, to check it again.

    A restatement begins with the first red hour, or before; its hours are allowed until a check of one fails.

    Raises HourOutOfOrder, which names the first red hour, what made it red, and how to heal it.
    """
    red = find_red(lake, tables, applied, restated)
    if red is not None and hour != applied and hour >= red.hour:
        what = f"hour {hour} must wait"
        raise HourOutOfOrder(red.refuse(what), red.refuse_outside(what))
