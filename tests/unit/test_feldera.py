"""Feldera's program, made from our own tables, and the way an hour gets there and its views come back."""

import json
import re
from pathlib import Path

import pytest
import sqlglot
from deltalake import DeltaTable

from bench import feldera
from bench.feldera import FelderaDriver, Service, _chunks, _Feldera, _view, program
from medallion.demo.generate import generate
from medallion.errors import MedallionError, UsageError
from medallion.model.registry import registry
from medallion.model.table import Feed, Table
from medallion.ops import event_log, releases
from medallion.storage.lake import Lake
from tests.unit.feldera import FakeFeldera, serving

HOUR = "2025-11-30T00"


def view(query: str) -> str:
    """One view, on one line, without its head."""
    sql = _view(Table(keys=("k",), query=query, name="gold_x", doc="X."), {"whole"})
    return " ".join(sql.split("AS\n", 1)[1].rstrip(";").split())


# --- where its SQL differs, each difference has a test ---------------------------------------------------------------


def test_weeks_are_cut_by_its_own_function() -> None:
    assert view("SELECT DATE_TRUNC('WEEK', t) AS k FROM {bronze_orders}").startswith("SELECT TIMESTAMP_TRUNC(t, WEEK)")


def test_a_sum_of_integers_is_widened_as_spark_does() -> None:
    assert "SUM(CAST(whole AS BIGINT)) AS k" in view("SELECT SUM(whole) AS k FROM {bronze_orders}")
    assert "SUM(CAST(CASE WHEN a THEN whole ELSE 0 END AS BIGINT))" in view(
        "SELECT SUM(CASE WHEN a THEN whole ELSE 0 END) AS k FROM {bronze_orders}"
    )
    assert "SUM(money)" in view("SELECT SUM(money) AS k FROM {bronze_orders}")


def test_named_windows_are_written_out_where_they_are_used() -> None:
    sql = view("SELECT SUM(money) OVER w AS k FROM {bronze_orders} WINDOW w AS (PARTITION BY a ORDER BY t)")
    assert sql == "SELECT SUM(money) OVER (PARTITION BY a ORDER BY t) AS k FROM bronze_orders"


def test_types_are_called_as_it_calls_them() -> None:
    sql = program()
    assert "email VARCHAR," in sql
    assert "created_at TIMESTAMP NOT NULL," in sql
    assert "TEXT" not in sql and "TIMESTAMPTZ" not in sql


def test_casts_and_divisions_are_as_they_were() -> None:
    sql = view("SELECT CAST(a AS DOUBLE) / NULLIF(b, 0) AS k FROM {bronze_orders}")
    assert sql == "SELECT CAST(a AS DOUBLE) / NULLIF(b, 0) AS k FROM bronze_orders"


def test_beyond_these_differences_each_view_is_our_query() -> None:
    for table in registry():
        if isinstance(table, Feed):
            continue
        ours = table.query.format_map({name: name for name in table.inputs})
        words = set(re.findall(r"\w+", sqlglot.transpile(ours, read="spark", comments=False)[0].upper()))
        theirs = set(re.findall(r"\w+", _view(table, set()).split("AS\n", 1)[1].upper()))
        assert theirs - words <= {"TIMESTAMP_TRUNC", "CAST"}, table.name
        assert words - theirs <= {"TRY_CAST", "DATE_TRUNC", "WINDOW", "LAST_4_WEEKS", "SO_FAR", "YEAR_TO_DATE"}


def test_the_program_has_every_table_once_inputs_first() -> None:
    statements = sqlglot.parse(program(), read=_Feldera)
    names = [statement.find(sqlglot.exp.Table).name for statement in statements if statement]
    assert names == [table.name for table in registry()]


# --- the way there and back ------------------------------------------------------------------------------------------


def test_chunks_are_whole_lines_under_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feldera, "CHUNK", 10)
    assert list(_chunks([b"aaaa\n", b"bbbb", b"cc\n"])) == [b"aaaa\nbbbb\n", b"cc\n"]
    assert list(_chunks([b"longer than the limit\n", b"b\n"])) == [b"longer than the limit\n", b"b\n"]


def test_an_hour_is_pushed_awaited_and_its_views_are_a_release(tmp_path: Path) -> None:
    source = tmp_path / "source"
    generate(source, days=2, hours=1, scale=0.01, seed=0)
    with serving(FakeFeldera()) as fake:
        fake.key = "key of the api"
        driver = FelderaDriver(Service(fake.url, fake.key), source, tmp_path / "lake")
        seconds, cpu = driver.refresh(HOUR)
        waited = [path for _, path in fake.requests if path.endswith("completion_status")]
        driver.stop()
        assert fake.pipeline is not None and fake.pipeline["deployment_status"] == "Stopped"
    lake = Lake(driver.lake)
    release = releases.find(lake, None)
    assert (release.hour, release.strategy) == (HOUR, "feldera")
    assert set(release.versions) == {table.name for table in registry() if not isinstance(table, Feed)}
    (row,) = event_log.read(lake, hour=HOUR, event_type="push")
    lines = sum(len(file.read_bytes().splitlines()) for file in source.glob(f"cdc/*/{HOUR}.json"))
    assert (row["engine"], row["rows_in"], row["status"]) == ("feldera", lines, "succeeded")
    assert 0 < row["seconds"] <= seconds and cpu is None
    assert len(waited) >= 8, "it asks again until all is complete"
    orders = DeltaTable(lake.path("silver_orders_enriched")).to_pyarrow_table().to_pylist()
    assert orders and {order["order_status"] for order in orders} <= {
        *("pending", "confirmed", "shipped", "delivered", "cancelled", "returned")
    }


def test_a_program_that_does_not_compile_says_why() -> None:
    with serving(FakeFeldera()) as fake, pytest.raises(MedallionError, match="not compiled.*no_such_column"):
        Service(fake.url).start(
            "CREATE TABLE t (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT no_such_column FROM t;"
        )


def test_what_it_refuses_is_said_without_the_key() -> None:
    with serving(FakeFeldera()) as fake:
        fake.key = "right"
        with pytest.raises(MedallionError, match="401.*who are you") as refused:
            Service(fake.url, "wrong").start(program())
    assert "wrong" not in str(refused.value)


def test_nobody_there_is_one_line() -> None:
    with pytest.raises(MedallionError, match=r"Feldera at http://127.0.0.1:1: GET pipelines: .*refused"):
        Service("http://127.0.0.1:1").start(program())


def test_only_http_is_spoken() -> None:
    with pytest.raises(UsageError, match="no address"):
        Service("file:///etc/passwd")
    assert json.dumps(Service("http://x").key) == "null"
