"""A Delta table that somebody else writes, as a source: its commits by hour, and the rows that each commit changes.

It is read only through the source, from log entries and the files that they name, so a folder and a bucket work alike.
The changes of a commit are the rows of its change data files if it has any, else they follow from the files that it
removes and adds.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import unquote

from medallion.errors import MedallionError
from medallion.hours import format_hour
from medallion.ingest.source import Source, SourceFile, copy_file
from medallion.ingest.tabular_files import parquet_rows, row_line
from medallion.model.table import Feed

_COMMIT = re.compile(r"(?P<table>.+)/_delta_log/(?P<version>[0-9]{20})\.json", re.DOTALL)
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint(?:\..*)?\.parquet")
_DELETES = {"delete": True, "update_preimage": True, "insert": False, "update_postimage": False}
_MAX_COMMIT_BYTES = 64 << 20


def log_folder(feed: Feed) -> str:
    """Return the folder with the log of the table that feeds ``feed``, with a slash at its end."""
    return f"{feed.delivery.layout.path(feed.source_name)}/_delta_log/"


def version_of(name: str) -> int | None:
    """Return the version whose commit a file is; None for other files."""
    match = _COMMIT.fullmatch(name)
    return int(match["version"]) if match else None


def commits_by_hour(source: Source, feed: Feed, files: Mapping[str, SourceFile], now: datetime) -> dict[str, list[str]]:
    """Return the commits after the snapshot's version that change rows, by the hour of their timestamps.

    A commit never counts as earlier than the one before it, whatever the clock of its writer was. Commits of hours
    after ``now`` are left out.
    """
    hours: dict[str, list[str]] = {}
    newest = 0.0
    for name in sorted(name for name in files if name.startswith(log_folder(feed))):
        version = version_of(name)
        if version is None:
            continue
        about = _about(source, name, files[name])  # type: ignore[arg-type]  # every source is a value
        newest = max(newest, about.moment)
        hour = format_hour(datetime.fromtimestamp(newest, UTC))
        if version > feed.delivery.version and about.changes_rows and hour <= format_hour(now):
            hours.setdefault(hour, []).append(name)
    return hours


class _Commit(NamedTuple):
    """moment: the time of the commit, in seconds since 1970. properties: of the table; None if it sets none."""

    moment: float
    changes_rows: bool
    properties: Mapping[str, str] | None


@lru_cache(maxsize=100_000)
def _about(source: Any, name: str, file: SourceFile) -> _Commit:
    """Return what the listing needs to know about a commit."""
    actions = _actions(source, name)
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    milliseconds = info.get("inCommitTimestamp", info.get("timestamp"))
    moment = milliseconds / 1000 if isinstance(milliseconds, int | float) else file.modified
    metadata: dict[str, Any] | None = next((action["metaData"] for action in actions if "metaData" in action), None)
    properties = None if metadata is None else dict(metadata.get("configuration") or {})
    return _Commit(moment, any(_changes_rows(action) for action in actions), properties)


def _properties(source: Source, table: str, version: int) -> Mapping[str, str]:
    """Return the properties of a table at a version, from the newest log entry or checkpoint that has them."""
    log = f"{table}/_delta_log/"
    files = source.list_files(log)
    for number in range(version, -1, -1):
        name = f"{log}{number:020}.json"
        if name not in files:
            break
        if (properties := _about(source, name, files[name]).properties) is not None:  # type: ignore[arg-type]
            return properties
    else:
        return {}
    checkpoints = [(int(match[1]), name) for name in files if (match := _CHECKPOINT.fullmatch(name.removeprefix(log)))]
    newest = max((number for number, _ in checkpoints if number <= version), default=None)
    for name in (name for number, name in checkpoints if number == newest):
        with TemporaryDirectory(prefix="medallion-") as folder:
            copy_file(source, name, copy := Path(folder, "checkpoint.parquet"))
            for row in parquet_rows(copy, f"{source.root}/{name}"):
                if row.get("metaData"):
                    return dict(row["metaData"]["configuration"] or {})
    return {}


def commit_lines(source: Source, name: str) -> Iterator[bytes]:
    """Yield the changes of a commit as records of format insert_delete: deletions, then inserts.

    Raises MedallionError for a file that is gone, for column mapping, and for deletion vectors without change data
    files; the message says what to do.
    """
    match = _COMMIT.fullmatch(name)
    assert match is not None, f"{name} is a commit"
    table, actions = match["table"], _actions(source, name)
    shown = f"version {int(match['version'])} of {source.root}/{table}"
    rows, changes = _Rows(source, table, shown), [action["cdc"] for action in actions if "cdc" in action]
    properties = _properties(source, table, int(match["version"]))
    if (mode := properties.get("delta.columnMapping.mode", "none")) != "none":
        raise MedallionError(
            f"{shown} has column mapping by {mode}, which is not read: have the feature columnMapping dropped from the"
            " table, set version in [source] or [source.feeds.<feed>] of medallion.toml to the one that this makes, and"
            " load a new lake"
        )
    if not changes and any(_has_vector(action) for action in actions):
        has_feed = properties.get("delta.enableChangeDataFeed") == "true"
        first = "" if has_feed else "set delta.enableChangeDataFeed, or "
        remedy = f"{first}turn delta.enableDeletionVectors off"
        raise MedallionError(f"{shown} has deletion vectors: {remedy}; {_way_out(source, table)}")
    if changes:
        yield from rows.of_change_files(changes)
    else:
        removed = [action["remove"] for action in actions if "remove" in action and _changes_rows(action)]
        added = [action["add"] for action in actions if "add" in action and _changes_rows(action)]
        yield from rows.of_data_files(removed, added)


def require_all_commits(feed: Feed, names: Sequence[str], files: Mapping[str, SourceFile], former: str | None) -> None:
    """Raise MedallionError if a commit between the last one that landed and the last of ``names`` is gone.

    former: the last commit that landed; None before the first.
    """
    landed = version_of(former) if former else feed.delivery.version
    last = max((version_of(name) or 0 for name in names), default=0)
    for version in range((landed or 0) + 1, last + 1):
        if f"{log_folder(feed)}{version:020}.json" not in files:
            oldest = min(own for name in files if (own := _version_in(feed, name)) is not None)
            raise MedallionError(
                f"the commit of version {version} of {feed.topic} is gone from {log_folder(feed)}: its changes cannot"
                f" be known; one can go on from version {oldest}: set version = {oldest} in"
                f" [source.feeds.{feed.topic}] and load a new lake"
            )


def _version_in(feed: Feed, name: str) -> int | None:
    return version_of(name) if name.startswith(log_folder(feed)) else None


class _Rows:
    """The rows of files that a commit names."""

    def __init__(self, source: Source, table: str, shown: str) -> None:
        self._source, self._table, self._shown = source, table, shown

    def of_change_files(self, actions: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
        """Yield the rows of change data files: all deletions and preimages, then all inserts and postimages."""
        with TemporaryDirectory(prefix="medallion-") as folder:
            copies = [self._copy(action, Path(folder, str(number))) for number, action in enumerate(actions)]
            for deletes in (True, False):
                for copy, action in zip(copies, actions, strict=True):
                    for row in self._rows(copy, action):
                        if _DELETES.get(row.pop("_change_type", "")) is deletes:
                            yield _record(deletes, row_line(row))

    def of_data_files(
        self, removed: Sequence[Mapping[str, Any]], added: Sequence[Mapping[str, Any]]
    ) -> Iterator[bytes]:
        """Yield rows only in removed files as deletions, then rows only in added files as inserts."""
        before, after = self._lines(removed), self._lines(added)
        for deletes, lines in ((True, before - after), (False, after - before)):
            for line in lines.elements():
                yield _record(deletes, line)

    def _lines(self, actions: Sequence[Mapping[str, Any]]) -> Counter[bytes]:
        lines = Counter[bytes]()
        with TemporaryDirectory(prefix="medallion-") as folder:
            for action in actions:
                copy = self._copy(action, Path(folder, "part"))
                lines.update(row_line(row) for row in self._rows(copy, action))
        return lines

    def _copy(self, action: Mapping[str, Any], target: Path) -> Path:
        path = unquote(str(action["path"]))
        if "://" in path or path.startswith("/") or ".." in path.split("/"):
            raise MedallionError(f"{self._shown} has a file outside of the table, {path[:200]}: it is not read")
        try:
            copy_file(self._source, f"{self._table}/{path}", target)
        except MedallionError as error:
            raise MedallionError(
                f"{self._shown} needs a file that cannot be had, perhaps as it was vacuumed ({error});"
                f" {_way_out(self._source, self._table)}"
            ) from None
        return target

    def _rows(self, copy: Path, action: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        partition = action.get("partitionValues") or {}
        for row in parquet_rows(copy, self._shown):
            yield {**row, **partition}


def _record(deletes: bool, line: bytes) -> bytes:
    return (b'{"delete": ' if deletes else b'{"insert": ') + line.rstrip(b"\n") + b"}\n"


def _changes_rows(action: Mapping[str, Any]) -> bool:
    return any((action.get(kind) or {}).get("dataChange", False) for kind in ("add", "remove")) or "cdc" in action


def _has_vector(action: Mapping[str, Any]) -> bool:
    return any((action.get(kind) or {}).get("deletionVector") for kind in ("add", "remove"))


def _way_out(source: Source, table: str) -> str:
    newest = max(version_of(name) or 0 for name in source.list_files(f"{table}/_delta_log/"))
    return (
        f"one can go on from version {newest}, the table's newest: set version = {newest} in [source] or"
        " [source.feeds.<feed>] of medallion.toml and load a new lake"
    )


def _actions(source: Source, name: str) -> list[dict[str, Any]]:
    """Read the actions of a commit. Raises MedallionError if it is too large, or no entry of a Delta log."""
    stream, size = source.open(name)
    with stream:
        if size > _MAX_COMMIT_BYTES:
            raise MedallionError(f"{source.root}/{name} is larger than {_MAX_COMMIT_BYTES >> 20} MB: it is not read")
        content = stream.read()
    try:
        actions = [json.loads(line) for line in content.splitlines() if line.strip()]
    except ValueError as error:
        raise MedallionError(f"{source.root}/{name} is no entry of a Delta log: {error}") from None
    if not all(isinstance(action, dict) for action in actions):
        raise MedallionError(f"{source.root}/{name} is no entry of a Delta log: it holds no objects")
    return actions
