"""A person planted in everything that the product writes, erased, and looked for by a reader that is not the product's.

The reader knows files alone: Parquet by DuckDB, column by column as text; JSON and all others as bytes.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from medallion.checks import report_store
from medallion.cli.erase import _subjects_in as subjects_in_file
from medallion.cli.main import cli
from medallion.errors import UsageError
from medallion.ingest import quarantine
from medallion.ops import releases
from medallion.ops.check_records import Failure, read_check_record, write_check_record
from medallion.ops.event_log import EventLog
from medallion.ops.red_hours import RedHour
from medallion.pipeline import erasure
from medallion.pipeline.erase_forecast import forecast
from medallion.storage import files
from tests.unit.small_lake import H0, H1, H2, Shop, without_spark
from tests.unit.test_erasure import ADDRESS, erase, filled, tables

CANARY = "someone"  # in every text of the person, and in nothing else


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    without_spark(monkeypatch)
    return filled(Shop(tmp_path, tables()))


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Every file under ``folder`` and all that it says."""
    for file in folder.rglob("*"):
        if not file.is_file():
            continue
        raw = file.read_bytes()
        if raw.startswith(b"PAR1"):
            rows = duckdb.sql(f"SELECT CAST(r AS VARCHAR) FROM read_parquet('{file}') AS r").fetchall()
            bounds = duckdb.sql(f"SELECT stats_min_value, stats_max_value FROM parquet_metadata('{file}')").fetchall()
            yield str(file.relative_to(folder)), f"{rows} {bounds}"
        else:
            content = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
            yield str(file.relative_to(folder)), f"{file.name} {content.decode('utf-8', 'replace')}"


def holders(shop: Shop) -> set[str]:
    return {path for path, text in texts(shop.root / "lake") if CANARY in text}


def plant(shop: Shop) -> None:
    """Have the person in all that a lake gathers beside its tables."""
    lake, feed = shop.lake, shop.tables.feeds[0] if shop.tables.feeds[0].subject else shop.tables.feeds[1]
    (bad,) = [line for line in quarantine.read_rejected(lake, feed, H1) if line.line_number]
    quarantine.record_corrections(
        lake, feed, H1, {bad.line_number: json.dumps({"insert": {"id": 42, "name": ADDRESS}})}
    )
    log = EventLog(lake, run_id="broken", hour=H1, strategy="full", attempt=1)
    log.add("apply", "bronze", "bronze_orders", status="failed", details={"error": f"line 3: {ADDRESS} is no BIGINT"})
    log.flush()
    record = read_check_record(lake, "gold")
    assert record is not None
    failure = Failure("gold_orders", "name is never null", "1 row", f"orders/{H1}.json line 2: {ADDRESS}")
    write_check_record(lake, record.__class__(**{**vars(record), "failures": (failure,)}))
    result = {
        **{"layer": "gold", "hour": H1, "run_id": "r", "attempt": 1, "started_at": "2025-11-30T02:00:00+00:00"},
        **{"status": "warned", "page": f"{H1}/gold-r-1.html", "seconds": 0.0, "startup_seconds": 0.0},
        **{"tables": [], "examples": [{"id": "42", "name": ADDRESS}]},
    }
    page = lake.reports / H1 / "gold-r-1.html"
    files.write_text(page.with_suffix(".json"), json.dumps(result))
    files.write_text(page, f"<table><tr><th>id</th><th>name</th></tr><tr><td>42</td><td>{ADDRESS}</td></tr></table>")
    waiting = lake.reports / report_store.DATA_DOCS / report_store.WAITING / "gold-r-1.json"
    files.write_text(waiting, json.dumps([[["gold_orders"], {"partial_unexpected_list": [ADDRESS]}]]))
    files.write_text(lake.decoded / H2 / "orders.json", ADDRESS)
    left = lake.landing / "orders" / ".cut.part"
    left.write_bytes(gzip.compress(ADDRESS.encode()))
    aside = shop.root / "lake" / "ops" / "damaged" / "gold_orders-20251130T000000000000"
    (aside / "_delta_log").mkdir(parents=True)
    (aside / "_delta_log" / f"{0:020}.json").write_text(json.dumps({"add": {"stats": ADDRESS}}))


def test_person_is_in_everything_before_and_in_nothing_after(shop: Shop) -> None:
    plant(shop)
    before = holders(shop)
    kinds = {"bronze", "silver", "gold", "landing", "quarantine", "ops", "reports"}
    assert {path.split("/")[0] for path in before} == kinds
    for part in ("event_log", "damaged", "checks", "_corrections", "_decoded", ".cut.part", "gx", "gold-r-1.html"):
        assert [path for path in before if part in path], f"{part} was not planted"
    done = erase(shop, "42")
    assert not done.left
    assert holders(shop) == set()
    certificate = next((shop.root / "lake" / "reports" / "erasures").glob("*.json"))
    assert json.loads(certificate.read_text())["rows"] == {"bronze_orders": 1, "bronze_orders_log": 3}
    shop.put(H2, {44: "four"})
    shop.refresh(H2)
    assert shop.published()[44] == "four"


def test_forecast_changes_nothing_and_names_rows_releases_and_files_of_the_source(shop: Shop) -> None:
    before = dict(texts(shop.root))
    would = forecast(shop.lake, shop.tables, ["42"], (), shop.settings.source)
    assert dict(texts(shop.root)) == before
    rows = {"bronze_orders": 1, "bronze_orders_log": 3, "silver_orders": 1, "gold_orders": 1}
    assert would.rows == rows
    assert would.ended == ["bronze_orders", "bronze_orders_log", "gold_orders", "silver_orders"]
    assert would.releases == [1, 2, 3]
    assert would.files and would.bytes
    assert [Path(file).name for file in would.outside] == [f"{H0}.json", f"{H1}.json"]


def test_red_hour_is_not_built_upon(shop: Shop) -> None:
    record = read_check_record(shop.lake, "gold")
    assert record is not None
    red = {**vars(record), "status": "failed", "failures": (Failure("gold_orders", "not empty", "0 rows"),)}
    write_check_record(shop.lake, record.__class__(**red))
    assert RedHour.of(record.__class__(**red))
    before = releases.read_all(shop.lake)
    with pytest.raises(UsageError, match=f"nothing is erased: hour {H1} is red"):
        erase(shop, "42")
    assert releases.read_all(shop.lake) == before


def test_lifted_person_comes_back_with_the_hour_that_was_named(shop: Shop) -> None:
    erase(shop, "42")
    erasure.lift(erasure_run(shop), shop.driver(), ["42"], H2)
    with pytest.raises(UsageError, match="subject 1 was not erased"):
        erasure.lift(erasure_run(shop), shop.driver(), ["43"], H2)
    shop.put(H2, {42: "back"})
    shop.refresh(H2)
    assert shop.published()[42] == "back"


def erasure_run(shop: Shop) -> erasure.Run:
    return erasure.Run(shop.settings, None, "lift")


def test_command_refuses_what_contradicts_itself_and_quotes_no_subject(tmp_path: Path) -> None:
    empty = tmp_path / "persons.txt"
    empty.write_text("\n")
    for arguments, why in (
        (["--dry-run", "--verify"], "give one of"),
        (["--subject-file", str(empty)], "names no subject"),
    ):
        outcome = CliRunner().invoke(cli, ["erase", *arguments])
        assert isinstance(outcome.exception, UsageError)
        assert why in str(outcome.exception)


def test_file_of_subjects_may_begin_with_a_byte_order_mark_and_have_empty_lines(tmp_path: Path) -> None:
    file = tmp_path / "persons.txt"
    file.write_bytes(b"\xef\xbb\xbf421\r\n\r\n a b \r\n")
    assert subjects_in_file(file) == ["421", "a b"]
