"""Remove old entries of a Delta log, except those that a named version needs.

Delta's own cleanup does not know named versions: after a month without commits it removes all but the newest.
"""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from medallion.storage import files
from medallion.storage.delta_writes import properties
from medallion.storage.files import Place
from medallion.storage.log_writer import commit_actions, metadata_with

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG_CLEANUP = "delta.enableExpiredLogCleanup"  # a table property: false for our tables
_ENTRY = re.compile(r"\.?(\d{20})\..+")  # Hadoop's checksums are hidden files beside their entry
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.[0-9a-f-]{36})?\.parquet")


def turn_off_log_cleanup(delta: "DeltaTable", folder: Place, metadata: str | None = None) -> None:
    """Turn off Delta's log cleanup, which upkeep replaces, for a table that was created or restored with it on.

    folder: of the table. The log entry is written here, because delta-rs 1.6 would give a table that may have deletion
    vectors the feature ``variantType``, which it then refuses to write.
    """
    if delta.metadata().configuration.get(LOG_CLEANUP, "true") != "false":
        actions = [("metaData", metadata_with(delta, LOG_CLEANUP, "false"))]
        commit_actions(delta, folder, actions, properties(metadata, upon=delta), "SET TBLPROPERTIES", {})


def clean_log(folder: Place, needed: Collection[int], before: float) -> int:
    """Remove old log entries that no version of ``needed`` is read from, and return their number.

    A version is read from the newest checkpoint up to it and the commits since, so without such a checkpoint nothing is
    removed. folder: of the table. needed: at least its newest version. before: only entries written before this time,
    in seconds since the epoch, are removed.
    """
    places = (folder / "_delta_log").iterdir()
    entries = [(int(match[1]), place) for place in places if (match := _ENTRY.fullmatch(place.name))]
    oldest = min(needed)
    checkpoints = [version for version, place in entries if version <= oldest and _CHECKPOINT.fullmatch(place.name)]
    if not checkpoints:
        return 0
    base = max(checkpoints)
    old = [place for version, place in entries if version < base and place.stat().st_mtime < before]
    files.each(_remove, old)
    return len(old)


def _remove(place: Place) -> Any:
    place.unlink(missing_ok=True)
