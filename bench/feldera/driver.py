"""Feldera as one of the strategies: an hour's changes pushed to its pipeline, its views copied to be compared.

It is one service for all runs, outside of our lake. What Bronze accepts of an hour is pushed, by the same decoder and
limit of bad lines as everywhere; the copies of its views go into a lake that is compared with the others as any.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.feldera.program import program
from bench.feldera.service import Service
from bench.proof import publish_copies
from medallion.errors import MedallionError
from medallion.ingest.arrow_types import arrow_type
from medallion.ingest.decode import DELETED
from medallion.ingest.hour_files import decoded_file
from medallion.ingest.landing import ToLand, copy_change_files, decode_hour, forget_decoded
from medallion.ingest.listing import change_files
from medallion.ingest.source import FolderSource
from medallion.model.table import Feed
from medallion.ops.event_log import EventLog
from medallion.project import find_project
from medallion.storage import files
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    import pyarrow as pa


class Refreshed(NamedTuple):
    """What an hour took: wall seconds until all views had it, and CPU seconds that the service reports for it.

    views_seconds, to read all views and copy them, are apart: nobody has to read them all every hour.
    """

    seconds: float
    cpu_seconds: float | None
    jobs: None = None  # of Spark
    views_seconds: float | None = None


class FelderaDriver:
    """A pipeline that holds the snapshot, and a lake for its events and for copies of its views.

    Args:
        service: Where it runs.
        source: The folder with snapshot and change files.
        lake: The folder for events and copies.
        workers: Its threads: as many cores as the other strategies have.
        max_bad_lines: The share of a file's lines that may be rejected.
    """

    def __init__(
        self, service: Service, source: Path, lake: Path, workers: int = 1, max_bad_lines: float = 0.01
    ) -> None:
        self._service, self._source, self.lake = service, source, str(lake)
        self._max_bad_lines = max_bad_lines
        self.facts: dict[str, Any] = {"workers": workers}  # for whoever reads the figures
        lake.mkdir(parents=True, exist_ok=True)
        sql = program()
        marks = [time.perf_counter()]
        try:
            compiled = service.compile(sql, workers)
            marks.append(time.perf_counter())
            service.start()
            marks.append(time.perf_counter())
            with service.transaction():
                tokens = service.push({feed.name: _snapshot_lines(source, feed) for feed in _feeds()})
            service.wait(tokens)
            marks.append(time.perf_counter())
        except BaseException:
            self._abandon()
            raise
        for what, (start, end) in zip(("compile", "deploy", "snapshot"), pairwise(marks), strict=True):
            self.facts[f"{what}_seconds"] = round(end - start, 3)
        if not compiled:  # Feldera had the program already
            self.facts["compile_seconds"] = None
        self.facts |= asdict(service.usage())
        self.session_seconds = marks[-1] - marks[0]

    def refresh(self, hour: str) -> Refreshed:
        """Push an hour, wait until all views have it, and copy them."""
        lake = Lake(self.lake)
        log = EventLog(lake, run_id=f"bench-{hour}", hour=hour, strategy="feldera", attempt=1)
        before = self._service.usage()
        start = time.perf_counter()
        changes = self._accepted_changes(lake, log, hour)
        with log.timed("push") as event:
            event.engine, event.rows_in = "feldera", sum(map(len, changes.values()))
            event.bytes_out = sum(len(line) + 1 for lines in changes.values() for line in lines)
            tokens = self._service.push(changes)
        with log.timed("refresh") as event:
            event.engine = "feldera"
            self._service.wait(tokens)
        done = time.perf_counter()
        after = self._service.usage()
        self.facts |= asdict(after)
        event.details = dict(self.facts)
        log.flush()
        copying = time.perf_counter()
        self._copy_views(lake, hour)
        views = time.perf_counter() - copying
        return Refreshed(done - start, after.cpu_since(before), views_seconds=views)

    def stop(self) -> None:
        """Stop the pipeline."""
        self._service.stop()

    def _abandon(self) -> None:
        with suppress(MedallionError):  # what went wrong before is told
            self._service.stop()

    def _accepted_changes(self, lake: Lake, log: EventLog, hour: str) -> dict[str, list[bytes]]:
        """Land and decode an hour as any run does; its accepted changes as lines, by table."""
        import pyarrow.parquet as pq

        source = FolderSource(str(self._source))
        with log.timed("land", "bronze") as event:
            event.engine = "feldera"
            listing = change_files(source, _feeds())
            listing.require_understood(hour)
            landed = copy_change_files(source, lake, hour, ToLand(listing.hours.get(hour, {})))
            event.bytes_out = sum(file.bytes for file in landed.files.values())
        with log.timed("apply", "bronze") as event:
            event.engine = "feldera"
            decoded = decode_hour(lake, _feeds(), hour, self._max_bad_lines)
            event.details["rejected"] = sum(len(result.rejected) for result in decoded.values())
            changes = {}
            for feed in _feeds():
                if feed.name in decoded and decoded[feed.name].changes:
                    name, at = files.in_arrow(decoded_file(lake, feed, hour))
                    changes[feed.name] = list(change_lines(pq.read_table(name, filesystem=at), feed))
            forget_decoded(lake, hour)
        return changes

    def _copy_views(self, lake: Lake, hour: str) -> None:
        """The views as tables of a release."""

        def rows(name: str) -> "pa.Table":
            return self._service.rows(name, Path(self.lake, f"{name}.parquet"))

        publish_copies(lake, hour, "feldera", rows)


def _feeds() -> tuple[Feed, ...]:
    return tuple(find_project().registry().feeds)


def _snapshot_lines(source: Path, feed: Feed) -> Iterator[bytes]:
    """The rows of a table of the snapshot as lines that insert them."""
    import pyarrow as pa
    from deltalake import DeltaTable

    names = [column.name for column in feed.columns]
    table = DeltaTable(str(source / "snapshot" / feed.name))
    for batch in table.to_pyarrow_dataset().to_batches(columns=names):
        yield from change_lines(pa.Table.from_batches([batch]), feed)


def change_lines(changes: "pa.Table", feed: Feed) -> Iterator[bytes]:
    """Yield changes as Feldera reads them, in their order: decimals as texts, which are exact, timestamps in UTC.

    A change deletes where it has the column ``_deleted`` and that is true, by its key alone; else it inserts.
    """
    import duckdb
    import pyarrow as pa

    def sql_value(name: str, kind: str) -> str:
        return f'"{name}" := "{name}"' + ("::VARCHAR" if kind.startswith(("DECIMAL", "TIMESTAMP", "DATE")) else "")

    types = {column.name: column.type for column in feed.columns}
    row = f"to_json(struct_pack({', '.join(sql_value(*column) for column in types.items())}))"
    key = f"to_json(struct_pack({', '.join(sql_value(name, types[name]) for name in feed.keys)}))"
    deleted = f'"{DELETED}"' if DELETED in changes.column_names else "FALSE"
    query = f"""SELECT CASE WHEN {deleted} THEN '{{"delete":' || {key} ELSE '{{"insert":' || {row} END || '}}'"""
    for column in feed.columns:
        name = column.name
        values = changes.column(name).cast(arrow_type(column))
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us"))
        changes = changes.set_column(changes.column_names.index(name), name, values)
    with duckdb.connect() as connection:
        connection.register("changes", changes)
        answer = connection.execute(f"{query} FROM changes")
        while rows := answer.fetchmany(50_000):
            yield from (line.encode() for (line,) in rows)
