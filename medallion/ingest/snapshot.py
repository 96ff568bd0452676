"""The snapshot: the state before the first change hour, loaded into Bronze once."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.ingest.decode import arrow_type
from medallion.ingest.schema_evolution import arrow_schema, description, same_type
from medallion.ingest.source import Advance, FolderSource, Source, copy_snapshot, silent
from medallion.model.table import Feed
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage import fence, files
from medallion.storage.delta_writes import properties
from medallion.storage.files import Place
from medallion.storage.lake import Lake, state_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS_PER_FILE = 250_000  # a merge rewrites the files it touches: small enough to leave old ones alone


def snapshot_folder(source: Source, feed: Feed, lake: Lake, advance: Advance = silent) -> Place:
    """The snapshot of one table as a local Delta table, copied from the source where it is not a folder.

    Raises MedallionError when the table is missing or lacks a declared column or type.
    """
    if isinstance(source, FolderSource):
        folder: Place = Path(source.root, "snapshot", feed.name)
    else:
        folder = lake.landing / "_snapshot" / feed.name
        copy_snapshot(source, feed.topic, folder, advance)
    delta = lake.open(str(folder))
    if delta is None:
        raise MedallionError(
            f"source {source.root} has no snapshot/{feed.name}, or it is no Delta table: the snapshot needs all tables"
        )
    import pyarrow as pa

    types = {f.name: f.type for f in pa.schema(delta.schema().to_arrow())}
    for column in feed.columns:
        wanted = arrow_type(column)
        if column.name not in types:
            raise MedallionError(f"snapshot/{feed.name} of {source.root} lacks the column {column.name} {column.type}")
        if not same_type(types[column.name], wanted):
            raise MedallionError(
                f"snapshot/{feed.name} of {source.root} has {column.name} as {types[column.name]}, not {column.type}"
            )
    return folder


def load_feed(spark: "SparkSession", lake: Lake, feed: Feed, snapshot: Place) -> None:
    """Write one Bronze table from its snapshot, replacing what an interrupted load may have left."""
    from deltalake import DeltaTable

    path = lake.path(feed.name)
    files.remove_tree(lake.at(path))
    DeltaTable.create(
        path,
        arrow_schema(feed.columns),
        description=description(feed),
        configuration=TABLE_PROPERTIES | {"delta.dataSkippingStatsColumns": ",".join((*feed.keys, *feed.pruned_by))},
        storage_options=lake.storage_options,
        commit_properties=properties(),
    )
    rows = spark.read.format("delta").load(str(snapshot)).select(*(c.name for c in feed.columns))
    delta = lake.open(str(snapshot))
    parts = 1 + (state_of(delta).rows if delta else 0) // _ROWS_PER_FILE
    ordered = rows.repartitionByRange(parts, *feed.keys).sortWithinPartitions(*feed.keys)
    ordered.write.format("delta").mode("append").option("userMetadata", json.dumps(fence.stamp())).save(path)
