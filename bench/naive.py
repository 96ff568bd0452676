"""The baseline: every table from temp views over Bronze, as one would write it first."""

import threading

from medallion.model.refresh_method import RefreshMethod
from medallion.model.table import Table
from medallion.project import find_project
from medallion.refresh.commits import commit_metadata
from medallion.refresh.inputs import input_states
from medallion.refresh.refresh_run import RefreshRun, Written

# Four partitions for shuffles and for Delta's state; everything else as Spark has it by default.
SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "4",
}
_ONE_AFTER_THE_OTHER = threading.Lock()


def refresh_naive(run: RefreshRun, table: Table) -> Written:
    """Overwrite ``table`` from a view over views over Bronze: what two tables share is computed twice."""
    spark, lake = run.sessions.full, run.lake
    with _ONE_AFTER_THE_OTHER:
        inputs = input_states(lake, table)
        for feed in find_project().registry().feeds:
            spark.read.format("delta").load(lake.path(feed.name)).createOrReplaceTempView(feed.name)
        rows = spark.sql(table.query.format(**{name: name for name in table.inputs}))
        rows.createOrReplaceTempView(table.name)
        commit = commit_metadata(table, run, inputs, RefreshMethod.FULL_RECOMPUTE, None)
        rows.write.format("delta").mode("overwrite").option("userMetadata", commit).save(lake.path(table.name))
        state = lake.state(table.name)
        assert state is not None, f"{table.name} was just written"
    return Written.whole(state, inputs, strategy="naive")
