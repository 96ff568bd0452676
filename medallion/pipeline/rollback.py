"""Roll back to an earlier release: publish the versions of its tables again."""

from medallion.errors import MedallionError
from medallion.hours import hour_or_snapshot
from medallion.ingest import ledger
from medallion.ingest.restatement import end_restatement, read_restatement
from medallion.ingest.unfinished_erasure import require_no_erasure
from medallion.ops import releases
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run
from medallion.storage.lake import Lake, is_complete, table_id
from medallion.storage.named_versions import TableRebuilt, open_current


def rollback(run: Run, driver: Driver, number: int | None) -> Outcome:
    """Publish the versions of an earlier release again: of release ``number``, else of the one before the current one.

    Rolling back twice without a number goes back two releases, because a release published by a rollback counts as the
    one that it restores.

    Raises UsageError if there is no such release, MedallionError if files of it are missing.
    """
    lake = driver.lake
    # A wrong number is refused before the run begins.
    releases.require_earlier(lake, releases.require_release(lake, None), number)
    with driver.recording(run, "rollback") as log, log.timed("rollback", cpu=driver.cpu) as event:
        require_no_erasure(lake)
        newest = releases.require_release(lake, None)
        target = releases.require_earlier(lake, newest, number)
        _end_if_published(driver, newest)
        ids = _require_whole(lake, target)
        log.hour = target.hour
        done = releases.publish(
            lake,
            after=newest,
            hour=target.hour,
            run_id=run.run_id,
            strategy=target.strategy,
            contents=releases.Contents(target.versions, ids, target.row_counts, target.commits, restores=target.origin),
        )
        event.details = {"release_id": done.release_id, "rolled_back_to": target.release_id}
    message = f"release {done.release_id} is release {target.release_id} again, of {hour_or_snapshot(target.hour)}"
    return driver.report_outcome(Outcome("succeeded", message, target.hour))


def _end_if_published(driver: Driver, newest: releases.Release) -> None:
    """End a restatement whose run died right after publishing; otherwise its hour would be published again."""
    restated = read_restatement(driver.lake)
    if restated is None or restated.remaining(ledger.applied_hour(driver.lake, driver.tables)):
        return
    feeds = [feed.name for feed in driver.tables.feeds]
    if newest.hour == restated.until and all(
        driver.lake.same_rows(name, newest.versions.get(name), driver.lake.version(name) or 0) for name in feeds
    ):
        end_restatement(driver.lake)


def _require_whole(lake: Lake, release: releases.Release) -> dict[str, str]:
    """Return the Delta id of each table of ``release``.

    Raises MedallionError if one was rebuilt since, or files of it are missing.
    """
    ids, gone = {}, []
    for version in filter(None, map(release.version_of, release.versions)):
        try:
            delta = open_current(lake, version)
        except TableRebuilt as reason:
            raise MedallionError(f"release {release.release_id} cannot be restored: {reason}") from None
        except MedallionError:
            delta = None
        if delta is None or not is_complete(delta, lake.access):
            gone.append(version.table)
        else:
            ids[version.table] = table_id(delta)
    if gone:
        raise MedallionError(f"release {release.release_id} cannot be restored: files of {', '.join(gone)} are missing")
    return ids
