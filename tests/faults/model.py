"""Bronze as plain Python: the snapshot with the lines of each hour applied one by one."""

from pathlib import Path
from typing import Any

from medallion.ingest.decode import decode_file
from tests.faults.world import World

Model = dict[str, dict[Any, dict[str, Any]]]  # feed -> key -> row


def snapshot(world: World) -> Model:
    """Bronze before the first hour, by the source."""
    from deltalake import DeltaTable

    tables = ((feed, DeltaTable(f"{world.settings.source}/snapshot/{feed.name}")) for feed in world.tables.feeds)
    return {f.name: {row[f.keys[0]]: row for row in t.to_pyarrow_table().to_pylist()} for f, t in tables}


def with_hour(world: World, before: Model, hour: str, scratch: Path) -> Model:
    """``before`` with the lines of an hour applied one by one."""
    import pyarrow.parquet as pq

    after = {name: dict(rows) for name, rows in before.items()}
    for feed in world.tables.feeds:
        file = world.change_file(feed.topic, hour)
        if file.exists():
            decode_file(file, feed, hour, scratch)
            for change in pq.read_table(scratch).to_pylist():
                del change["_line"]
                rows, key = after[feed.name], change[feed.keys[0]]
                rows.pop(key, None)
                if not change.pop("_deleted"):
                    rows[key] = change
    return after
