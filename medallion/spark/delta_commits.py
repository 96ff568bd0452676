"""Commits that Spark makes for Delta tables whose features delta-rs does not support."""

from typing import TYPE_CHECKING

from medallion.spark.delta_reads import no_rows, schema_of

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession


def append(
    spark: "SparkSession",
    path: str,
    delta: "DeltaTable",
    metadata: str,
    ledger_entry: tuple[str, int] | None = None,
    rows: "DataFrame | None" = None,
) -> None:
    """Append ``rows`` to the table at ``path`` in one commit; with None, commit without adding rows.

    delta: the opened table, which is updated to the new version. metadata: the JSON of the commit metadata.
    """
    appended = no_rows(spark, schema_of(delta)) if rows is None else rows
    write = appended.write.format("delta").mode("append").option("userMetadata", metadata)
    if ledger_entry is not None:
        write = write.option("txnAppId", ledger_entry[0]).option("txnVersion", str(ledger_entry[1]))
    write.save(path)
    delta.update_incremental()
