"""Adopt or discard what somebody else changed in a table that no refresh recomputes."""

import json
from typing import TYPE_CHECKING

from medallion.errors import MedallionError, UsageError
from medallion.ingest.schema_evolution import plan_evolution
from medallion.model.table import ChangeLog, Feed, Table
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Outcome, Run
from medallion.storage.delta_writes import append_rows, properties
from medallion.storage.foreign_commits import ADOPTED, Provenance, provenance
from medallion.storage.lake import LEDGER, is_complete
from medallion.storage.log_cleanup import turn_off_log_cleanup
from medallion.storage.table_features import require_writable_here

if TYPE_CHECKING:
    from deltalake import DeltaTable


def adopt(run: Run, driver: Driver, table: str) -> Outcome:
    """Accept what somebody else changed in ``table``, in one commit of ours that names each of their commits.

    Raises UsageError if nobody else has changed the table, or if it is computed; MedallionError if its columns do not
    fit the declaration.
    """
    with driver.recording(run, "adopt") as log, log.timed("adopt", _layer(driver, table), table) as event:
        event.engine = "delta-rs"
        delta, lineage = _changed(driver, table)
        declared = driver.tables.tables.get(table)
        if isinstance(declared, Feed | ChangeLog):
            try:
                plan_evolution(declared, delta)
            except MedallionError as unfit:
                raise MedallionError(f"{unfit}; medallion discard {table} undoes what was changed") from None
        adopted = [commit.as_record() for commit in lineage.changes]
        metadata = json.dumps({**lineage.origin, ADOPTED: adopted})
        append_rows(delta, None, properties(metadata, upon=delta))
        event.details = {"version": delta.version(), "adopted": adopted}
        event.rows_in = sum(commit.added or 0 for commit in lineage.changes)
    return driver.report_outcome(Outcome("succeeded", f"{table}: adopted {lineage.describe()}", None))


def discard(run: Run, driver: Driver, table: str) -> Outcome:
    """Restore ``table`` to its last version of ours, in one commit.

    Raises UsageError if nobody else has changed the table, or if it is computed; MedallionError if files of that
    version no longer exist.
    """
    from deltalake import PostCommitHookProperties

    lake = driver.lake
    with driver.recording(run, "discard") as log, log.timed("discard", _layer(driver, table), table) as event:
        event.engine = "delta-rs"
        delta, lineage = _changed(driver, table)
        former = None if lineage.version is None else lake.open(_path(driver, table), lineage.version)
        if former is None or not _is_whole(driver, former):
            raise MedallionError(
                f"{table} cannot go back: the files of its last version of ours"
                f"{'' if lineage.version is None else f', {lineage.version},'} are not kept; medallion adopt {table}"
                " keeps what it has now"
            )
        number = former.transaction_version(LEDGER)
        discarded = [commit.as_record() for commit in lineage.changes]
        metadata = json.dumps({**lineage.origin, "discarded": discarded})
        commit = properties(metadata, None if number is None else (LEDGER, number), upon=delta)
        hook = PostCommitHookProperties(cleanup_expired_logs=False)
        delta.restore(former.version(), commit_properties=commit, post_commithook_properties=hook)
        turn_off_log_cleanup(delta, lake.at(_path(driver, table)), metadata)
        event.details = {"version": delta.version(), "restored": former.version(), "discarded": discarded}
    message = f"{table}: as it was at version {lineage.version}, without {lineage.describe()}"
    return driver.report_outcome(Outcome("succeeded", message, None))


def _changed(driver: Driver, table: str) -> "tuple[DeltaTable, Provenance]":
    """Return the table, and what others changed in it since our last commit. Raises UsageError if there is nothing."""
    if isinstance(driver.tables.tables.get(table), Table):
        raise UsageError(f"{table} is computed: the next refresh recomputes what somebody else changed in it")
    path = _path(driver, table)
    delta = driver.lake.open(path)
    if delta is None:
        raise UsageError(f"{table} has not been written: there is nothing to decide")
    require_writable_here(table, path, delta)
    lineage = provenance(driver.lake.at(path), delta.version())
    if not lineage.changes:
        raise UsageError(f"nobody else has changed {table} since its last commit: there is nothing to decide")
    return delta, lineage


def _is_whole(driver: Driver, delta: "DeltaTable") -> bool:
    return is_complete(delta, driver.lake.access)


def _layer(driver: Driver, table: str) -> str | None:
    node = driver.tables.tables.get(table)
    return node.layer if node else None


def _path(driver: Driver, table: str) -> str:
    """Return the table's path. Raises UsageError for a table that cannot be adopted or discarded."""
    lake = driver.lake
    if table == "event_log":
        raise UsageError("event_log is only added to: a change by somebody else is noted there, and holds up nothing")
    paths = {known.name: lake.path(known.name) for known in driver.tables if not isinstance(known, Table)}
    paths |= {f"quarantine_{feed.topic}": lake.quarantine(feed.topic) for feed in driver.tables.feeds}
    paths |= {"releases": lake.releases}
    if table not in paths:
        raise UsageError(f"there is no table {table[:80]!r}: choose {', '.join(sorted(paths))}")
    return paths[table]
