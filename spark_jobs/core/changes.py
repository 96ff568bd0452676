"""What changed in a Delta table between two versions: which commits, from its log alone, and which rows."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Changes:
    """Commits of a table after one version and up to another.

    versions: those that changed rows. bytes: what has to be read to know the rows. unknown: why that cannot be told;
    None if it can.
    """

    versions: tuple[int, ...] = ()
    bytes: int = 0
    unknown: str | None = None

    def __bool__(self) -> bool:
        return bool(self.versions or self.unknown)


def changes(path: str, since: int, newest: int) -> Changes:
    """The commits after ``since`` up to ``newest``; those that only moved rows or removed old files do not count."""
    if newest < since:
        return Changes(unknown=f"it is at version {newest}, before {since}")
    versions, read = [], 0
    for version in range(since + 1, newest + 1):
        try:
            lines = Path(path, "_delta_log", f"{version:020}.json").read_text().splitlines()
        except FileNotFoundError:
            return Changes(unknown=f"its log no longer tells of version {version}")
        actions = [next(iter(json.loads(line).items())) for line in lines if line]
        if any(kind == "metaData" for kind, _ in actions):
            return Changes(unknown=f"its columns changed with version {version}")
        moved = [file for kind, file in actions if kind in {"add", "remove"} and file.get("dataChange")]
        feed = [file for kind, file in actions if kind == "cdc"] or moved
        if feed:
            if not all(Path(path, unquote(file["path"])).exists() for file in feed):
                return Changes(unknown=f"upkeep has removed what version {version} changed")
            versions.append(version)
            read += sum(file.get("size") or 0 for file in feed)
    return Changes(tuple(versions), read)


def change_feed(spark: "SparkSession", path: str, first: int, last: int) -> "DataFrame":
    """The rows that versions ``first`` to ``last`` took away and brought, an updated one twice.

    Besides the table's columns: _change_type, _commit_version, _commit_timestamp.
    """
    # In lower case: otherwise Spark warns of each option that it knows it twice.
    reader = spark.read.format("delta").option("readchangefeed", "true")
    return reader.option("startingversion", first).option("endingversion", last).load(path)


def gone(feed: "DataFrame") -> "DataFrame":
    """The rows of a change feed as they were."""
    from pyspark.sql import functions as F

    return feed.where(F.col("_change_type").isin("delete", "update_preimage")).drop(*_OWN)


def come(feed: "DataFrame") -> "DataFrame":
    """The rows of a change feed as they are."""
    from pyspark.sql import functions as F

    return feed.where(F.col("_change_type").isin("insert", "update_postimage")).drop(*_OWN)


_OWN = ("_change_type", "_commit_version", "_commit_timestamp")
