"""Rows passed to Spark arrive as they are, however many, in a process's own Spark and in a warm one."""

import os
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from medallion.spark.passed_rows import MAX_PLAN_ROWS, PassedRows
from tests.warm_spark import warm_spark

COUNTS = (0, 3, MAX_PLAN_ROWS + 400)
SCHEMA = pa.schema([("k", pa.int64()), ("price", pa.decimal128(10, 2)), ("day", pa.date32()), ("name", pa.string())])


def rows(count: int) -> pa.Table:
    columns = {"k": [*range(count)], "price": [None] * count, "day": [None] * count, "name": ["it's ü"] * count}
    return pa.table(columns, SCHEMA)


def arrive(spark: Any) -> None:
    passed = PassedRows()
    for count in COUNTS:
        frame = passed.frame(spark, rows(count))
        assert [field.dataType.simpleString() for field in frame.schema] == [
            "bigint",
            "decimal(10,2)",
            "date",
            "string",
        ]
        assert sorted(map(tuple, frame.collect())) == [tuple(row.values()) for row in rows(count).to_pylist()]
    passed.close()


def test_rows_arrive_in_the_spark_of_this_process(spark: Any) -> None:
    arrive(spark)


@pytest.mark.slow
def test_rows_arrive_in_a_warm_spark() -> None:
    with warm_spark() as warm:
        warm.jvm()
        script = (
            "from medallion.settings import Settings; from medallion.spark.session import spark_session;"
            " from tests.spark.test_passed_rows import arrive; arrive(spark_session(Settings.from_environment()))"
        )
        subprocess.run([sys.executable, "-c", script], env=os.environ | warm.attached, check=True, timeout=300)
