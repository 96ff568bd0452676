"""The snapshot of a table at the source: a Delta table or files, and how its columns fit the declared ones.

Narrower types are taken, columns are found in other letter case, a nullable one may be missing; what would lose
something is refused. Parquet and CSV files become a Delta table in the landing folder first, each value cast without
loss.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from medallion.errors import MedallionError, one_line
from medallion.hours import format_hour
from medallion.ingest.arrow_types import arrow_type, fits_into
from medallion.ingest.decode import decode_file
from medallion.ingest.put_together import land_files
from medallion.ingest.snapshot_copy import copy_snapshot
from medallion.ingest.source import Advance, FolderSource, Source, copy_file, silent
from medallion.ingest.tabular_files import CSV, kind_of
from medallion.model.delivery import Layout
from medallion.model.table import Column, Feed
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.lake import Lake, state_of

_BATCH_ROWS = 50_000


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that fits the declaration of its feed.

    folder: a Delta table. given: declared column -> its name there, None where it is missing. rows: how many. shown:
    what a message calls it. notes: what there is to warn of.
    """

    folder: Place
    given: Mapping[str, str | None]
    rows: int
    shown: str
    notes: tuple[str, ...] = ()


def open_snapshot(source: Source, feed: Feed, lake: Lake, advance: Advance = silent) -> Snapshot:
    """Return the snapshot of a feed, copied from the source where Spark cannot read it there.

    Raises MedallionError when there is none, or it lacks a declared column or holds what one could not.
    """
    layout = feed.delivery.snapshot
    path = layout.path(feed.source_name, table=feed.name).rstrip("/")
    shown, staged = f"{path} of {source.root}", lake.landing / "_snapshot" / feed.name
    if isinstance(source, FolderSource) and Path(source.root, path, "_delta_log").is_dir():
        return _delta(lake, feed, Path(source.root, path), shown)
    listed = _files_near(source, path)
    if any(name.startswith(f"{path}/_delta_log/") for name in listed):
        copy_snapshot(source, path, staged, advance)
        return _delta(lake, feed, staged, shown)
    names = [name for name in sorted(listed) if _is_part(name, path, layout)]
    if not names:
        raise MedallionError(_missing(source, path))
    return _from_parquet(source, lake, feed, names, (shown, staged, advance))


def describe_snapshot(source: Source, feed: Feed) -> str:
    """Say what is in the place of a feed's snapshot, by its columns alone: nothing is copied but one Parquet file.

    Raises MedallionError as ``open_snapshot`` does.
    """
    path = feed.delivery.snapshot.path(feed.source_name, table=feed.name).rstrip("/")
    shown = f"{path} of {source.root}"
    if isinstance(source, FolderSource) and Path(source.root, path, "_delta_log").is_dir():
        delta = DeltaTable(str(Path(source.root, path)))
        match_columns(feed, pa.schema(delta.schema().to_arrow()), shown)
        return f"a Delta table of {state_of(delta).rows:,} rows"
    listed = _files_near(source, path)
    if any(name.startswith(f"{path}/_delta_log/") for name in listed):
        return "a Delta table, whose columns are looked at when it is loaded"
    names = [name for name in sorted(listed) if _is_part(name, path, feed.delivery.snapshot)]
    if not names:
        raise MedallionError(_missing(source, path))
    if kind_of(names[0]) == CSV:
        return f"{len(names):,} CSV files, whose rows are looked at when they are loaded"
    with TemporaryDirectory(prefix="medallion-") as folder:
        copied = Path(folder, "part.parquet")
        copy_file(source, names[0], copied)
        match_columns(feed, _schema_of(copied, f"{names[0]} of {source.root}"), shown)
    return f"{len(names):,} Parquet files"


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


def _is_part(name: str, path: str, layout: Layout) -> bool:
    """Check whether a file is one of the snapshot's, Parquet or CSV."""
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
    """Write the Parquet files of a snapshot as a Delta table of the declared columns, one after the other."""
    from deltalake import write_deltalake

    shown, staged, advance = about
    schema, missing = _declared_schema(feed), Counter[str]()
    failures: list[MedallionError] = []  # who asks for rows hides what went wrong in getting them

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            for number, name in enumerate(names):
                with TemporaryDirectory(prefix="medallion-") as folder:
                    if kind_of(name) == CSV:
                        yield from _rows_of_csv(source, feed, name, Path(folder))
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


def _declared_schema(feed: Feed) -> pa.Schema:
    return pa.schema([pa.field(column.name, arrow_type(column)) for column in feed.columns])


def _declared_rows(feed: Feed, file: Path, shown: str, missing: Counter[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file with the declared columns; ``missing`` counts files by columns they lack."""
    given = match_columns(feed, _schema_of(file, shown), shown)
    missing.update(column for column, own in given.items() if own is None)
    with pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=[own for own in given.values() if own is not None]):
            values = [_cast(column, batch, given[column.name], shown) for column in feed.columns]
            yield pa.RecordBatch.from_arrays(values, schema=_declared_schema(feed))


def _rows_of_csv(source: Source, feed: Feed, name: str, folder: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a CSV file, read as the feed's format reads one of an hour.

    Raises MedallionError for the first row that does not fit.
    """
    landed, changes = folder / "rows.json", folder / "rows.parquet"
    parts = land_files(source, [name], landed).parts
    any_time = replace(feed, event_time=())  # rows that happened too late go to quarantine when they are loaded
    decoded = decode_file(landed, any_time, format_hour(datetime.now(UTC)), changes, None, parts)
    for line, reason, _ in decoded.rejected:
        raise MedallionError.quoting(f"{decoded.parts.place(line)} of {source.root} does not fit", f": {reason}")
    with pq.ParquetFile(changes) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            yield batch.select(_declared_schema(feed).names).cast(_declared_schema(feed))


def _cast(column: Column, batch: pa.RecordBatch, given: str | None, shown: str) -> pa.Array:
    """Return a column of a batch as declared. Raises MedallionError for a value that would lose something."""
    wanted = arrow_type(column)
    if given is None:
        return pa.nulls(len(batch), wanted)
    values = batch[given]
    try:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(values.type) and values.type.tz is None:
            values = values.cast(pa.timestamp("us")).cast(wanted)
        return values.cast(wanted)
    except pa.ArrowInvalid as error:
        raise MedallionError.quoting(
            f"{shown} has a value in {given} ({batch[given].type}) that {column.type} cannot hold: have it written as"
            f" {column.type}, or declare a wider type",
            f": {one_line(error, 120)}",
        ) from None


def match_columns(feed: Feed, schema: pa.Schema, shown: str) -> Mapping[str, str | None]:
    """Find the declared columns in a schema: declared name -> name there, None for one that is missing.

    Raises MedallionError for a column that is missing and required, stands there twice in other letters, or has values
    that the declared type may not hold.
    """
    by_letters: dict[str, list[str]] = {}
    for name in schema.names:
        by_letters.setdefault(name.casefold(), []).append(name)
    given: dict[str, str | None] = {}
    for column in feed.columns:
        others = by_letters.get(column.name, [])
        own = column.name if column.name in others else next(iter(others), None)
        if own is None:
            if column.required:
                raise MedallionError(
                    f"{shown} lacks the column {column.name} {column.type}, which is NOT NULL: have it written, or"
                    f" declare {column.name} without NOT NULL"
                )
        elif column.name not in others and len(others) > 1:
            raise MedallionError(f"{shown} has {' and '.join(others)}: {feed.topic} declares {column.name}")
        elif not fits_into(schema.field(own).type, arrow_type(column)):
            kind = schema.field(own).type
            raise MedallionError(
                f"{shown} has {own} as {kind}, not {column.type}, which may not hold every value of it: have it written"
                f" as {column.type}, or declare a type that holds {kind}"
            )
        given[column.name] = own
    return given
