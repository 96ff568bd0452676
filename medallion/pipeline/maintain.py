"""Upkeep of a lake that runs for years: merge small files; remove old versions, logs, reports and leftovers.

Everything that a kept release names is kept, and everything younger than the retention time.
"""

import json
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from medallion.checks import report_store
from medallion.errors import MedallionError, one_line
from medallion.ingest import ledger
from medallion.ingest.restatement import read_restatement
from medallion.ingest.unpublished import find_red
from medallion.model.methods import ByKey
from medallion.model.table import Table
from medallion.ops import releases
from medallion.ops.holds import held_releases
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run
from medallion.refresh.additive import state_groups
from medallion.refresh.commits import files_by_key
from medallion.settings import KEEP_DAYS, KEEP_HOURS
from medallion.storage import fence, files
from medallion.storage.added_up import add_up
from medallion.storage.clustering import as_clustered, cluster
from medallion.storage.delta_writes import properties, timestamp_literal
from medallion.storage.files import Place
from medallion.storage.foreign_commits import ChangedByOthers, provenance, rewritten
from medallion.storage.lake import Lake, state_of
from medallion.storage.log_cleanup import clean_log, turn_off_log_cleanup
from medallion.storage.named_versions import has_version, moment_set_aside, set_aside_folders
from medallion.storage.purge import purge
from medallion.storage.rewind import require_version_before
from medallion.storage.table_features import note_of
from medallion.storage.vacuum import vacuum

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FILE_BYTES = 8 << 20  # about the size of a Bronze file as it is loaded, so that these are left alone
SPARE_FILES = 8  # a table with up to so many files more than needed is not worth a rewrite
_LOG_DAYS = 30  # Delta's own default: younger log entries are never removed


@dataclass(frozen=True)
class Retention:
    """How long things are kept.

    hours: for old versions of tables, and the releases that name them; the newest two releases are always kept, and
    those that are held by name. days: for events, validation reports and landed change files.
    """

    hours: int = KEEP_HOURS
    days: int = KEEP_DAYS


def maintain(run: Run, driver: Driver, keep: Retention) -> Outcome:
    """Run the upkeep of the whole lake as its one writer, with one event per table.

    Raises:
        MedallionError: The upkeep of a table failed; that of the others is done.
        LeaseLost: Another writer has taken over; the rest is not done.
    """
    lake = driver.lake
    with driver.recording(run, "maintain") as log:
        with log.timed("maintain", cpu=driver.cpu) as whole:
            whole.engine = "delta-rs"
            merged = removed = 0
            failed: dict[str, Exception] = {}
            retained, hours = releases.read_all(lake), _hours_to_go_back_to(driver)
            with _noting(failed, "releases"):
                retained = _keep_releases(lake, retained, keep)
            states = {
                f"{table.name}.{part}": groups
                for layer in driver.tables.layers
                for table in driver.tables.queries(layer)
                for part, groups in state_groups(table).items()
            }
            for name, path in _tables(driver):
                with _noting(failed, name), log.timed("maintain", None, name) as event:
                    event.engine = "delta-rs"
                    needed = _named_versions(lake, name, retained) | _versions_to_go_back_to(driver, name, hours)
                    done = maintain_table(lake, path, needed, keep, _key_of(driver, name), states.get(name))
                    event.details = done
                    merged, removed = merged + done["merged"], removed + done["removed"]
            if "event_log" not in failed:
                with _noting(failed, "event_log"):
                    _forget_events(lake, keep)
            stale = remove_expired_files(lake, keep) + _forget_set_aside(lake, retained, keep)
            whole.details = {
                "releases": [release.release_id for release in retained],
                "reports_and_landed_files": stale,
            }
            if failed:
                first = next(iter(failed.values()))
                raise MedallionError(
                    f"upkeep of {', '.join(failed)} failed, of everything else it is done; the first error:"
                    f" {one_line(first)}"
                )
        message = (
            f"{merged:,} small files merged, {removed:,} old data files, {stale:,} reports and landed files removed"
        )
        driver.report(message)
    return Outcome("succeeded", message, run.hour)


@contextmanager
def _noting(failed: dict[str, Exception], name: str) -> Iterator[None]:
    """Record the error of a table in ``failed`` and continue with others, but not after losing the writer lease."""
    try:
        yield
    except fence.LeaseLost:
        raise
    except Exception as error:
        failed[name] = error


def _keep_releases(lake: Lake, published: list[releases.Release], keep: Retention) -> list[releases.Release]:
    """Delete releases that are too old, and return the others."""
    since = datetime.now(UTC) - timedelta(hours=keep.hours)
    needed = {release.release_id for release in published[-2:]} | held_releases(lake).keys()
    gone = {r.release_id for r in published if r.published_at < since} - needed
    if gone:
        delta = lake.open(lake.releases)
        assert delta is not None, "there are releases"
        _require_own(lake, "releases", lake.releases, delta)
        delta.delete(f"release_id IN ({', '.join(map(str, sorted(gone)))})", commit_properties=properties(upon=delta))
    return [release for release in published if release.release_id not in gone]


def _require_own(lake: Lake, name: str, path: str, delta: "DeltaTable") -> None:
    """Raise ChangedByOthers if somebody else changed rows: a commit on top would make them look like ours."""
    if reason := rewritten(name, lake.at(path), delta, is_shared=name == "event_log"):
        raise ChangedByOthers(reason)


def _tables(driver: Driver) -> Iterator[tuple[str, str]]:
    """Yield name and path of every Delta table of the lake, the project's tables first."""
    lake = driver.lake
    yield from ((table.name, lake.path(table.name)) for table in driver.tables)
    yield from ((f"quarantine_{feed.topic}", lake.quarantine(feed.topic)) for feed in driver.tables.feeds)
    yield from ((name, lake.ops(name)) for name in ("event_log", "releases"))
    yield from ((path.name, str(path)) for path in files.glob(lake.aggregate_states, "*.*"))


def _named_versions(lake: Lake, name: str, retained: Collection[releases.Release]) -> set[int]:
    """Return the versions of a table that releases name, without those of a former table that was rebuilt since."""
    versions = [*filter(None, (release.version_of(name) for release in retained))]
    delta = lake.open(lake.path(name)) if versions else None
    return {version.version for version in versions if delta is not None and version.is_in(delta)}


def _hours_to_go_back_to(driver: Driver) -> set[str]:
    """Return the hours before which Bronze may have to be restored: of a restatement, and the first red hour."""
    restated, red = read_restatement(driver.lake), None
    with suppress(MedallionError):  # a table is damaged, which its own upkeep reports
        red = find_red(driver.lake, driver.tables, ledger.applied_hour(driver.lake, driver.tables), None)
    return {cause.hour for cause in (restated, red) if cause is not None}


def _versions_to_go_back_to(driver: Driver, name: str, hours: Collection[str]) -> set[int]:
    """Return the versions of a Bronze table before ``hours``, as far as they still exist."""
    versions = set()
    if name in {feed.name for feed in driver.tables.feeds}:
        for hour in hours:
            with suppress(MedallionError):
                versions.add(require_version_before(driver.lake, name, hour))
    return versions


def _key_of(driver: Driver, name: str) -> str | None:
    """Return the column that a table is clustered by, if there is one."""
    table = driver.tables.tables.get(name)
    return table.method.column if isinstance(table, Table) and isinstance(table.method, ByKey) else None


def maintain_table(
    lake: Lake,
    path: str,
    needed: Collection[int],
    keep: Retention,
    column: str | None = None,
    groups: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Merge small files of a table, checkpoint its log, and remove what no kept version needs.

    Args:
        lake: The lake.
        path: The path of the table.
        needed: The versions that must be kept, such as those that kept releases name.
        keep: How long other versions are kept.
        column: The column that the table is clustered by. The table stays clustered, unless sorting takes too much
            memory.
        groups: If it is aggregate state, the columns that identify a group.

    Returns:
        The numbers of files ``merged`` and ``removed``, and a ``note`` if there is one.
    """
    fence.require()
    delta = lake.open(path)
    if delta is None:
        return {"merged": 0, "removed": 0}
    folder = lake.at(path)
    lineage = provenance(folder, delta.version())
    if lineage.changes:
        note = f"left as it is, as somebody else changed it: {lineage.describe()}"
        return {"merged": 0, "removed": 0, "note": note}
    if by_spark := note_of(delta):
        return {"merged": 0, "removed": 0, "note": f"left as it is: {by_spark}"}
    # The metadata is repeated in each commit, so that readers need not search the log for it.
    metadata = json.dumps(lineage.origin) if lineage.origin else None
    turn_off_log_cleanup(delta, folder, metadata)
    merged, note, state = 0, "", state_of(delta)
    wanted = files_by_key(state, lake.marks_from)
    if column is not None and state.files > SPARE_FILES + wanted:
        size = max(1, state.bytes // wanted)
        merged, note = cluster(delta, column, size, state.bytes, lineage.origin)
        metadata = metadata if note else as_clustered(lineage.origin)
    else:
        merged = purge(delta, folder, metadata)
        has_spare_files = column is None and state.files > SPARE_FILES + state.bytes // _FILE_BYTES
        added_up = add_up(delta, folder, groups, metadata) if has_spare_files and groups is not None else 0
        merged += added_up
        if has_spare_files and not added_up:
            done = delta.optimize.compact(target_size=_FILE_BYTES, commit_properties=properties(metadata, upon=delta))
            merged += done["numFilesRemoved"]
    removed = vacuum(delta, folder, needed, keep.hours, metadata)
    fence.require()
    delta.update_incremental()
    delta.create_checkpoint()
    clean_log(folder, {*needed, delta.version()}, time.time() - max(_LOG_DAYS * 24, keep.hours) * 3600)
    return {"merged": merged, "removed": removed} | ({"note": note} if note else {})


def _forget_events(lake: Lake, keep: Retention) -> None:
    delta = lake.open(lake.event_log)
    if delta is not None:
        before = datetime.now(UTC) - timedelta(days=keep.days)
        _require_own(lake, "event_log", lake.event_log, delta)
        delta.delete(f"event_timestamp < {timestamp_literal(before)}", commit_properties=properties(upon=delta))


def remove_expired_files(lake: Lake, keep: Retention) -> int:
    """Remove old reports and landed files, and unfinished files that a crash left; return the number of old ones.

    The manifest of a landed hour is kept: it shows whether a file that comes again has changed.
    """
    fence.require()
    before = time.time() - keep.days * 86_400
    stale = report_store.prune(lake.reports, before)
    files.remove_tree(lake.decoded)
    # A partly copied snapshot is kept: the next load copies the rest.
    unfinished = [file for file in lake.landing.rglob("*.part") if "_snapshot" not in file.parts]
    for file in [*unfinished, *_old_landed_files(lake, before)]:
        stale += not file.name.endswith(".part")
        file.unlink()
    return stale


def _forget_set_aside(lake: Lake, retained: Collection[releases.Release], keep: Retention) -> int:
    """Remove tables that were set aside long ago and that no kept release is read from; return their number."""
    fence.require()
    before, gone = datetime.now(UTC) - timedelta(days=keep.days), 0
    for folder in set_aside_folders(lake):
        table, _, stamp = folder.name.rpartition("-")
        versions = filter(None, (release.version_of(table) for release in retained))
        if moment_set_aside(stamp) < before and not any(has_version(folder, version) for version in versions):
            files.remove_tree(folder)
            gone += 1
    return gone


def _old_landed_files(lake: Lake, before: float) -> Iterator[Place]:
    """Yield landed files older than ``before``, except of hours that are not published yet or are being restated."""
    newest, restated = releases.latest(lake), read_restatement(lake)
    published = (newest.newest_hour or newest.hour or "") if newest else ""
    needed = restated.hours if restated else ()
    for file in lake.landing.glob("[a-z]*/*.json"):
        if file.stat().st_mtime < before and file.stem <= published and file.stem not in needed:
            yield file
