"""What a hostile reading found: a torn hour, a release without files, a stuck lake, a lost text key."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.errors import HourNotAvailable, MedallionError, UsageError
from medallion.ingest import arrivals
from medallion.ingest.apply import record_idle_hour
from medallion.ingest.change_log import is_as_landed
from medallion.ingest.restatement import Restatement, read_restatement, write_restatement
from medallion.ops import event_log, releases
from medallion.ops.lake_tables import TableRecord, write_record
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.settings import Settings
from medallion.storage import files, remembered
from medallion.storage.delta_writes import properties, replace_rows, rows_having
from medallion.storage.lake import Lake, state_of
from medallion.storage.merge_on_read import FileLayout
from tests.shop import registry
from tests.unit.small_lake import H0, H1, H2, Shop


def test_file_that_a_table_has_taken_stays_as_it_landed_when_the_hour_lands_again(shop: Shop) -> None:
    shop.put(H0, {0: "first"})
    shop.step("land", H0)
    record_idle_hour(
        state_of(shop.lake.opened(shop.lake.path("bronze_orders"))), H0
    )  # the other table does not have it yet
    shop.put(H0, {0: "a correction"})
    outcome = shop.step("land", H0)
    assert outcome.status == "warned"
    assert f"changed at the source after a table had taken it: run medallion refresh --restate {H0}" in outcome.message
    landed = next((shop.root / "lake" / "landing").glob(f"[a-z]*/{H0}.json")).read_text()
    assert "first" in landed
    assert "a correction" not in landed


def test_loading_again_goes_by_the_settings_of_the_second_shell(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    write_record(lake, TableRecord(extras=True))
    driver = Driver(Settings(lake=lake.root, extras=None), report=lambda _: None)
    driver.record_tables()
    assert set(driver.tables.tables) == set(registry(extras=False).tables)


def test_text_keys_match_after_a_merge_has_written_them(tmp_path: Path) -> None:
    rows = pa.table({"code": [f"k{number:05}" for number in range(3000)], "value": list(range(3000))})
    write_deltalake(str(tmp_path / "t"), rows)
    delta = DeltaTable(str(tmp_path / "t"))
    codes = rows["code"].to_pylist()
    doubled = pa.table({"code": codes, "value": [2 * number for number in range(3000)]})
    layout = FileLayout(tmp_path / "t", 1 << 20)
    replace_rows(delta, doubled, "code", codes, properties(), layout)  # joined: more than are named one by one
    replaced = rows_having(DeltaTable(str(tmp_path / "t")), tmp_path / "t", "code", ["k00001", "k02999"])
    assert replaced.sort_by("code").to_pylist() == [{"code": "k00001", "value": 2}, {"code": "k02999", "value": 5998}]


def test_error_in_reading_a_landed_file_is_raised_and_is_no_gap(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MedallionError("503 of the bucket")

    log = registry(extras=True).logs[0]
    monkeypatch.setattr("medallion.ingest.change_log.require_as_landed", refuse)
    monkeypatch.setattr(
        "medallion.ingest.change_log.known_manifest", lambda *_: type("M", (), {"files": {log.fed_by.topic: 0}})
    )
    with pytest.raises(MedallionError, match="503"):
        is_as_landed(shop.lake, log, H0)


def test_next_hour_of_two_restatements_is_the_first_of_both(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "tables_of", lambda *_: shop.tables)
    for hour in (H0, H1, H2):
        shop.put(hour, {int(hour[-2:]): hour})
        shop.refresh(hour)
    write_restatement(shop.lake, Restatement(H2, H2, hours=(H1, H2)))
    assert arrivals.pending_at_source(shop.settings, None)[0] == H1


def test_refresh_finishes_the_hour_that_bronze_has_and_no_release_before_it_takes_the_next(shop: Shop) -> None:
    for hour in (H0, H1):
        shop.put(hour, {int(hour[-2:]): hour})
    shop.step("land", H0)
    shop.step("apply", H0)  # and killed
    assert shop.refresh().hour == H0
    assert releases.require_release(shop.lake, None).hour == H0
    assert shop.published() == {0: H0}
    assert shop.refresh().hour == H1


def test_refresh_publishes_a_restatement_that_was_killed_before_its_release(shop: Shop) -> None:
    shop.put(H0, {0: "first"})
    shop.refresh()
    shop.put(H0, {0: "corrected"})
    operations.begin_restatement(shop.driver(), H0)
    shop.step("land")
    shop.step("apply", H0)
    assert shop.refresh().hour == H0
    assert shop.published() == {0: "corrected"}
    assert read_restatement(shop.lake) is None


def test_refresh_publishes_no_hour_again_that_was_rolled_back(shop: Shop) -> None:
    for hour in (H0, H1):
        shop.put(hour, {int(hour[-2:]): hour})
        shop.refresh()
    shop.roll_back()
    with pytest.raises(HourNotAvailable):
        shop.refresh()
    assert releases.require_release(shop.lake, None).hour == H0


def test_land_reads_the_manifest_of_its_hour_once_and_opens_each_bronze_table_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.put(H0, {0: "first"})
    shop.step("land", H0)
    read, opened = list[str](), list[str]()
    real_json, real_open = files.read_json, Lake.open
    monkeypatch.setattr(files, "read_json", lambda place, *more: read.append(str(place)) or real_json(place, *more))
    monkeypatch.setattr(
        Lake, "open", lambda lake, path, version=None: opened.append(path) or real_open(lake, path, version)
    )
    monkeypatch.setattr(remembered, "_known", {})  # as a process of its own begins
    shop.step("land", H0)
    assert len([path for path in read if "_hours" in path]) == 1
    bronze = [path for path in opened if "/bronze/" in path]
    assert len(bronze) == len(set(bronze)) == 2


def test_apply_counts_no_rows_of_a_later_hour_when_the_events_of_its_hour_are_gone(shop: Shop) -> None:
    for hour, rows in ((H0, {0: "a"}), (H1, {1: "b", 2: "c"})):
        shop.put(hour, rows)
        shop.refresh()
    files.remove_tree(shop.lake.at(shop.lake.event_log))
    for hour in (H0, H1):
        shop.step("apply", hour)
    rows = [row for row in event_log.read(shop.lake, event_type="apply") if row.table_name == "bronze_orders"]
    assert [(row.hour, row.status, row.rows_out) for row in rows] == [(H0, "skipped", None), (H1, "succeeded", 2)]


def test_lake_is_refused_when_its_load_was_cut_short(shop: Shop) -> None:
    shop.put(H0, {0: "a"})
    shop.step("land", H0)
    files.remove_tree(shop.lake.at(shop.lake.releases))  # as if load had been killed before the last rows of a table
    for refuse in (shop.refresh, lambda: shop.step("apply", H0)):
        with pytest.raises(UsageError, match="was cut short.*: run medallion load again"):
            refuse()
    assert shop.applied is None
