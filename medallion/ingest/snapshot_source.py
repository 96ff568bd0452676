"""The snapshot of a table at the source: a Delta table, one version of it, or Parquet or CSV files.

If Spark cannot read it in place as a Delta table, it is first copied or converted to one in the landing folder.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from medallion.errors import MedallionError, one_line
from medallion.hours import format_hour
from medallion.ingest.change_names import name_once_whole
from medallion.ingest.decode import decode_file
from medallion.ingest.parts import Parts
from medallion.ingest.put_together import Reading, land_files
from medallion.ingest.snapshot_columns import declared_batch, declared_schema, match_columns
from medallion.ingest.snapshot_copy import copy_snapshot
from medallion.ingest.source import Advance, FolderSource, Source, copy_file, no_progress
from medallion.ingest.tabular_files import CSV, Columns, kind_of, require_one_kind
from medallion.model.delivery import DELTA, Layout
from medallion.model.table import Feed
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.lake import Lake, state_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

_BATCH_ROWS = 50_000


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that fits the declaration of its feed.

    folder: a Delta table. given: declared column -> its name there, None if missing. rows: their number. shown: the
    name of the snapshot in messages. notes: warnings.
    """

    folder: Place
    given: Mapping[str, str | None]
    rows: int
    shown: str
    notes: tuple[str, ...] = ()


def open_snapshot(source: Source, feed: Feed, lake: Lake, advance: Advance = no_progress) -> Snapshot:
    """Return the snapshot of a feed, copied from the source if Spark cannot read it there.

    Raises MedallionError if there is none, or it lacks a required column or has values that a declared type may not
    hold.
    """
    path, staged = _path(feed), lake.landing / "_snapshot" / feed.name
    shown = f"{path} of {source.root}"
    if feed.delivery.format == DELTA:
        return _from_version(source, lake, feed, (path, staged, advance))
    if isinstance(source, FolderSource) and Path(source.root, path, "_delta_log").is_dir():
        return _delta(lake, feed, Path(source.root, path), shown)
    candidates = _files_near(source, path)
    if any(name.startswith(f"{path}/_delta_log/") for name in candidates):
        copy_snapshot(source, path, staged, advance)
        return _delta(lake, feed, staged, shown)
    names = _parts(source, feed, path, candidates)
    return _from_parquet(source, lake, feed, names, (shown, staged, advance))


def describe_snapshot(source: Source, feed: Feed) -> str:
    """Describe the snapshot of a feed and check its columns; at most one Parquet file is copied for that.

    Raises MedallionError as ``open_snapshot`` does.
    """
    path = _path(feed)
    shown = f"{path} of {source.root}"
    if isinstance(source, FolderSource) and Path(source.root, path, "_delta_log").is_dir():
        version = feed.delivery.version if feed.delivery.format == DELTA else None
        delta = _open_version(Path(source.root, path), version, shown)
        match_columns(feed, pa.schema(delta.schema().to_arrow()), shown)
        of_version = "" if version is None else f"version {version} of "
        return f"{of_version}a Delta table of {state_of(delta).rows:,} rows"
    candidates = _files_near(source, path)
    if any(name.startswith(f"{path}/_delta_log/") for name in candidates):
        return "a Delta table, whose columns are looked at when it is loaded"
    names = _parts(source, feed, path, candidates)
    if kind_of(names[0]) == CSV:
        return f"{len(names):,} CSV files, whose rows are looked at when they are loaded"
    with TemporaryDirectory(prefix="medallion-") as folder:
        copied = Path(folder, "part.parquet")
        copy_file(source, names[0], copied)
        match_columns(feed, _schema_of(copied, f"{names[0]} of {source.root}"), shown)
    return f"{len(names):,} Parquet files"


def _path(feed: Feed) -> str:
    """Return the path of a feed's snapshot, relative to the root of the source."""
    if feed.delivery.format == DELTA:
        return feed.delivery.layout.path(feed.source_name).rstrip("/")
    return feed.delivery.snapshot.path(feed.source_name, table=feed.name).rstrip("/")


def _open_version(folder: Path, version: int | None, shown: str) -> "DeltaTable":
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return DeltaTable(str(folder), version=version)
    except (DeltaError, OSError) as error:
        of_version = "" if version is None else f"version {version} of "
        raise MedallionError(f"{of_version}{shown} cannot be read: {one_line(error, 160)}") from None


def _from_version(source: Source, lake: Lake, feed: Feed, about: tuple[str, Place, Advance]) -> Snapshot:
    """Convert one version of somebody else's Delta table to a Delta table with the declared columns."""
    from deltalake import write_deltalake

    path, staged, advance = about
    version, shown = feed.delivery.version, f"version {feed.delivery.version} of {path} of {source.root}"
    with TemporaryDirectory(prefix="medallion-") as scratch:
        folder = Path(scratch, "table")
        if isinstance(source, FolderSource):
            folder = Path(source.root, path)
        else:
            copy_snapshot(source, path, folder, advance)
        delta = _open_version(folder, version, f"{path} of {source.root}")
        given = match_columns(feed, pa.schema(delta.schema().to_arrow()), shown)
        own = [name for name in given.values() if name is not None]
        batches = (declared_batch(feed, batch, given, shown) for batch in rows_of(delta, own, shown))
        files.remove_tree(staged)
        table = pa.Table.from_batches(batches, declared_schema(feed))
        write_deltalake(str(staged), table, mode="overwrite", storage_options=lake.storage_options)
    notes = (
        f"{shown} lacks the column {name}: it is null in all its rows" for name, own in given.items() if own is None
    )
    given = {column.name: column.name for column in feed.columns}
    return Snapshot(staged, given, state_of(lake.opened(str(staged))).rows, shown, (*notes,))


def rows_of(delta: "DeltaTable", columns: Sequence[str], shown: str) -> Iterator[pa.RecordBatch]:
    """Yield rows of a Delta table, even with deletion vectors. Raises MedallionError if it cannot be read."""
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    query = exp.select(*(exp.column(name, quoted=True) for name in columns)).from_("t").sql()
    try:
        if "deletionVectors" in (delta.protocol().reader_features or ()):
            yield from pa.RecordBatchReader.from_stream(QueryBuilder().register("t", delta).execute(query))
        else:
            yield from delta.to_pyarrow_dataset().to_batches(columns=[*columns], batch_size=_BATCH_ROWS)
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise MedallionError(f"{shown} cannot be read without Spark: {one_line(error, 160)}") from None


def _files_near(source: Source, path: str) -> Mapping[str, Any]:
    return source.list_files(Layout(path).folder if "*" in path else f"{path.rpartition('/')[0]}/".removeprefix("/"))


def _missing(source: Source, path: str) -> str:
    return (
        f"source {source.root} has no {path}, or it is neither a Delta table nor Parquet or CSV files: the snapshot"
        " needs all tables"
    )


def _schema_of(file: Path, shown: str) -> pa.Schema:
    try:
        return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise MedallionError(f"{shown} is no Parquet file that can be read: {one_line(error, 120)}") from None


def _parts(source: Source, feed: Feed, path: str, candidates: Collection[str]) -> list[str]:
    """Return the files of a snapshot.

    Raises MedallionError if there is none, one is still being written, or they are of two kinds.
    """
    names = [name for name in sorted(candidates) if _is_part(name, path, feed.delivery.snapshot)]
    for name in candidates:
        whole = name_once_whole(name)
        if whole and whole not in candidates and _is_part(whole, path, feed.delivery.snapshot):
            raise MedallionError(
                f"{name} of {source.root} is a file of the snapshot that is still being written: wait until it is"
                " called without what ends its name, or remove it, then load again"
            )
    if not names:
        raise MedallionError(_missing(source, path))
    require_one_kind(names, f"{path} of {source.root}", "move those of one kind elsewhere, then load again")
    return names


def _is_part(name: str, path: str, layout: Layout) -> bool:
    """Check whether a file belongs to the snapshot: a Parquet or CSV file in its place."""
    if not kind_of(name):
        return False
    if "*" in layout.text:
        return Layout(path).matches(name)
    inside = PurePosixPath(name).parts[len(PurePosixPath(path).parts) :]
    return name == path or (name.startswith(f"{path}/") and not any(part.startswith(("_", ".")) for part in inside))


def _delta(lake: Lake, feed: Feed, folder: Place, shown: str) -> Snapshot:
    delta = lake.open(str(folder))
    if delta is None:
        raise MedallionError(f"{shown} is no Delta table: the snapshot needs all tables")
    given = match_columns(feed, pa.schema(delta.schema().to_arrow()), shown)
    missing = (name for name, own in given.items() if own is None)
    notes = (f"{shown} lacks the column {name}: it is null in all its rows" for name in missing)
    return Snapshot(folder, given, state_of(delta).rows, shown, (*notes,))


def _from_parquet(
    source: Source, lake: Lake, feed: Feed, names: Sequence[str], about: tuple[str, Place, Advance]
) -> Snapshot:
    """Convert the Parquet or CSV files of a snapshot, one after the other, to a Delta table with declared columns."""
    from deltalake import write_deltalake

    shown, staged, advance = about
    schema, missing = declared_schema(feed), Counter[str]()
    failures: list[MedallionError] = []  # errors in producing rows would otherwise be hidden by the consumer

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            for number, name in enumerate(names):
                with TemporaryDirectory(prefix="medallion-") as folder:
                    if kind_of(name) == CSV:
                        yield from _rows_of_csv(source, feed, name, Path(folder), missing)
                        continue
                    copied = Path(folder, "part.parquet")
                    copy_file(source, name, copied)
                    yield from _declared_rows(feed, copied, f"{name} of {source.root}", missing)
                advance(f"copying {name}", number + 1, len(names))
        except MedallionError as error:
            failures.append(error)
            raise

    files.remove_tree(staged)
    try:
        reader = pa.RecordBatchReader.from_batches(schema, rows())
        write_deltalake(str(staged), reader, mode="overwrite", storage_options=lake.storage_options)
    except Exception:
        files.remove_tree(staged)
        if failures:
            raise failures[0] from None
        raise
    notes = (
        f"{shown} lacks the column {name} in {count} of {len(names)} files: it is null in their rows"
        for name, count in missing.items()
    )
    given = {column.name: column.name for column in feed.columns}
    return Snapshot(staged, given, state_of(lake.opened(str(staged))).rows, shown, (*notes,))


def _declared_rows(feed: Feed, file: Path, shown: str, missing: Counter[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file with the declared columns; ``missing`` counts files by columns they lack."""
    given = match_columns(feed, _schema_of(file, shown), shown)
    missing.update(column for column, own in given.items() if own is None)
    with pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=[own for own in given.values() if own is not None]):
            yield declared_batch(feed, batch, given, shown)


def _rows_of_csv(
    source: Source, feed: Feed, name: str, folder: Path, missing: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV file, read as a file of an hour in the feed's format; ``missing`` as above.

    Raises MedallionError for the first row that does not fit.
    """
    landed, changes = folder / "rows.json", folder / "rows.parquet"
    parts = land_files(source, [name], landed, Reading(Columns(keys=feed.keys))).parts
    any_time = replace(feed, event_time=())  # rows with an event time too late are quarantined when they are loaded
    decoded = decode_file(landed, any_time, format_hour(datetime.now(UTC)), changes, None, Parts(parts))
    for line, reason, _ in decoded.rejected:
        raise MedallionError.quoting(f"{decoded.parts.place(line)} of {source.root} does not fit", f": {reason}")
    if decoded.changes:
        missing.update(decoded.unseen)
    with pq.ParquetFile(changes) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            yield batch.select(declared_schema(feed).names).cast(declared_schema(feed))
