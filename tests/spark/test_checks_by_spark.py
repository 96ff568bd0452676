"""A check by Spark says what a check by DuckDB says, of every expectation of the shop, on good rows and on bad ones."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.checks import by_change
from medallion.checks.by_change import CHANGED, WHOLE, Basis, expectation_digest
from medallion.checks.checkpoint import CheckedLayer, run_checkpoint
from medallion.checks.context import CheckContext, SparkChecks
from medallion.checks.result import BY_SPARK, EXAMPLES, CheckResult, ExpectationResult
from medallion.checks.suites import suites
from medallion.errors import MedallionError
from medallion.expect.scopes import RowCount, Rows
from medallion.expect.vocabulary import Expectation, at_least, in_set, no_rows, not_empty, not_null, refers_to, unique
from medallion.model.table import Table
from medallion.ops import event_log
from medallion.ops.check_records import CheckedTable
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.pipeline.steps import run_step
from medallion.storage.deletion_vectors import deleted_positions
from medallion.storage.duckdb_views import TableAt

MARK_ROWS = "spark.databricks.delta.delete.deletionVectors.persistent"
LEAST_FAILED = 0.6  # of all expectations of the shop, on damaged rows


def check_shop(driver: Driver, layer: str, spark: SparkChecks | None = None) -> CheckResult:
    """Check a layer as the pipeline does."""
    return run_checkpoint(
        CheckedLayer(layer, "2025-11-30T00", "by-spark" if spark else "by-duckdb"),
        {
            table.name: TableAt(
                driver.lake.folder(table.name),
                columns=None if isinstance(table, Table) else tuple(column.name for column in table.columns),
            )
            for table in driver.tables
        },
        suites=suites(driver.project, layer, driver.tables),
        reports=driver.lake.reports,
        context=CheckContext(spark=spark),
    )


def facts(result: CheckResult) -> dict[tuple[str, str], tuple[Any, ...]]:
    """What a check says of each expectation, whoever read the rows; of many failed rows, any may be examples."""
    return {
        (table.table, line.meaning): (
            *(line.status, line.success, line.error, line.observed, line.unexpected_count, line.unexpected_percent),
            *(line.query, line.examples and [*line.examples[0]], len(line.examples)),
            sorted(map(str, line.examples)) if len(line.examples) < EXAMPLES else [],
        )
        for table in result.tables
        for line in table.expectations
    }


def lines(result: CheckResult) -> Iterator[ExpectationResult]:
    return (line for table in result.tables for line in table.expectations)


def proofs(result: CheckResult) -> dict[str, dict[str, tuple[int | None, int | None]]]:
    """What the next check goes on from, but for the moment."""
    return {
        table: {digest: (proof.failed, proof.values) for digest, proof in passed.items()}
        for table, passed in result.proofs.items()
    }


def basis_of(result: CheckResult) -> Basis:
    tables = {
        name: CheckedTable(version, result.table_ids[name], result.rows[name])
        for name, version in result.versions.items()
    }
    return Basis(tables, result.proofs, timedelta(days=1))


def never() -> Any:
    raise MedallionError("no Spark master answers")


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


@pytest.mark.parametrize("is_damaged", [False, True])
def test_every_expectation_of_the_shop_gets_the_same_result_from_spark_and_duckdb(
    is_damaged: bool, refreshed_shop: Path, copied_shop: Callable[[Path], Driver], spark: Any
) -> None:
    driver = copied_shop(refreshed_shop)
    if is_damaged:
        for place, table in enumerate(driver.tables):
            path = driver.lake.path(table.name)
            rows = damage(DeltaTable(path).to_pyarrow_table(), every=(7, 60)[place % 2])  # more, or less, than 5 %
            write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")
    results = [
        (check_shop(driver, layer), check_shop(driver, layer, SparkChecks(0, lambda: spark)))
        for layer in driver.tables.layers
    ]

    for by_duckdb, by_spark in results:
        assert facts(by_spark) == facts(by_duckdb)
        assert proofs(by_spark) == proofs(by_duckdb)
    counted_by_log = {
        expectation.meaning
        for layer in driver.tables.layers
        for suite in suites(driver.project, layer, driver.tables).values()
        for expectation in suite
        if isinstance(expectation.by_change, RowCount)
    }
    every = [line for _, by_spark in results for line in lines(by_spark)]
    assert [(line.meaning, line.note) for line in every if line.note] == []
    assert {line.looked_at for line in every if line.meaning not in counted_by_log} == {BY_SPARK}
    assert sum(not line.success for line in every) >= (LEAST_FAILED * len(every) if is_damaged else 0)
    assert is_damaged or all(line.success for line in every)


# -- a small table beside it

SHOP = pa.table(
    {
        "id": [1, 2, 2, None, None, 6],
        "tier": ["gold", "lead", "gold", None, "gold", "tin"],
        "paid": [5, -1, 7, None, 101, 3],
    },
    pa.schema([("id", pa.int64()), ("tier", pa.string()), ("paid", pa.int64())]),
)
AT_MOST = no_rows("SELECT * FROM {batch} WHERE paid > 200", "nobody pays above 200", by_change=Rows())
WRONG = no_rows("SELECT * FROM {batch} WHERE TRY_CAST(tier AS BIGINT) > 0", "tier is not a number")
AVERAGE = no_rows("SELECT 1 FROM (SELECT AVG(paid) AS paid FROM {batch}) AS all_rows WHERE paid > 3", "little is paid")
ALIAS = no_rows("SELECT paid AS amount FROM {batch} WHERE amount > 100", "nobody pays above 100")
KNOWN = refers_to("tier", "tiers", allowed_percent=50)
PAID = at_least("paid", 0, allowed_percent=30)


class Lake:
    """A table of customers and one of tiers, and checks of the first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tables = {name: TableAt(root / name) for name in ("shop", "tiers")}
        self.write("shop", SHOP)
        self.write("tiers", pa.table({"tier": ["gold", "silver"]}))

    def write(self, name: str, rows: pa.Table, mode: Literal["append", "overwrite"] = "append") -> None:
        write_deltalake(str(self.root / name), rows, mode=mode)

    def check(self, *expectations: Expectation, spark: SparkChecks | None = None, basis: Any = None) -> CheckResult:
        checked, context = CheckedLayer("silver", "2025-11-30T00", "run"), CheckContext(basis=basis, spark=spark)
        return run_checkpoint(
            checked, self.tables, suites={"shop": expectations}, reports=self.root / "reports", context=context
        )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture(autouse=True)
def even_a_large_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of tests are small: one row is a large share of them."""
    monkeypatch.setattr(by_change, "MAX_CHANGED_SHARE", float("inf"))


def judged(result: CheckResult) -> list[tuple[bool, str, bool]]:
    return [(line.success, line.looked_at, line.note is not None) for line in lines(result)]


def test_failed_rows_are_named_and_counted_by_spark(lake: Lake, spark: Any) -> None:
    """Worked out by hand from the rows above."""
    result = lake.check(
        *(unique("id"), not_null("id"), at_least("paid", 0), in_set("tier", ("gold",)), refers_to("tier", "tiers")),
        spark=SparkChecks(0, lambda: spark),
    )

    assert [(line.observed, line.unexpected_count, sorted(line.examples, key=str)) for line in lines(result)] == [
        ("4 of 6 rows (2 values of id)", 4, [{"id": "2", "copies": "2"}, {"id": None, "copies": "2"}]),
        ("2 of 6 rows", 2, [{"id": None, "tier": "gold", "paid": "101"}, {"id": None, "tier": None, "paid": None}]),
        ("1 of 6 rows", 1, [{"paid": "-1", "id": "2", "tier": "lead"}]),
        ("2 of 6 rows", 2, [{"tier": "lead", "id": "2", "paid": "-1"}, {"tier": "tin", "id": "6", "paid": "3"}]),
        (
            "2 of 6 rows (2 values of tier)",
            2,
            [{"tier": "lead", "rows_with_it": "1"}, {"tier": "tin", "rows_with_it": "1"}],
        ),
    ]
    assert [line.unexpected_percent for line in lines(result)][1:4] == [2 / 6 * 100, 1 / 5 * 100, 2 / 5 * 100]


def test_all_conditions_on_a_table_are_counted_in_one_job(lake: Lake, spark: Any) -> None:
    spark.sparkContext.setJobGroup("conditions", "")
    before = len(spark.sparkContext.statusTracker().getJobIdsForGroup("conditions"))

    result = lake.check(*(at_least("paid", -n) for n in range(2, 12)), spark=SparkChecks(0, lambda: spark))

    assert {line.looked_at for line in lines(result)} == {BY_SPARK} and result.status == "succeeded"
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("conditions")) - before == 1


def test_the_next_check_goes_on_from_what_spark_counted(lake: Lake, spark: Any) -> None:
    by_duckdb, by_spark = lake.check(KNOWN, PAID), lake.check(KNOWN, PAID, spark=SparkChecks(0, lambda: spark))

    assert proofs(by_spark) == proofs(by_duckdb)
    counts = {(proof.failed, proof.values) for proof in by_spark.proofs["shop"].values()}
    assert counts == {(2, 5), (1, 5)}

    lake.write("shop", SHOP.slice(0, 1))
    later = lake.check(KNOWN, PAID, spark=SparkChecks(0, never), basis=basis_of(by_spark))
    assert judged(later) == [(True, CHANGED, False)] * 2
    assert {(proof.failed, proof.values) for proof in later.proofs["shop"].values()} == {(2, 6), (1, 6)}


def test_spark_judges_a_large_table_whose_changed_rows_fail(lake: Lake, spark: Any) -> None:
    former = lake.check(AT_MOST, spark=SparkChecks(0, lambda: spark))
    lake.write("shop", pa.table({"id": [7], "tier": ["gold"], "paid": [300]}))

    result = lake.check(AT_MOST, spark=SparkChecks(0, lambda: spark), basis=basis_of(former))

    assert judged(result) == [(False, BY_SPARK, False)]
    assert [line.observed for line in lines(result)] == ["its query found 1 row"]


def test_what_spark_cannot_run_is_judged_by_duckdb_and_says_so(lake: Lake, spark: Any) -> None:
    result = lake.check(AVERAGE, ALIAS, WRONG, KNOWN, spark=SparkChecks(0, lambda: spark))

    assert judged(result) == [(False, WHOLE, True), (False, WHOLE, True), (True, WHOLE, True), (True, BY_SPARK, False)]
    assert next(line.note for line in lines(result)) == "AVG(paid) may mean something else in Spark"
    assert [line.meaning for _, line in result.not_by_spark] == [AVERAGE.meaning, ALIAS.meaning, WRONG.meaning]
    assert any("judged by DuckDB instead of Spark: AVG(paid)" in line for line in result.details())
    page = (lake.root / "reports" / result.page).read_text()
    assert "whole table, not by Spark: AVG(paid) may mean something else in Spark" in page
    assert "3 expectations: whole table; 1 expectation: whole table by Spark; the rest by DuckDB" in page


def test_a_spark_that_does_not_start_fails_what_it_was_to_judge(lake: Lake) -> None:
    result = lake.check(not_null("tier"), KNOWN, not_empty(), spark=SparkChecks(0, never))

    assert [(line.status, line.error) for line in lines(result)] == [
        ("failed", "Spark broke down: no Spark master answers"),
        ("failed", "Spark broke down: no Spark master answers"),
        ("succeeded", None),
    ]
    assert result.status == "failed" and not result.proofs["shop"].keys() - {expectation_digest(not_empty())}


def test_only_an_expectation_that_reads_a_table_above_the_bound_is_judged_by_spark(lake: Lake, spark: Any) -> None:
    lake.write("tiers", pa.table({"tier": [f"tier {n}" for n in range(20_000)]}))
    sizes = {name: sum(file.stat().st_size for file in (lake.root / name).glob("*.parquet")) for name in lake.tables}
    between_both = SparkChecks(sizes["shop"] + 1, lambda: spark)
    assert sizes["shop"] + 1 < sizes["tiers"]

    assert judged(lake.check(at_least("paid", -1), KNOWN, spark=between_both)) == [
        (True, WHOLE, False),
        (True, BY_SPARK, False),
    ]
    assert judged(lake.check(KNOWN, spark=SparkChecks(sizes["tiers"] + 1, never))) == [(True, WHOLE, False)]


def test_the_setting_decides_which_tables_of_the_pipeline_spark_checks(
    refreshed_shop: Path, copied_shop: Callable[[Path], Driver]
) -> None:
    driver = copied_shop(refreshed_shop)
    engines = {}
    for size in ("off", "64g", "1k"):
        driver.settings = driver.settings.replace(spark_checks_from=size)
        run_step("check", Run(driver.settings, "2025-11-30T00", size), driver, "gold")
        events = event_log.read(driver.lake, run_id=size, event_type="check")
        engines[size] = {event.engine for event in events if event.table_name}

    assert engines == {"off": {"duckdb"}, "64g": {"duckdb"}, "1k": {"spark"}}


def test_a_share_at_the_tolerance_passes_or_fails_alike(lake: Lake, spark: Any) -> None:
    """2 of 5 tiers are unknown, 1 of 5 payments is negative, in doubles and in whole numbers."""
    shares = (0.1, 19.999999999999996, 20, 20.000000000000004, 33.3, 39.99999999999999, 40, 40.1, 100)
    expected = [at_least("paid", 0, allowed_percent=share) for share in shares]
    expected += [refers_to("tier", "tiers", allowed_percent=share) for share in shares]
    expected += [not_null("id", allowed_percent=share) for share in (33.33333333333333, 33.333333333333336, 33.4)]

    by_duckdb, by_spark = lake.check(*expected), lake.check(*expected, spark=SparkChecks(0, lambda: spark))

    assert facts(by_spark) == facts(by_duckdb) and proofs(by_spark) == proofs(by_duckdb)
    assert {line.success for line in lines(by_spark)} == {True, False}


def test_spark_reads_the_version_and_the_columns_that_duckdb_reads(lake: Lake, spark: Any) -> None:
    path = str(lake.root / "shop")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    spark.conf.set(MARK_ROWS, True)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IS NULL")
    spark.conf.set(MARK_ROWS, False)
    assert deleted_positions(DeltaTable(path))
    expected = not_null("id"), unique("id"), at_least("paid", 0), no_rows("SELECT * FROM {batch} WHERE paid > 6", "few")

    for version in (0, 2):
        lake.tables["shop"] = TableAt(lake.root / "shop", version, ("paid", "id"))
        by_duckdb, by_spark = lake.check(*expected), lake.check(*expected, spark=SparkChecks(0, lambda: spark))
        assert facts(by_spark) == facts(by_duckdb)
        null_ids = next(lines(by_spark))
        assert (null_ids.success, null_ids.unexpected_count) == ((False, 2) if version == 0 else (True, None))
        assert all({*example} <= {"paid", "id", "copies"} for line in lines(by_spark) for example in line.examples)
