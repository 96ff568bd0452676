"""Catalogs: readers find the tables of a release by name, whatever is written after it."""

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
import sqlglot

from medallion.errors import UsageError
from medallion.inspect.catalog import spark_statements, write_duckdb_catalog
from medallion.ops import releases
from tests.unit.small_lake import H0, H1, Shop


@pytest.fixture
def file(shop: Shop, tmp_path: Path) -> Path:
    """A catalog of the release of one hour, after which another one was published."""
    shop.put(H0, {1: "a"})
    shop.refresh()
    catalog = tmp_path / "shop [x].duckdb"
    write_duckdb_catalog(shop.lake, releases.require_release(shop.lake, None), catalog, shop.tables)
    shop.put(H1, {2: "b"})
    shop.refresh()
    return catalog


def rows(file: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(file), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def test_views_read_the_release_they_were_made_of(shop: Shop, file: Path) -> None:
    assert rows(file, "SELECT id, name FROM gold_orders") == [(1, "a")]
    assert rows(file, "SELECT release_id, hour FROM release") == [("2", f"hour {H0}")]
    names = {name for (name,) in rows(file, "SHOW TABLES")}
    assert names == {"release", *(table.name for table in shop.tables)}


def test_catalog_is_replaced_as_a_whole_while_someone_reads_it(shop: Shop, file: Path) -> None:
    with duckdb.connect(str(file), read_only=True) as reader:
        write_duckdb_catalog(shop.lake, releases.require_release(shop.lake, None), file, shop.tables)
        assert reader.execute("SELECT id FROM gold_orders").fetchall() == [(1,)]
    assert rows(file, "SELECT id FROM gold_orders ORDER BY id") == [(1,), (2,)]
    assert [one.name for one in file.parent.glob(".shop*")] == []


def test_file_that_is_no_database_is_left_alone(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("keep me")
    with pytest.raises(UsageError, match="is no DuckDB database"):
        write_duckdb_catalog(shop.lake, releases.require_release(shop.lake, None), tmp_path / "notes.txt", shop.tables)
    assert (tmp_path / "notes.txt").read_text() == "keep me"


def test_readers_of_a_catalog_are_told_what_tables_and_columns_mean(shop: Shop, tmp_path: Path) -> None:
    feed = replace(shop.tables["bronze_orders"], schema="id BIGINT NOT NULL COMMENT 'Identifies it', name STRING")
    declared = replace(shop.tables, tables={**shop.tables.tables, feed.name: feed})
    release = releases.require_release(shop.lake, None)
    write_duckdb_catalog(shop.lake, release, tmp_path / "told.duckdb", declared)
    named = "table_name = 'gold_orders' AND comment IS NOT NULL"
    columns = rows(tmp_path / "told.duckdb", f"SELECT column_name, comment FROM duckdb_columns() WHERE {named}")
    assert columns == [("id", "Identifies it")]
    views = "SELECT comment FROM duckdb_views() WHERE view_name = 'gold_orders'"
    assert rows(tmp_path / "told.duckdb", views) == [("A copy.",)]
    assert sum(" COMMENT 'A copy.' AS SELECT" in s for s in spark_statements(shop.lake, release, declared)) == 2


@pytest.mark.parametrize("database", [None, "shop"])
def test_spark_gets_a_view_per_table_at_its_version(shop: Shop, database: str | None) -> None:
    release = releases.require_release(shop.lake, None)
    statements = [*spark_statements(shop.lake, release, shop.tables, database)]
    views = [statement for statement in statements if "VIEW" in statement]
    assert len(views) == len(release.versions)
    assert len(statements) - len(views) == (database is not None)
    for statement in statements:
        assert sqlglot.parse_one(statement, dialect="databricks")
