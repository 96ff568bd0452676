"""Pass rows of this process to Spark as a frame that costs its optimizer nothing."""

from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING

from medallion.spark.configuration import is_local
from medallion.spark.delta_reads import MAX_SINGLE_TASK_BYTES, no_rows
from medallion.spark.session import is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MAX_PLAN_ROWS = 100  # most rows that the plan of a query has in it


class PassedRows:
    """Passes rows to Spark. A warm Spark on this machine gets them in files, which are deleted when it is closed."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._files, self._lock = 0, Lock()
        self._reads_files: bool | None = None  # whether it is a warm Spark of this machine, once that was asked

    def frame(self, spark: "SparkSession", rows: "pa.Table") -> "DataFrame":
        """Return a frame of ``rows``.

        Sent to a warm Spark, rows would be a part of the plan, and the optimizer would compare them again and again.
        """
        from pyspark.sql.pandas.types import from_arrow_schema

        if not rows.num_rows:  # Spark Connect refuses to pass a table without rows
            return no_rows(spark, from_arrow_schema(rows.schema))
        if rows.num_rows > MAX_PLAN_ROWS and self._can_read_files(spark):
            frame = self._from_file(spark, rows)
        else:
            frame = spark.createDataFrame(rows)
        return frame.coalesce(1) if rows.nbytes <= MAX_SINGLE_TASK_BYTES else frame

    def close(self) -> None:
        """Delete the files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _can_read_files(self, spark: "SparkSession") -> bool:
        if self._reads_files is None:
            self._reads_files = is_connect(spark) and is_local(spark.conf.get("spark.master") or "")
        return self._reads_files

    def _from_file(self, spark: "SparkSession", rows: "pa.Table") -> "DataFrame":
        import pyarrow.parquet as pq
        from pyspark.sql.pandas.types import from_arrow_schema

        with self._lock:
            self._folder = self._folder or TemporaryDirectory(prefix="rows-")
            self._files += 1
            file = Path(self._folder.name, f"{self._files}.parquet")
        pq.write_table(rows, file, compression="none", use_dictionary=False, write_statistics=False)
        return spark.read.schema(from_arrow_schema(rows.schema)).parquet(str(file))
