"""Find lines of an hour's change files that may have made a check fail: a hint for readers, never part of a verdict."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.ingest.decode import DELETED, LINE, Decoded, decode_file
from medallion.ingest.hour_files import landed_file, source_path
from medallion.ingest.landed_before import landed_before
from medallion.ingest.ledger import Manifest, read_manifest_if_whole
from medallion.ingest.parts import Parts
from medallion.ingest.quarantine import read_corrections
from medallion.model.registry import Registry
from medallion.model.table import ChangeLog, Feed, Table
from medallion.storage.database import shared_database
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    import pyarrow as pa

MAX_FILES = 3  # most files that are named
MAX_LINES = 5  # most lines of a file that are named one by one
_COMPARED = ("BIGINT", "INT", "STRING")  # types whose text is the same in a check's failed record and in a change

_BY_KIND = f"SELECT {DELETED}, COUNT(*), MIN({LINE}), MAX({LINE}) FROM changes GROUP BY 1 ORDER BY 1 DESC"  # noqa: S608

_UPSERTS = "inserts or updates a row", "insert or update rows"
Record = Mapping[str, str | None]  # a failed record of a table: column to value as text


class ChangeOrigins:
    """The change files of one hour, searched for the causes of a failed check; each is decoded once, when needed."""

    def __init__(self, lake: Lake, hour: str, tables: Registry) -> None:
        self._lake, self._hour, self._tables = lake, hour, tables
        self._changes: dict[str, pa.Table | None] = {}
        self._decoded: dict[str, Decoded] = {}

    def describe(self, tables: Sequence[str], records: Sequence[Record]) -> tuple[str, ...]:
        """Describe the lines that may have caused the failed records of a check, in a sentence per file.

        These are the lines with the keys of failed records. If there are none, each file is summarised as a whole,
        those with the most deletions first.

        Args:
            tables: The checked table, then the tables that it was compared with.
            records: The failed records.

        Returns:
            At most MAX_FILES sentences; empty if the files cannot be read.
        """
        try:
            feeds = self._feeds_below(tables)
            key_sentences = [self._lines_of(feed, records, is_checked=feed.name == tables[0]) for feed in feeds]
            sentences = [sentence for sentence in key_sentences if sentence] or self._summaries(feeds)
        except Exception:  # the report goes without this hint, whatever the error is
            return ()
        return tuple(sentences[:MAX_FILES])

    @cached_property
    def _manifest(self) -> Manifest | None:
        return read_manifest_if_whole(self._lake, self._hour)

    def _feeds_below(self, tables: Iterable[str]) -> list[Feed]:
        """Return the feeds that ``tables`` are computed from, nearest first."""
        feeds: dict[str, Feed] = {}
        waiting = [name for name in tables if name in self._tables.tables]
        for name in waiting:
            match self._tables[name]:
                case Feed() as feed:
                    feeds.setdefault(name, feed)
                case ChangeLog(of=of):
                    waiting.append(of)
                case Table(inputs=inputs):
                    waiting += [table for table in inputs if table not in waiting]
        return list(feeds.values())

    def _changes_of(self, feed: Feed) -> "pa.Table | None":
        """Return the changes of a feed in this hour, with line numbers; None if no file of it can be decoded."""
        import pyarrow.parquet as pq

        if feed.name not in self._changes:
            self._changes[feed.name] = None
            landed = self._manifest.files.get(feed.topic) if self._manifest else None
            if landed is not None:
                file = landed_file(self._lake, feed.topic, self._hour)
                with TemporaryDirectory(prefix="origins-") as folder, suppress(MedallionError, OSError):
                    target = Path(folder, "changes.parquet")
                    corrections = read_corrections(self._lake, feed, self._hour, landed)
                    parts = Parts(landed.parts, landed_before(self._lake, feed, self._hour, landed.parts))
                    decoded = decode_file(file, feed, self._hour, target, corrections, parts)
                    self._decoded[feed.name] = decoded
                    self._changes[feed.name] = pq.read_table(target)
        return self._changes[feed.name]

    def _lines_of(self, feed: Feed, records: Sequence[Record], *, is_checked: bool) -> str | None:
        """Name the lines of a feed's file that change failed records; None if there are none.

        A record of another table is matched by the keys of the feed. A record of the feed's own table may lack these,
        for example if records are counted by some column: it is then matched by the columns that it has.
        """
        changes = self._changes_of(feed)
        if changes is None or not records:
            return None
        own = [column.name for column in feed.columns if column.type in _COMPARED and records[0].get(column.name)]
        columns = list(feed.keys) if set(feed.keys) <= set(own) else own if is_checked else []
        by_line: dict[int, str] = {}
        for record in records if columns else ():
            condition = " AND ".join(f'CAST("{name}" AS VARCHAR) = ?' for name in columns)
            query = f"SELECT {LINE}, {DELETED} FROM changes WHERE {condition} ORDER BY 1 LIMIT {MAX_LINES}"  # noqa: S608 (declared names)
            for line, deleted in _query(changes, query, [record[name] for name in columns]):
                values = ", ".join(f"{name} {record[name]}" for name in columns)
                by_line[line] = f"{self._line(feed, line)} {'deletes' if deleted else 'inserts or updates'} {values}"
        if not by_line:
            return None
        return f"{self._file(feed)}: {'; '.join(by_line[line] for line in sorted(by_line)[:MAX_LINES])}"

    def _summaries(self, feeds: Iterable[Feed]) -> list[str]:
        """Summarise each file: how many of its lines delete, and how many insert or update."""
        summaries: list[tuple[int, str]] = []
        for feed in feeds:
            changes = self._changes_of(feed)
            if changes is None or not len(changes):
                continue
            parts, deleted = [], 0
            for deletes, lines, first, last in _query(changes, _BY_KIND, []):
                deleted += lines if deletes else 0
                place = self._line(feed, first) if first == last else f"{lines:,} of the lines {first:,} to {last:,}"
                if last - first + 1 == lines > 1:
                    place = f"lines {first:,} to {last:,}"
                singular, plural = ("deletes a row", "delete rows") if deletes else _UPSERTS
                parts.append(f"{place} {singular if lines == 1 else plural}")
            summaries.append((deleted, f"{self._file(feed)}: {', '.join(parts)}"))
        return [text for _, text in sorted(summaries, reverse=True)]

    def _file(self, feed: Feed) -> str:
        return source_path(feed, self._hour)

    def _line(self, feed: Feed, place: int) -> str:
        """Return the line at the source that a change came from; place: the place of the change in the hour."""
        decoded = self._decoded[feed.name]
        line = decoded.lines_of.get(place, place)
        return decoded.parts.place(line) if decoded.parts else f"line {line:,}"


def _query(changes: "pa.Table", query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    with shared_database() as connection:
        connection.register("changes", changes)
        return connection.execute(query, list(values)).fetchall()
