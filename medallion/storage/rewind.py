"""Restore a Bronze table to the version before an hour."""

from collections.abc import Collection

from medallion.errors import MedallionError, UsageError
from medallion.storage.delta_writes import properties
from medallion.storage.foreign_commits import provenance
from medallion.storage.lake import LEDGER, Lake, hour_in
from medallion.storage.log_cleanup import turn_off_log_cleanup
from medallion.storage.replaced_rows import bronze_metadata
from medallion.storage.restoring import restore_with_feed
from medallion.storage.table_features import require_writable_here


def require_version_before(lake: Lake, table: str, hour: str) -> int:
    """Return the newest version of a Bronze table without ``hour`` and later hours whose files still exist.

    Upkeep writes several versions with the same rows, and a release names only one of them.

    Raises:
        UsageError: The files no longer exist, and an older version would lack the hours in between.
    """
    delta = lake.open(lake.path(table))
    if delta is not None:
        require_writable_here(table, lake.path(table), delta)
    version = -1 if delta is None else delta.version()
    try:
        while delta is not None and version >= 0 and (hour_in(delta) or "") >= hour:
            version -= 1
            delta = lake.open(lake.path(table), version) if version >= 0 else None
    except MedallionError:
        version = -1  # the log starts here
    if version >= 0 and (lineage := provenance(lake.folder(table), version)).changes:
        version = -1 if lineage.version is None else lineage.version  # changes by others are undone too
    while version >= 0 and not lake.is_whole(table, version):
        version = version - 1 if _has_same_rows(lake, table, version) else -1
    if version < 0:
        raise UsageError(
            f"no version of {table} from before {hour} exists: maintenance or an erasure removed it; restate a later"
            " hour"
        )
    return version


def _has_same_rows(lake: Lake, table: str, version: int) -> bool:
    """Check whether the version before ``version`` has the same hour and rows; False if its log entry is gone."""
    try:
        versions = [lake.open(lake.path(table), number) for number in (version - 1, version)]
    except (MedallionError, OverflowError):
        return False
    hours = [delta and hour_in(delta) for delta in versions]
    return hours[0] == hours[1] and None not in versions and lake.same_rows(table, version - 1, version)


def rewind(lake: Lake, table: str, keys: Collection[str], hour: str) -> int:
    """Restore a Bronze table and its ledger to the version before ``hour``, in one commit; return that version.

    keys: the key columns of the table.

    Raises:
        UsageError: The files of that version no longer exist.
    """
    from deltalake import PostCommitHookProperties

    target = require_version_before(lake, table, hour)
    former = lake.open(lake.path(table), target)
    delta = lake.open(lake.path(table))
    assert delta is not None, f"{table} has a version {target}"
    assert former is not None, f"{table} has a version {target}"
    # A restore does not change the ledger, and its entry cannot be removed: 0 stands for the snapshot alone.
    number = former.transaction_version(LEDGER) or 0
    commit = properties(bronze_metadata(keys, "rewind"), (LEDGER, number), upon=delta)
    if restore_with_feed(delta, lake.folder(table), former, commit):
        return target
    # A restore also resets the properties of the table, including the one that keeps old log entries.
    hook = PostCommitHookProperties(cleanup_expired_logs=False)
    delta.restore(
        target,
        commit_properties=commit,
        post_commithook_properties=hook,
    )
    turn_off_log_cleanup(delta, lake.folder(table))
    return target
