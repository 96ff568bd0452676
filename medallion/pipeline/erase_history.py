"""End a table's history: a commit that repeats its metadata, a checkpoint, then removal of everything before.

Readers have a release at all times: the new versions are published before the old ones are removed.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.ops import releases
from medallion.ops.check_records import CheckedTable, read_check_records, write_check_record
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.storage import fence, files
from medallion.storage.change_feed import data_file
from medallion.storage.deletion_vectors import FILE_SUFFIX, deleted_positions
from medallion.storage.delta_writes import append_rows, properties
from medallion.storage.files import Place
from medallion.storage.foreign_commits import ChangedByOthers, provenance
from medallion.storage.lake import Lake, state_of
from medallion.storage.log_entries import identity_at
from medallion.storage.purge import purge
from medallion.storage.table_features import features_for_spark, require_writable_here
from medallion.storage.vacuum import live_vectors

if TYPE_CHECKING:
    from deltalake import DeltaTable

_ANY_SHARE = 1e-12  # share of deleted rows from which files are purged: any, since one may be a person's
_ENTRY = re.compile(r"\.?(\d{20})\..+")  # a file of a log, or a checksum beside it


@dataclass(frozen=True)
class Sealed:
    """A table whose version ``version`` has the rows of version ``before``, and needs none of its files."""

    path: str
    before: int
    version: int
    commit: str | None


@dataclass(frozen=True)
class Removed:
    """Files removed with the history of tables: their number, and their bytes."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: "Removed") -> "Removed":
        return Removed(self.files + other.files, self.bytes + other.bytes)


def seal_tables(driver: Driver, tainted: Collection[str]) -> dict[str, Sealed]:
    """Seal each table whose history is to end, and each that reads one: give it a version that needs no former one.

    Aggregate state that has not followed its inputs to their sealed versions is removed: the commits that it would
    follow go.

    tainted: the names of tables; the paths of aggregate states and other tables of the lake.

    Returns what was sealed, by name or path, inputs first.
    """
    lake, sealed = driver.lake, dict[str, Sealed]()
    for table in driver.tables:
        if table.name in tainted or any(name in sealed for name in table.inputs):
            sealed[table.name] = _seal(lake, table.name, lake.path(table.name), sealed)
    for place in files.glob(lake.aggregate_states, "*.*"):
        delta = lake.open(str(place))
        origin = provenance(place, delta.version()).origin if delta is not None else {}
        inputs = sealed.keys() & origin.get("inputs", {}).keys()
        if any(not _has_rows_of_sealed(lake, name, origin, sealed[name]) for name in inputs):
            for part in files.glob(lake.aggregate_states, f"{place.name.partition('.')[0]}.*"):  # may follow this one
                sealed.pop(str(part), None)
                files.remove_tree(part)
        elif inputs:
            sealed[str(place)] = _seal(lake, place.name, str(place), sealed)
    for path in sorted({*tainted} - {*driver.tables.tables} - {*sealed}):
        sealed[path] = _seal(lake, path, path, sealed)
    return sealed


def _seal(lake: Lake, name: str, path: str, sealed: Mapping[str, Sealed]) -> Sealed:
    delta = lake.opened(path)
    require_writable_here(name, path, delta)
    lineage, before = provenance(lake.at(path), delta.version()), delta.version()
    if lineage.changes and not path.endswith("/event_log"):
        raise ChangedByOthers(f"{name} was changed by somebody else: {lineage.describe()}; its history stays")
    origin = _with_inputs(lake, lineage.origin, sealed)
    metadata = json.dumps(origin) if origin else None
    while purge(delta, lake.at(path), metadata, least_share=_ANY_SHARE):
        pass
    if deleted_positions(delta):
        raise MedallionError(
            f"{name} has rows that are only marked as deleted, in files that only Spark can rewrite"
            f" ({features_for_spark(delta) or 'its log has no row counts'}): nothing is removed yet; run REORG TABLE"
            f" delta.`{path}` APPLY (PURGE) in Spark, then the same command again"
        )
    append_rows(delta, None, properties(metadata, upon=delta))
    delta.update_incremental()
    fence.require()
    delta.create_checkpoint()
    return Sealed(path, before, delta.version(), identity_at(lake.at(path), delta.version()))


def _with_inputs(lake: Lake, origin: Mapping[str, Any], sealed: Mapping[str, Sealed]) -> dict[str, Any]:
    """Return the metadata of a table's rows with the sealed versions of those inputs that have the same rows."""
    known = dict(origin)
    inputs = sealed.keys() & origin.get("inputs", {}).keys()
    moved = {name: sealed[name] for name in inputs if _has_rows_of_sealed(lake, name, origin, sealed[name])}
    if moved:
        known["inputs"] = {**known["inputs"], **{name: table.version for name, table in moved.items()}}
        commits = {name: table.commit for name, table in moved.items() if table.commit}
        known["commits"] = {**known.get("commits", {}), **commits}
    return known


def _has_rows_of_sealed(lake: Lake, name: str, origin: Mapping[str, Any], sealed: Sealed) -> bool:
    """Return whether what has this ``origin`` was computed from the rows that the input ``name`` has as sealed."""
    return lake.same_rows(name, origin["inputs"][name], sealed.before, origin.get("commits", {}).get(name))


def publish_sealed(driver: Driver, run: Run, sealed: Mapping[str, Sealed]) -> releases.Release:
    """Publish the sealed versions in place of those with the same rows, and update the records of checks to them."""
    lake, last = driver.lake, releases.require_release(driver.lake, None)
    own = {name: table for name, table in sealed.items() if name in last.versions}
    for record in read_check_records(lake, driver.tables.layers).values():
        if record is not None and own.keys() & record.tables.keys():
            tables = {name: _as_sealed(table, own.get(name)) for name, table in record.tables.items()}
            write_check_record(lake, replace(record, tables=tables))
    versions = {name: table.version for name, table in own.items()}
    commits = {name: table.commit for name, table in own.items() if table.commit}
    return releases.publish(
        lake,
        after=last,
        hour=last.hour,
        run_id=run.run_id,
        strategy=last.strategy,
        contents=releases.Contents(
            {**last.versions, **versions}, last.table_ids, last.row_counts, {**last.commits, **commits}
        ),
    )


def _as_sealed(checked: CheckedTable, sealed: Sealed | None) -> CheckedTable:
    if sealed is None or checked.version > sealed.version:
        return checked
    return replace(checked, version=sealed.version, commit=sealed.commit)


def releases_naming(lake: Lake, tainted: Collection[str]) -> list[int]:
    """Return the ids of the releases that name a table whose history ends."""
    return [release.release_id for release in releases.read_all(lake) if {*tainted} & release.versions.keys()]


def drop_releases(lake: Lake, numbers: Collection[int]) -> None:
    """Delete these releases in one commit, so that readers no longer see them."""
    if numbers:
        delta = lake.opened(lake.releases)
        condition = f"release_id IN ({', '.join(map(str, sorted(numbers)))})"
        delta.delete(condition, commit_properties=properties(upon=delta))


def cut_history(lake: Lake, table: Sealed) -> Removed:
    """Remove every file of a sealed table that its newest version does not read, and the log before that version."""
    folder, delta = lake.at(table.path), lake.opened(table.path)
    if delta.version() < table.version:
        raise MedallionError(f"{table.path} went back to version {delta.version()}: nothing of it was removed")
    fence.require()
    live = _live_files(folder, delta)
    gone = [file for file in folder.rglob("*") if file.is_file() and _is_of_before(file, folder, live, table.version)]
    size = sum(file.stat().st_size for file in gone)
    files.each(_remove, gone)
    return Removed(len(gone), size)


def _live_files(folder: Place, delta: "DeltaTable") -> set[str]:
    """Return the data files and deletion vectors of an opened table; all vectors if the log does not tell them."""
    vectors = live_vectors(delta, folder)
    live = {str(data_file(folder, path)) for path in (*state_of(delta).actions["path"], *(vectors or ()))}
    return live if vectors is not None else live | {str(file) for file in folder.rglob(f"*{FILE_SUFFIX}")}


def _is_of_before(file: Place, folder: Place, live: Collection[str], version: int) -> bool:
    if file.parent == folder / "_delta_log":
        entry = _ENTRY.fullmatch(file.name)
        return entry is not None and int(entry[1]) < version
    if file.name.startswith(".") and file.name.endswith(".crc"):  # Hadoop's checksum beside a file
        return str(file.with_name(file.name[1:-4])) not in live
    return str(file) not in live and "_delta_log" not in file.parts[len(folder.parts) :]


def _remove(file: Place) -> None:
    file.unlink(missing_ok=True)
