"""Rows of Spark in this process's memory, where they are few."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def collect(rows: "DataFrame", max_rows: int) -> "pa.Table | None":
    """All of ``rows``; None when there are more than ``max_rows``, of which no more than one too many is fetched."""
    data = rows.limit(max_rows + 1).toArrow()
    return None if data.num_rows > max_rows else data
