"""A query over a release reads its rows, and can neither write anything nor read anything else."""

from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion.errors import UsageError
from medallion.inspect.query import open_release, select
from medallion.ops import releases
from medallion.settings import Settings
from medallion.storage.lake import Lake
from medallion.storage.s3 import S3Access

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

TABLE = "gold_x"
READS = (
    "SELECT x FROM gold_x ORDER BY x",
    "FROM gold_x ORDER BY x;",
    "TABLE gold_x",
    "WITH a AS (SELECT * FROM gold_x) SELECT * FROM a ORDER BY x",
    "/* a comment */ SELECT * FROM gold_x -- and another\n",
)
# Every kind of statement that DuckDB has besides SELECT and EXPLAIN; {lake} is a folder or bucket, {scratch} a folder.
WRITES = {
    "ALTER": "ALTER TABLE declared.gold_x ADD COLUMN y INT",
    "ANALYZE": "ANALYZE",
    "ATTACH": "ATTACH '{scratch}/other.db' AS other",
    "CALL": "CALL enable_profiling(save_location = '{lake}/ops/profile')",
    "COPY": "COPY (SELECT 1) TO '{lake}/ops/releases/_delta_log/00000000000000000000.json' (FORMAT csv)",
    "COPY data": "COPY (SELECT 1 AS x) TO 'release://gold_x/0.parquet' (FORMAT parquet)",
    "COPY FROM": "COPY declared.gold_x FROM '/etc/passwd' (FORMAT csv)",
    "COPY DATABASE": "COPY FROM DATABASE views TO other",
    "CREATE": "CREATE TABLE y AS SELECT 1 AS x",
    "CREATE TEMP": "CREATE TEMP TABLE y AS SELECT 1 AS x",
    "CREATE VIEW": "CREATE OR REPLACE VIEW gold_x AS SELECT 1 AS x",
    "CREATE MACRO": "CREATE MACRO f(a) AS a + 1",
    "CREATE SECRET": "CREATE SECRET s (TYPE s3)",
    "DELETE": "DELETE FROM declared.gold_x",
    "DETACH": "DETACH views",
    "DROP": "DROP VIEW gold_x",
    "EXECUTE": "EXECUTE p",
    "EXPORT": "EXPORT DATABASE '{lake}/export'",
    "IMPORT": "IMPORT DATABASE '{scratch}'",
    "INSERT": "INSERT INTO declared.gold_x VALUES (9)",
    "INSERT with CTE": "WITH a AS (SELECT 9) INSERT INTO declared.gold_x SELECT * FROM a",
    "INSTALL": "INSTALL httpfs",
    "LOAD": "LOAD httpfs",
    "MERGE": "MERGE INTO declared.gold_x USING gold_x ON true WHEN MATCHED THEN DELETE",
    "PRAGMA": "PRAGMA enable_profiling",
    "PREPARE": "PREPARE p AS SELECT 1",
    "SET": "SET enable_external_access = true",
    "SET VARIABLE": "SET VARIABLE a = 1",
    "RESET": "RESET allowed_paths",
    "TRANSACTION": "BEGIN TRANSACTION",
    "CHECKPOINT": "CHECKPOINT",
    "UPDATE": "UPDATE declared.gold_x SET x = 9",
    "UPDATE with CTE": "WITH a AS (SELECT 9 AS b) UPDATE declared.gold_x SET x = b FROM a",
    "USE": "USE memory",
    "VACUUM": "VACUUM",
}
PREFIXES = ("", "EXPLAIN ", "EXPLAIN ANALYZE ", "/* c */ explain -- c\n /* c */ analyze ", "EXPLAIN (ANALYZE) ")
OUTSIDE = (
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/**')",
    "SELECT * FROM read_csv('{lake}/ops/releases/_delta_log/00000000000000000000.json')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM 'release://gold_x/7.parquet'",
    "SELECT * FROM read_blob('release://gold_x/../../etc/passwd')",
    "SELECT * FROM enable_logging(storage = 'file', storage_config = {{'path': '{lake}/ops/log'}})",
    "SELECT * FROM enable_profiling(save_location = '{lake}/ops/profile')",
    "SELECT * FROM query('DROP VIEW gold_x')",
    "SELECT * FROM sqlite_scan('{lake}/x.db', 't')",
    "SELECT * FROM 'https://127.0.0.1:9/x.csv'",
    "SELECT * FROM connection",
    "SELECT * FROM json_execute_serialized_sql('{{}}')",
    "SELECT * FROM arrow_scan(0, 0, 0)",
)
MACHINE = (
    "SELECT current_setting('secret_directory')",
    "SELECT system.main.current_setting('home_directory') FROM gold_x",
    "SELECT list_transform(['temp_directory'], lambda name: \"Current_Setting\"(name))",
    "SELECT x FROM gold_x ORDER BY current_setting('temp_directory')",
    "SELECT getvariable('a')",
    "SELECT sleep_ms(1)",
    "SELECT * FROM pg_sleep(1)",
    "SELECT * FROM pg_catalog.pg_settings",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_databases",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM duckdb_secrets()",
    "WITH a AS (SELECT * FROM pragma_database_list) SELECT * FROM a",
    "PRAGMA database_list",
)


@pytest.fixture(params=["disk", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A release of one table with the rows 1 and 2."""
    if request.param == "bucket":
        request.getfixturevalue("lake_bucket")
    root = "s3a://lakes/shop" if request.param == "bucket" else str(tmp_path / "lake")
    made = Lake(root, S3Access.of(Settings.from_environment()))
    path = made.path(TABLE)
    write_deltalake(path, pa.table({"x": [1, 2]}), storage_options=made.storage_options)
    releases.publish(made, after=None, hour=None, run_id="r", strategy="full", contents=releases.Contents({TABLE: 0}))
    return made


@pytest.fixture
def connection(lake: Lake) -> "Iterator[DuckDBPyConnection]":
    with open_release(lake, releases.require_release(lake, None)) as opened:
        yield opened


def content(lake: Lake) -> dict[str, str]:
    """Every file of a lake, and a hash of it."""
    found = (place for place in lake.at(lake.root).rglob("*") if place.is_file())
    return {str(place): sha256(place.read_bytes()).hexdigest() for place in found}


def filled(sql: str, lake: Lake, scratch: Path) -> str:
    (file,) = lake.folder(TABLE).glob("*.parquet")
    return sql.format(lake=lake.root, scratch=scratch, file=file)


def test_a_select_reads_the_rows_of_the_release(connection: Any) -> None:
    for sql in READS:
        assert select(connection, sql).fetchall() == [(1,), (2,)], sql


def test_a_reader_sees_which_tables_there_are_and_how_a_query_runs(connection: Any) -> None:
    assert select(connection, "SHOW TABLES").fetchall() == [(TABLE,)]
    assert select(connection, "DESCRIBE gold_x").fetchall()[0][:2] == ("x", "BIGINT")
    assert select(connection, "SUMMARIZE gold_x").fetchall()[0][:4] == ("x", "BIGINT", "1", "2")
    for sql in ("EXPLAIN SELECT * FROM gold_x", "-- why\nexplain analyze SELECT * FROM gold_x"):
        assert select(connection, sql).fetchall()


def test_every_other_statement_is_refused_and_changes_nothing(lake: Lake, connection: Any, tmp_path: Path) -> None:
    before = content(lake)
    for sql in (filled(sql, lake, tmp_path) for sql in WRITES.values()):
        several = (f"SELECT 1; {sql}", f"{sql}; SELECT 1", f"EXPLAIN SELECT 1; {sql}")
        for attempt in (*(prefix + sql for prefix in PREFIXES), *several):
            with pytest.raises(UsageError, match="a release can only be read|the query fails: syntax error"):
                select(connection, attempt)
        assert content(lake) == before, sql
    assert select(connection, READS[0]).fetchall() == [(1,), (2,)]


def test_the_database_itself_cannot_write_whatever_is_executed(lake: Lake, connection: Any, tmp_path: Path) -> None:
    before, scratch = content(lake), sorted(tmp_path.rglob("*"))
    for sql in WRITES.values():
        for prefix in PREFIXES[:3]:
            with suppress(duckdb.Error, PermissionError):
                connection.execute(prefix + filled(sql, lake, tmp_path)).fetchall()
        assert content(lake) == before, sql
    assert sorted(tmp_path.rglob("*")) == scratch


def test_nothing_but_the_data_of_the_release_can_be_read(lake: Lake, connection: Any, tmp_path: Path) -> None:
    before = content(lake)
    for sql in (filled(sql, lake, tmp_path) for sql in OUTSIDE):
        for query in (sql, f"EXPLAIN ANALYZE {sql}", f"SELECT * FROM gold_x WHERE x IN ({sql})"):
            with pytest.raises(UsageError, match="the query fails|a query reads the tables of its release alone"):
                select(connection, query)
    assert content(lake) == before


def test_nothing_is_told_of_the_machine(connection: Any) -> None:
    for sql in MACHINE:
        with pytest.raises(UsageError, match="a query reads the tables of its release alone|a release can only be"):
            select(connection, sql)


def test_every_kind_of_statement_is_tried() -> None:
    parse = duckdb.connect().extract_statements
    queries = [sql.format(lake="lake", scratch="scratch") for name, sql in WRITES.items() if name != "IMPORT"]
    tried = {statement.type.name for sql in queries for statement in parse(sql)}
    # Of these, some are parsed as another kind, and the rest are made by the database itself.
    others = {"ANALYZE", "VARIABLE_SET", "INVALID", "LOGICAL_PLAN", "RELATION", "EXTENSION", "MULTI", "CREATE_FUNC"}
    assert {kind for kind in vars(duckdb.StatementType) if kind.isupper()} - tried - others == {"SELECT", "EXPLAIN"}
