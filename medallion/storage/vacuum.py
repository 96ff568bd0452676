"""Remove data files, change files and deletion vectors that no named version needs."""

import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from medallion.storage import files
from medallion.storage.added_files import add_actions
from medallion.storage.deletion_vectors import FILE_SUFFIX, deleted_positions, file_name, vector_files
from medallion.storage.delta_writes import properties
from medallion.storage.files import Place
from medallion.storage.log_entries import read_entry

if TYPE_CHECKING:
    from deltalake import DeltaTable


def vacuum(delta: "DeltaTable", folder: Place, needed: Collection[int], hours: int, metadata: str | None) -> int:
    """Remove files that neither versions in ``needed`` nor versions of the last ``hours`` use; return their number.

    metadata: the JSON of the commit that wrote the rows.
    """

    # A full vacuum, because leftovers of a crash are in no log. It also lists files that were removed long ago.
    def by_delta_rs(*, dry_run: bool) -> list[str]:
        return delta.vacuum(
            hours,
            dry_run,
            enforce_retention_duration=False,
            full=True,
            keep_versions=sorted(needed) or None,
            commit_properties=properties(metadata, upon=delta),
        )

    names = [unquote(name) for name in by_delta_rs(dry_run=True)]
    vectors = {name for name in names if name.endswith(FILE_SUFFIX)}
    needed_vectors = _needed_vectors(delta, folder, needed, hours, vectors) if vectors else set()
    unneeded = [folder / name for name in names if name not in needed_vectors]
    presence = files.each(lambda file: file.exists(), unneeded)
    gone = [file for file, exists in zip(unneeded, presence, strict=True) if exists]
    if gone and vectors:  # delta-rs would remove needed vectors too, as leftovers of a crash
        files.each(lambda file: file.unlink(missing_ok=True), gone)
    elif gone:
        by_delta_rs(dry_run=False)
    if isinstance(folder, Path):
        for file in gone:
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum beside it
    return len(gone)


def _needed_vectors(
    delta: "DeltaTable", folder: Place, needed: Collection[int], hours: int, vectors: set[str]
) -> set[str]:
    """Return the files of vectors that the newest version uses, or that a version used which may still be read.

    Files that only unneeded versions in between used are kept too, until no older version is needed.
    """
    newest = delta.version()
    since, oldest = (time.time() - hours * 3600) * 1000, min(needed, default=newest)
    used_files = live_vectors(delta, folder)
    if used_files is None:
        return vectors
    for version in range(newest, 0, -1):
        try:
            entry = read_entry(folder, version)
        except FileNotFoundError:  # older than every needed version: log entries are kept longer than these
            break
        if version <= oldest and entry.info.get("timestamp", 0) < since:
            break
        used_files |= vector_files(entry.actions("remove"))
    return vectors & used_files


def live_vectors(delta: "DeltaTable", folder: Place) -> set[str] | None:
    """Return the files of vectors that an opened table uses, relative to its folder; None if the log does not say."""
    paths = {*_paths_with_vectors(delta)}
    live = add_actions(folder, delta.version(), paths)
    return vector_files(live.values()) if live.keys() == paths else None


def _paths_with_vectors(delta: "DeltaTable") -> list[str]:
    import pyarrow as pa

    marked = deleted_positions(delta)
    paths: list[str] = pa.table(delta.get_add_actions(flatten=True))["path"].to_pylist()
    return [path for path in paths if file_name(path) in marked]
