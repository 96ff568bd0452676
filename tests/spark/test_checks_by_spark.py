"""A check by Spark says what a check by DuckDB says, of every expectation of the shop, on good rows and on bad ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.checks.checkpoint import CheckedLayer, run_checkpoint
from medallion.checks.context import CheckContext, SparkChecks
from medallion.checks.result import BY_SPARK, CheckResult, ExpectationResult
from medallion.checks.suites import suites
from medallion.expect.vocabulary import Expectation
from medallion.pipeline.check import _declared
from medallion.pipeline.driver import Driver
from medallion.storage.duckdb_views import TableAt

Suites = Mapping[str, Sequence[Expectation]]

ROW_COUNT = "ExpectTableRowCountToBeBetween"  # is in the log
LEAST_FAILED = 0.6  # of all expectations of the shop, on damaged rows


def check_shop(driver: Driver, layer: str, spark: SparkChecks | None = None) -> CheckResult:
    """Check a layer as the pipeline does."""
    return run_checkpoint(
        CheckedLayer(layer, "2025-11-30T00", "by-spark" if spark else "by-duckdb"),
        {table.name: TableAt(driver.lake.folder(table.name), columns=_declared(table)) for table in driver.tables},
        suites=suites(driver.project, layer, driver.tables),
        reports=driver.lake.reports,
        context=CheckContext(spark=spark),
    )


def facts(result: CheckResult) -> dict[tuple[str, str], tuple[Any, ...]]:
    """What a check says of each expectation, whoever read the rows; which of the rows are examples may differ."""
    return {
        (table.table, line.meaning): (
            *(line.status, line.success, line.error, line.observed, line.unexpected_count, line.unexpected_percent),
            *(len(line.examples), line.examples and [*line.examples[0]], line.query),
        )
        for table in result.tables
        for line in table.expectations
    }


def lines(result: CheckResult) -> Iterator[ExpectationResult]:
    return (line for table in result.tables for line in table.expectations)


def damage(rows: pa.Table, every: int) -> pa.Table:
    """Null, change or make negative one value of ``every`` in each column, and repeat some rows."""

    def wrong(value: Any, row: int) -> Any:
        match value:
            case bool() | None:
                return None
            case str():
                return f"nobody's {{{row % 3}}}"
            case int() | float() | Decimal():
                return type(value)(-1 - row % 3)
            case datetime():
                return value - timedelta(days=400)
        return value

    columns = {}
    for place, (name, column) in enumerate(zip(rows.column_names, rows.columns, strict=True)):
        values = column.to_pylist()
        for row in range(place % every, len(values), every):
            values[row] = None if (row // every) % 2 else wrong(values[row], row)
        columns[name] = pa.array(values, column.type)
    damaged = pa.table(columns)
    return pa.concat_tables([damaged, damaged.slice(0, 1 + len(damaged) // every)])


@pytest.mark.parametrize("every", [None, 7, 60])
def test_every_expectation_of_the_shop_is_judged_alike_by_spark_and_duckdb(
    every: int | None, refreshed_shop: Path, copied_shop: Callable[[Path], Driver], spark: Any
) -> None:
    driver = copied_shop(refreshed_shop)
    if every is not None:
        for table in driver.tables:
            path = driver.lake.path(table.name)
            rows = damage(DeltaTable(path).to_pyarrow_table(), every)
            write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")

    failed = total = 0
    for layer in driver.tables.layers:
        by_duckdb, by_spark = check_shop(driver, layer), check_shop(driver, layer, SparkChecks(0, lambda: spark))

        assert facts(by_spark) == facts(by_duckdb)
        assert [line.note for line in lines(by_spark) if line.note] == []
        assert {line.looked_at for line in lines(by_spark) if not line.kind == ROW_COUNT} <= {BY_SPARK, "whole table"}
        failed += sum(not line.success for line in lines(by_spark))
        total += sum(1 for _ in lines(by_spark))
        print(layer, by_duckdb.seconds, by_spark.seconds)
    print(failed, total)
    assert (failed == 0) if every is None else True
