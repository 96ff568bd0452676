"""The way of an hour to a Feldera and of its views back, against a stand-in that refuses what the real one refuses."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from bench.feldera.driver import FelderaDriver, Refreshed
from bench.feldera.program import program
from bench.feldera.service import PIPELINE, Service, chunks
from bench.machine import cores
from bench.report_tables import service_rows
from demo.generate import generate
from medallion.errors import MedallionError, UsageError
from medallion.model.table import Feed
from medallion.ops import event_log, releases
from medallion.settings import Settings
from medallion.storage.lake import Lake
from tests.shop import registry
from tests.unit.feldera import FakeFeldera, Refused, serving

HOUR, NEXT = "2025-11-30T00", "2025-11-30T01"
SMALL = """
    CREATE TABLE t (id BIGINT NOT NULL, price DECIMAL(10, 2), at TIMESTAMP, PRIMARY KEY (id));
    CREATE MATERIALIZED VIEW prices AS SELECT SUM(price) AS price, MAX(at) AS at FROM t;
    CREATE MATERIALIZED VIEW dear AS SELECT id, price FROM t WHERE price > 100;
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small shop, of which two hours change."""
    folder = tmp_path_factory.mktemp("feldera") / "source"
    generate(folder, days=2, hours=2, scale=0.01, seed=0)
    return folder


@pytest.fixture
def fake() -> Iterator[FakeFeldera]:
    with serving(FakeFeldera()) as running:
        yield running


def service(fake: FakeFeldera, **settings: Any) -> Service:
    """The service at the stand-in, in a hurry."""
    return Service(fake.url, fake.key, **{"pause_seconds": 0.001, "patience_seconds": 5.0, **settings})


def started(fake: FakeFeldera, sql: str = SMALL, **settings: Any) -> Service:
    """A service whose pipeline runs."""
    feldera = service(fake, **settings)
    feldera.compile(sql, 1)
    feldera.start()
    return feldera


def insert(**row: Any) -> bytes:
    return json.dumps({"insert": row}).encode()


def plain(fake: FakeFeldera, method: str, rest: str, body: bytes | None = None) -> tuple[int, str]:
    """What the stand-in answers to one plain request, as a driver would see it that takes no precautions."""
    request = urllib.request.Request(f"{fake.url}/v0/pipelines/{PIPELINE}{rest}", body, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def price(feldera: Service, tmp_path: Path) -> Any:
    ((value),) = feldera.rows("prices", tmp_path / "prices.parquet").column("price").to_pylist()
    return value


# --- start -----------------------------------------------------------------------------------------------------------


def test_clearing_is_awaited_before_the_start(fake: FakeFeldera) -> None:
    started(fake).stop()
    assert plain(fake, "POST", "/clear")[0] == 202
    status, said = plain(fake, "POST", "/start")
    assert (status, json.loads(said)["error_code"]) == (400, "CannotStartWhileClearingStorage"), "what waiting avoids"
    started(fake)
    assert fake.pipeline is not None and fake.pipeline["deployment_status"] == "Running"


def test_rows_of_a_former_run_are_gone(fake: FakeFeldera, tmp_path: Path) -> None:
    for _ in range(2):
        feldera = started(fake)
        feldera.wait(feldera.push({"t": [insert(id=len(fake.requests), price="1.00")]}))
        assert str(price(feldera, tmp_path)) == "1.00"


def test_an_error_of_a_former_run_is_dismissed(fake: FakeFeldera) -> None:
    started(fake)
    fake.end(RuntimeError("division by zero"))
    assert json.loads(plain(fake, "GET", "?selector=status")[1])["deployment_error"], "it stays until then"
    assert plain(fake, "POST", "/start?dismiss_error=false")[0] == 400
    started(fake)
    assert fake.pipeline is not None and fake.pipeline["deployment_error"] is None


def test_a_pipeline_that_cannot_start_says_why(fake: FakeFeldera) -> None:
    feldera = service(fake)
    feldera.compile(SMALL, 1)
    starting = fake.act

    def ends(what: str, asked: dict[str, list[str]]) -> None:
        starting(what, asked)
        fake.end(RuntimeError("no such worker"))

    fake.act = ends  # type: ignore[method-assign]
    with pytest.raises(MedallionError, match="the pipeline ended in Feldera at .*no such worker"):
        feldera.start()


def test_other_workers_are_refused_until_storage_is_cleared(fake: FakeFeldera) -> None:
    started(fake).stop()
    body = json.dumps({"name": PIPELINE, "program_code": SMALL, "runtime_config": {"workers": 7}}).encode()
    assert "EditRestrictedToClearedStorage" in plain(fake, "PUT", "", body)[1]
    service(fake).compile(SMALL, 7)
    assert fake.pipeline is not None and fake.pipeline["runtime_config"] == {"workers": 7}


def test_failed_compilation_reports_errors_without_warnings(fake: FakeFeldera) -> None:
    with pytest.raises(MedallionError, match=r"not compiled .*: SqlError: line 7: SQL error: .*no_such") as refused:
        service(fake).compile(f"{SMALL} CREATE MATERIALIZED VIEW v AS SELECT no_such FROM t;", 1)
    assert "not used" not in str(refused.value)
    first, *_ = json.loads(plain(fake, "GET", "")[1])["program_error"]["sql_compilation"]["messages"]
    assert first["warning"], "which the service lists first"


@pytest.mark.parametrize(("master", "number"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2)])
def test_workers_are_the_cores_of_the_others(master: str, number: int) -> None:
    assert cores(master) == number
    assert cores("local[*]") == cores("spark://host:7077") >= 1


def test_a_program_that_the_pipeline_has_is_not_compiled_again(fake: FakeFeldera) -> None:
    assert [service(fake).compile(sql, 1) for sql in (SMALL, SMALL, SMALL + " ")] == [True, False, True]
    facts = {"workers": 1, "compile_seconds": None, "deploy_seconds": 1.0, "snapshot_seconds": 1.0}
    result = {"services": {"30 1 feldera": facts | {"memory_bytes": None, "storage_bytes": 119}}}
    (words,) = service_rows(result).values()
    assert words.startswith("1 workers; compiled by an earlier run, deployed in 1.0 s")
    assert "less than 1 MB of storage" in words


def test_a_decimal_as_text_is_cut_where_it_has_too_many_digits(fake: FakeFeldera, tmp_path: Path) -> None:
    feldera = started(fake)
    feldera.wait(feldera.push({"t": [insert(id=1, price="1.009")]}))
    assert str(price(feldera, tmp_path)) == "1.00", "hence texts have the digits of their column"


# --- push ------------------------------------------------------------------------------------------------------------


def test_chunks_are_whole_lines_under_the_limits() -> None:
    assert list(chunks([b"aaaa\n", b"bbbb", b"cc\n"], 10)) == [b"aaaa\nbbbb\n", b"cc\n"]
    assert list(chunks([b"longer than the limit\n", b"b\n"], 10)) == [b"longer than the limit\n", b"b\n"]
    assert list(chunks([b"a", b"b", b"c"], 100, 2)) == [b"a\nb\n", b"c\n"]


def test_a_push_is_repeated_while_the_buffer_stands_full(fake: FakeFeldera, tmp_path: Path) -> None:
    feldera = started(fake)
    fake.buffer_records, fake.stalled = 2, 3
    lines = [insert(id=n % 4, price=f"{n}.10") for n in range(6)]
    ingress = "/ingress/t?format=json&update_format=insert_delete&array=false"
    assert plain(fake, "POST", ingress, b"\n".join(lines))[0] == 503, "with a part of it taken in"
    feldera.wait(feldera.push({"t": lines}))
    assert fake.stalled == 0
    assert str(price(feldera, tmp_path)) == "14.40", "4.10 + 5.10 + 2.10 + 3.10: each key once, its last row"


def test_calls_that_end_after_ten_seconds_are_repeated(fake: FakeFeldera, tmp_path: Path) -> None:
    feldera = started(fake)
    fake.busy["stats"] = 1
    assert plain(fake, "GET", "/stats")[0] == 503
    fake.busy.update(completion_status=2, stats=2, query=1, t=1)
    feldera.wait(feldera.push({"t": [insert(id=1, price="1.00")]}))
    assert feldera.usage().memory_bytes
    assert str(price(feldera, tmp_path)) == "1.00"
    assert not any(fake.busy.values())


def test_patience_with_a_busy_service_ends(fake: FakeFeldera) -> None:
    feldera = started(fake, patience_seconds=0.05)
    fake.busy["stats"] = 1000
    with pytest.raises(MedallionError, match=r"GET .*/stats: still 503 Timeout .* after 0.05 seconds"):
        feldera.usage()


def test_bad_line_is_refused_and_the_good_lines_of_the_request_are_accepted(fake: FakeFeldera, tmp_path: Path) -> None:
    feldera = started(fake)
    lines = [insert(id=1, price="1.00"), b'{"insert": {"id": "one"}}', insert(id=2, price="2.00")]
    with pytest.raises(MedallionError, match=r"ingress/t: 400 Errors parsing input data \(1 errors\)"):
        feldera.push({"t": lines})
    feldera.wait(feldera.push({"t": [insert(id=3, price="4.00")]}))
    assert str(price(feldera, tmp_path)) == "7.00"


def test_tables_are_pushed_side_by_side(fake: FakeFeldera) -> None:
    feldera = started(fake, SMALL + SMALL.replace("TABLE t ", "TABLE u ").split(";")[0] + ";")
    fake.push_seconds = 0.2
    feldera.push({"t": [insert(id=1)], "u": [insert(id=1)]})
    assert fake.at_once == 2
    fake.at_once = 0
    feldera.push({"t": [insert(id=1), insert(id=2)]})
    assert fake.at_once == 1, "the changes of one table stay in order"


def test_the_size_of_a_request_is_a_setting(fake: FakeFeldera) -> None:
    lines = [insert(id=n, price="1.00") for n in range(100)]
    feldera = started(fake)
    fake.proxy_bytes = 1200
    with pytest.raises(MedallionError, match="413 Request Entity Too Large"):
        feldera.push({"t": lines})
    variables = {"MEDALLION_FELDERA_REQUEST_BYTES": "1000", "MEDALLION_FELDERA_KEY": "key of the api"}
    made = Service.of(Settings.from_environment(variables), fake.url)
    assert made.key == "key of the api"
    made.push({"t": lines})
    assert max(size for _, size, _ in fake.pushes) <= 1000
    with pytest.raises(UsageError, match="MEDALLION_FELDERA_REQUEST_BYTES='1 MB' cannot be used"):
        Settings.from_environment({"MEDALLION_FELDERA_REQUEST_BYTES": "1 MB"})


def test_a_transaction_is_computed_at_its_end(fake: FakeFeldera, tmp_path: Path) -> None:
    feldera = started(fake)
    with feldera.transaction():
        assert plain(fake, "POST", "/start_transaction")[0] == 409, "one at a time"
        tokens = feldera.push({"t": [insert(id=1, price="1.00")]})
        for _ in range(3):
            assert '"inprogress"' in plain(fake, "GET", f"/completion_status?token={tokens[0].replace('+', '%2B')}")[1]
        assert price(feldera, tmp_path) is None
    feldera.wait(tokens)
    assert str(price(feldera, tmp_path)) == "1.00"


def test_runtime_error_is_reported_at_once(fake: FakeFeldera) -> None:
    feldera = started(
        fake, f"{SMALL} CREATE MATERIALIZED VIEW v AS SELECT 1 / (id - id) AS x FROM t;", patience_seconds=60
    )
    began = time.monotonic()
    tokens = feldera.push({"t": [insert(id=1)]})
    with pytest.raises(MedallionError, match="the pipeline ended in Feldera at .*Division by zero"):
        feldera.wait(tokens)
    assert fake.panicking < 0, "which its state shows some moments after the call that failed"
    assert time.monotonic() - began < 30


# --- read ------------------------------------------------------------------------------------------------------------


def test_a_view_is_read_with_exact_decimals_and_moments_in_utc(fake: FakeFeldera, tmp_path: Path) -> None:
    feldera = started(fake)
    feldera.wait(feldera.push({"t": [insert(id=1, price="12345678.90", at="2025-11-30 01:02:03.000004")]}))
    found = feldera.rows("prices", tmp_path / "a.parquet")
    assert str(found.schema.field("price").type) == "decimal128(38, 2)"
    assert str(found.schema.field("at").type) == "timestamp[us, tz=UTC]"
    assert found.to_pylist()[0]["at"].isoformat() == "2025-11-30T01:02:03.000004+00:00"
    bare = plain(fake, "GET", "/query?format=json&sql=SELECT%20*%20FROM%20prices")[1]
    assert '"price": 12345678.9,' in bare, "a bare number, which becomes a double"
    assert not (tmp_path / "a.parquet").exists()


def test_an_empty_view_has_its_columns(fake: FakeFeldera, tmp_path: Path) -> None:
    feldera = started(fake)
    found = feldera.rows("dear", tmp_path / "a.parquet")
    assert (len(found), found.column_names) == (0, ["id", "price"])
    assert plain(fake, "GET", "/query?format=json&sql=SELECT%20*%20FROM%20dear") == (200, "")


@pytest.mark.parametrize(
    ("shows_as", "said"),
    [
        ("midway", "could not read prices: the answer broke off"),
        ("empty", "could not read prices: the query failed as it ran, as its answer has no bytes"),
        ("unreachable", "prices: 503 .*, 5 times, while the pipeline answers other calls: the query fails as it runs"),
    ],
)
def test_a_query_that_fails_as_it_runs_is_told_from_a_busy_service(
    fake: FakeFeldera, tmp_path: Path, shows_as: str, said: str
) -> None:
    feldera = started(fake, patience_seconds=600)
    fake.broken = {"prices": shows_as}
    with pytest.raises(MedallionError, match=said):
        feldera.rows("prices", tmp_path / "a.parquet")
    queries = [path for _, path in fake.requests if path.endswith("/query")]
    assert len(queries) == (5 if shows_as == "unreachable" else 1), "and not for as long as a busy service is given"


def test_a_query_waits_for_a_service_that_answers_no_call(fake: FakeFeldera, tmp_path: Path) -> None:
    feldera = started(fake)
    fake.busy.update(query=3, stats=6)
    assert price(feldera, tmp_path) is None


def test_a_query_that_fails_midway_is_no_answer_of_json_either(fake: FakeFeldera) -> None:
    started(fake)
    fake.broken = {"prices": "midway"}
    assert plain(fake, "GET", "/query?format=json&sql=SELECT%20*%20FROM%20prices")[0] == 200, "with a line of error"


# --- as one of the strategies ----------------------------------------------------------------------------------------


def drive(fake: FakeFeldera, source: Path, lake: Path, *hours: str, **settings: Any) -> tuple[FelderaDriver, Refreshed]:
    driver = FelderaDriver(service(fake), source, lake, **settings)
    *_, last = [driver.refresh(hour) for hour in hours]
    return driver, last


@pytest.mark.slow
def test_an_hour_is_pushed_computed_and_its_views_are_a_release(
    fake: FakeFeldera, source: Path, tmp_path: Path
) -> None:
    fake.key = "key of the api"
    driver, took = drive(fake, source, tmp_path / "lake", HOUR, workers=3)
    driver.stop()
    assert fake.pipeline is not None and fake.pipeline["deployment_status"] == "Stopped"
    assert fake.pipeline["runtime_config"] == {"workers": 3}
    lake = Lake(driver.lake)
    release = releases.require_release(lake, None)
    assert (release.hour, release.strategy) == (HOUR, "feldera")
    assert set(release.versions) == {table.name for table in registry() if not isinstance(table, Feed)}
    rows = {row.event_type: row for row in event_log.read(lake, hour=HOUR)}
    assert list(rows) == ["land", "apply", "push", "refresh"]
    lines = sum(len(file.read_bytes().splitlines()) for file in source.glob(f"cdc/*/{HOUR}.json"))
    assert (rows["push"].engine, rows["push"].rows_in, rows["push"].status) == ("feldera", lines, "succeeded")
    assert 0 < sum(row.seconds for row in rows.values()) <= took.seconds
    assert took.views_seconds is not None and took.views_seconds > 0, "apart"
    assert took.cpu_seconds is not None and took.cpu_seconds > 0, "as the service reports them"
    assert set(event_log.steps_by_phase(lake, f"bench-{HOUR}")) == {"land", "apply", "push", "compute"}
    told = rows["refresh"].details
    assert (told["workers"], told["memory_bytes"], told["storage_bytes"]) == (3, 300 << 20, 119)
    cold = [told[f"{what}_seconds"] for what in ("compile", "deploy", "snapshot")]
    assert sum(cold) == pytest.approx(driver.session_seconds, abs=0.01)
    (words,) = service_rows({"services": {"30 1 feldera": driver.facts}}).values()
    assert words.startswith("3 workers; compiled in ") and "315 MB of memory, less than 1 MB of storage" in words
    orders = DeltaTable(lake.path("silver_orders_enriched")).to_pyarrow_table().to_pylist()
    assert orders and {order["order_status"] for order in orders} <= {
        *("pending", "confirmed", "shipped", "delivered", "cancelled", "returned")
    }


def with_bad_lines(source: Path, target: Path, share: float) -> Path:
    """The source with lines in front of one file that no decoder takes."""
    (target / "cdc" / "orders").mkdir(parents=True)
    (target / "snapshot").symlink_to(source / "snapshot")
    good = (source / "cdc" / "orders" / f"{HOUR}.json").read_bytes().splitlines(keepends=True) * 10
    bad = [b'{"insert": {"order_id": 1}}\n'] * max(1, int(share * len(good)))
    (target / "cdc" / "orders" / f"{HOUR}.json").write_bytes(b"".join([*bad, *good]))
    return target


@pytest.mark.slow
def test_what_is_pushed_is_what_bronze_accepts(fake: FakeFeldera, source: Path, tmp_path: Path) -> None:
    few, many = (with_bad_lines(source, tmp_path / f"{share}", share) for share in (0.0, 0.05))
    driver, _ = drive(fake, few, tmp_path / "few", HOUR)
    (row,) = event_log.read(Lake(driver.lake), hour=HOUR, event_type="apply")
    assert row.details["rejected"] == 1
    with pytest.raises(MedallionError, match=r"lines are bad, more than the 1.0% of MEDALLION_MAX_BAD_LINES"):
        drive(fake, many, tmp_path / "many", HOUR)


def test_a_driver_that_cannot_begin_leaves_nothing_running(
    fake: FakeFeldera, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(_: FakeFeldera) -> None:
        raise Refused(500, "OutOfMemory")

    monkeypatch.setattr(FakeFeldera, "commit", out_of_memory)
    with pytest.raises(MedallionError, match="commit_transaction: 500 OutOfMemory"):
        FelderaDriver(service(fake, patience_seconds=0.1), source, tmp_path / "lake")
    assert fake.pipeline is not None and fake.pipeline["deployment_status"] == "Stopped"


# --- who is there ----------------------------------------------------------------------------------------------------


def test_what_it_refuses_is_said_without_the_key(fake: FakeFeldera) -> None:
    fake.key = "right"
    with pytest.raises(MedallionError, match="401 who are you") as refused:
        Service(fake.url, "wrong").compile(program(), 1)
    assert "wrong" not in str(refused.value)


def test_unreachable_service_is_an_error_of_one_line() -> None:
    with pytest.raises(
        MedallionError, match=r"Feldera at http://127.0.0.1:1: GET pipelines: .*refused: check that Feldera runs at"
    ):
        Service("http://127.0.0.1:1").compile(program(), 1)


def test_only_http_is_spoken() -> None:
    with pytest.raises(UsageError, match="no address"):
        Service("file:///etc/passwd")
