"""Clustering: sort the rows of a table by one column into files.

This moves rows without changing them, so it is committed with ``dataChange = false``: readers of the table's changes
see none.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medallion.storage.delta_writes import properties

if TYPE_CHECKING:
    from deltalake import DeltaTable

CLUSTER_MEMORY_BYTES = 1 << 30  # memory to sort a table by its key; the rest spills to disk
MAX_CLUSTER_BYTES = 4 << 30  # largest table that is sorted as a whole; in a larger one only small files are merged


def cluster(
    delta: "DeltaTable", column: str, file_bytes: int, table_bytes: int, origin: Mapping[str, Any]
) -> tuple[int, str]:
    """Sort a table by ``column`` into files of ``file_bytes``.

    origin: the metadata of the commit that wrote the rows, repeated here so that no older commit has to be read; empty
    if there is none. If the table is too large to sort, small files are merged instead, which takes the memory of one
    file.

    Returns:
        The number of replaced files, and why the table was not sorted; empty if it was.
    """
    from deltalake.exceptions import DeltaError

    why = f"larger than {MAX_CLUSTER_BYTES / 1e9:.1f} GB"
    if table_bytes <= MAX_CLUSTER_BYTES:
        try:
            done = delta.optimize.z_order(
                [column],
                target_size=file_bytes,
                max_spill_size=CLUSTER_MEMORY_BYTES,
                max_concurrent_tasks=1,
                commit_properties=properties(as_clustered(origin), upon=delta),
            )
            return int(done["numFilesRemoved"]), ""
        except DeltaError as error:
            if "Resources exhausted" not in str(error):
                raise
            why = f"sorting it takes more than {CLUSTER_MEMORY_BYTES / 1e6:.0f} MB of memory"
    metadata = json.dumps(origin) if origin else None
    merged = delta.optimize.compact(
        target_size=file_bytes, max_concurrent_tasks=1, commit_properties=properties(metadata, upon=delta)
    )
    return int(merged["numFilesRemoved"]), f"not clustered by {column}, only small files merged: {why}"


def as_clustered(origin: Mapping[str, Any]) -> str | None:
    """Return the JSON of the metadata of a commit that sorts the rows of the commit with ``origin``; None if empty."""
    return json.dumps({**origin, "clustered": True}) if origin else None
