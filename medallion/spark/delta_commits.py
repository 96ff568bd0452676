"""Commits of Delta tables by Spark that delta-rs would make, were it not for a table's features."""

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
    """Append ``rows`` to the table at ``path``, in one commit; None: the commit alone.

    delta: the table as it was opened; it follows. metadata: the JSON that the commit carries.
    """
    appended = no_rows(spark, schema_of(delta)) if rows is None else rows
    write = appended.write.format("delta").mode("append").option("userMetadata", metadata)
    if ledger_entry is not None:
        write = write.option("txnAppId", ledger_entry[0]).option("txnVersion", str(ledger_entry[1]))
    write.save(path)
    delta.update_incremental()
