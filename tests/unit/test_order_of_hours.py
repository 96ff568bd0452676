"""No hour is passed over, whoever does which step when."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from medallion.errors import CheckFailed, HourBeforeFirst, HourNotAvailable, HourOutOfOrder, MedallionError, UsageError
from medallion.hours import format_hour
from medallion.ingest import arrivals, restatement
from medallion.ingest.restatement import Restatement, read_restatement, write_restatement
from medallion.inspect.status import lake_status
from medallion.ops import event_log, releases
from medallion.ops.lake_tables import TableRecord, write_record
from medallion.pipeline import operations
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.run import Run
from medallion.ui.standing import AtWork, read_standing
from tests.shop import registry
from tests.unit.small_lake import H0, H1, H2, H3, Shop


def up_to(shop: Shop, *hours: str) -> None:
    """Deliver and refresh these hours, each with one row whose id is the hour of the day."""
    for hour in hours:
        shop.put(hour, {int(hour[-2:]): hour})
        shop.refresh(hour)


def test_apply_refuses_an_hour_while_landed_ones_before_it_are_missing(shop: Shop) -> None:
    up_to(shop, H0, H1, H2)
    shop.put(H3, {3: H3})
    shop.step("land", H3)
    shop.put(H1, "{broken\n" * 2)
    with pytest.raises(MedallionError, match="no line that is a record"):
        shop.restate(H1)
    assert shop.applied == H0
    with pytest.raises(MedallionError, match=f"earlier hours are missing: {H1}, {H2};") as refusal:
        shop.step("apply", H3)
    assert f"run medallion refresh --from-hour {H1} --to-hour {H2} first" in str(refusal.value)
    shop.put(H1, {1: "mended"})
    assert [shop.refresh().hour for _ in range(3)] == [H1, H2, H3]
    assert shop.published() == {0: H0, 1: "mended", 2: H2, 3: H3}
    assert read_restatement(shop.lake) is None


def test_apply_refuses_an_hour_while_the_source_lists_one_before_it(shop: Shop) -> None:
    up_to(shop, H0)
    shop.put(H2, {2: H2})
    shop.step("land", H2)
    shop.put(H1, {1: H1})
    with pytest.raises(MedallionError, match=f"earlier hours are missing: {H1};"):
        shop.step("apply", H2)
    for hour in (H1, H2):
        shop.refresh(hour)
    assert shop.published() == {0: H0, 1: H1, 2: H2}


def applied_and_killed(shop: Shop, change: dict[int, str] | str) -> None:
    """Leave H1 applied and never checked, with H2 at the source."""
    up_to(shop, H0)
    shop.put(H1, change)
    shop.step("land", H1)
    shop.step("apply", H1)
    shop.put(H2, {2: H2})


def test_hour_that_was_applied_and_never_checked_is_finished_before_the_next(shop: Shop) -> None:
    applied_and_killed(shop, {1: H1})
    shop.step("land", H2)
    with pytest.raises(HourOutOfOrder, match=f"hour {H1} is in Bronze and was not published; .* --hour {H1} .*first"):
        shop.step("apply", H2)
    said: list[str] = []
    shop.refresh(H2, said)
    assert f"hour {H1} is in Bronze and was not published: it is finished first" in said
    assert [release.hour for release in releases.read_all(shop.lake)] == [None, H0, H1, H2]


def test_what_an_unchecked_hour_broke_is_found_before_the_next_hides_it(shop: Shop) -> None:
    applied_and_killed(shop, '{"delete": {"id": 0}}\n')
    with pytest.raises(CheckFailed, match=f"Hour {H1} is red"):
        shop.refresh(H2)
    assert (shop.applied, shop.published()) == (H1, {0: H0})


def test_apply_continues_with_landed_files_when_the_source_is_unreachable(shop: Shop) -> None:
    up_to(shop, H0)
    shop.put(H1, {1: H1})
    shop.step("land", H1)
    (shop.root / "source").rename(shop.root / "elsewhere")
    shop.step("apply", H1)
    assert shop.applied == H1


def test_a_restatement_knows_every_hour_that_it_must_pass(shop: Shop) -> None:
    up_to(shop, H0, H1, H3)
    shop.put(H2, {2: "late"})
    shop.put(H1, "{broken\n" * 2)
    with pytest.raises(MedallionError):
        shop.restate(H1)
    under_way = read_restatement(shop.lake)
    assert under_way is not None
    assert (under_way.hours, under_way.rewound) == ((H1, H2, H3), True)


def test_a_restatement_ends_with_its_last_hour_and_nothing_else(shop: Shop) -> None:
    up_to(shop, H0, H1, H2)
    shop.put(H2, "{broken\n" * 2)
    with pytest.raises(MedallionError):
        shop.restate(H1)
    assert shop.applied == H1
    shop.drop(H2)  # and its landed file goes too, by hand
    (shop.lake.landing / "orders" / f"{H2}.json").unlink()
    for name, layer in (("refresh", "silver"), ("refresh", "gold"), ("check", "bronze"), ("publish", None)):
        outcome = shop.step(name, H1, layer)
    assert outcome.status == "skipped"
    assert f"nothing is published before {H2} are applied" in outcome.message
    with pytest.raises(MedallionError, match=H2):
        shop.refresh()
    assert read_restatement(shop.lake) is not None
    assert shop.published() == {0: H0, 1: H1, 2: H2}, "readers keep the old release"
    shop.put(H2, {2: "again"})
    shop.refresh()
    assert shop.published() == {0: H0, 1: H1, 2: "again"}
    assert read_restatement(shop.lake) is None


def test_restatement_refuses_an_hour_without_files_before_it_rewinds_bronze(shop: Shop) -> None:
    up_to(shop, H0, H1, H2)
    shop.drop(H2)
    (shop.lake.landing / "orders" / f"{H2}.json").unlink()
    with pytest.raises(MedallionError, match=f"hour {H1} cannot be restated: orders/{H2}.json") as refusal:
        shop.restate(H1)
    assert "nothing was changed" in str(refusal.value)
    assert (shop.applied, read_restatement(shop.lake)) == (H2, None)
    with pytest.raises(UsageError, match="the source lists no change file of it"):
        shop.restate("2025-11-29T23")


def test_a_file_that_the_source_dropped_is_restated_as_it_landed(shop: Shop) -> None:
    shop.put(H0, {7: "item"}, "items")
    up_to(shop, H0, H1)
    shop.drop(H0, "items")
    said: list[str] = []
    shop.restate(H0, said)
    assert shop.rows("bronze_items") == {7: "item"}
    assert any(f"the source no longer lists items of {H0}: it is applied as it landed" in line for line in said)


def test_a_restatement_whose_bronze_versions_were_pruned_is_refused_before_bronze_goes_back(shop: Shop) -> None:
    up_to(shop, H0, H1)
    delta = shop.lake.opened(shop.lake.path("bronze_orders"), 1)
    Path(delta.file_uris()[0]).unlink()
    with pytest.raises(MedallionError, match=f"no version of bronze_orders from before {H1} exists"):
        shop.restate(H1)
    assert (shop.applied, read_restatement(shop.lake)) == (H1, None)


def test_apply_refuses_the_old_file_of_an_hour_that_is_being_restated(shop: Shop) -> None:
    up_to(shop, H0, H1)
    shop.put(H0, "{broken\n" * 2)
    with pytest.raises(MedallionError):
        shop.restate(H0)
    manifest = read_restatement(shop.lake)
    assert manifest is not None
    write_restatement(shop.lake, Restatement(H0, H1, True, (H0, H1)))  # as it is before the hour lands again
    with pytest.raises(MedallionError, match=f"hours {H0} to {H1} are being restated; run medallion refresh"):
        shop.step("apply", H0)


def test_apply_refuses_the_next_hour_before_a_restatement_has_taken_bronze_back(shop: Shop) -> None:
    up_to(shop, H0, H1)
    shop.put(H2, {2: H2})
    shop.step("land", H2)
    write_restatement(shop.lake, Restatement(H0, H1, False, (H0, H1)))
    with pytest.raises(MedallionError, match="are being restated"):
        shop.step("apply", H2)
    assert [shop.refresh().hour for _ in range(3)] == [H0, H1, H2]


def test_a_second_restatement_passes_the_hours_of_the_first_too(shop: Shop) -> None:
    up_to(shop, H0, H1, H2, H3)
    write_restatement(shop.lake, Restatement(H1, H3, False, (H1, H2, H3)))  # its process died at once
    shop.put(H1, {1: "corrected"})
    shop.restate(H3)
    assert shop.published() == {0: H0, 1: "corrected", 2: H2, 3: H3}


def test_a_restatement_that_an_earlier_version_began_is_continued(shop: Shop) -> None:
    up_to(shop, H0, H1, H2)
    place = restatement.restatement_file(shop.lake)
    place.write_text(json.dumps({"hour": H1, "until": H2, "rewound": False, "note": "of another version"}))
    found = read_restatement(shop.lake)
    assert found is not None
    assert found.hours == (H1, H2)
    assert [shop.refresh().hour for _ in range(2)] == [H1, H2]
    assert read_restatement(shop.lake) is None


def test_upkeep_leaves_what_a_restatement_that_was_cut_short_goes_back_to(shop: Shop) -> None:
    for hour in (H0, H1, H2, H3):
        shop.put(hour, {9: hour})  # so that each hour replaces the file of the one before
        shop.refresh(hour)
    shop.put(H1, {1: "corrected"})
    driver = shop.driver()
    with driver.writing(Run(shop.settings, H1, "restate"), "restate"):
        operations.begin_restatement(driver, H1)  # and its process dies
    maintain(Run(shop.settings, None, "upkeep"), shop.driver(), Retention(hours=0))
    for _ in (H1, H2, H3):
        shop.refresh()
    assert shop.published() == {1: "corrected", 9: H3}


def test_after_a_roll_back_the_next_hour_holds_every_hour(shop: Shop) -> None:
    up_to(shop, H0, H1)
    shop.roll_back()
    assert shop.published() == {0: H0}
    assert shop.refresh(H0).status == "skipped"
    up_to(shop, H2)
    assert shop.published() == {0: H0, 1: H1, 2: H2}


def test_a_roll_back_is_no_run_of_its_hour(shop: Shop) -> None:
    shop.put(H0, {1: "a"})
    shop.refresh()
    shop.roll_back()
    shop.put(H1, {2: "b"})
    shop.step("land", H1)
    rows = event_log.read(shop.lake)
    assert [row.run_id for row in rows if row.event_type == "publish"] == ["load", "refresh"]
    assert [row.run_id for row in rows if row.event_type == "rollback"] == ["back"]


def test_rolling_back_twice_goes_back_two_releases(shop: Shop) -> None:
    up_to(shop, H0, H1)
    for rows in ({0: H0}, {}):
        shop.roll_back()
        assert shop.published() == rows
    with pytest.raises(UsageError, match="readers have release 1, and no earlier one is kept"):
        shop.roll_back()
    with pytest.raises(UsageError, match="readers have release 1 already"):
        shop.roll_back(1)
    with pytest.raises(UsageError, match="there is no release 99"):
        shop.roll_back(99)
    tries = [row.status for row in event_log.read(shop.lake) if row.event_type == "rollback"]
    assert tries == ["succeeded", "succeeded"], "a wrong number is no failed run"
    restored = [(release.release_id, release.restores) for release in releases.read_all(shop.lake)]
    assert restored == [(1, None), (2, None), (3, None), (4, 2), (5, 1)]


def test_wrong_table_name_is_refused_without_waiting_for_the_writer(shop: Shop) -> None:
    up_to(shop, H0)
    wrong = Run(shop.settings, H1, "other", select="nope")
    writer = shop.driver().writing(Run(shop.settings, H1, "writer"), "refresh")
    with writer, pytest.raises(UsageError, match="no table is called 'nope'"):
        operations.refresh_hour(wrong, shop.driver())


def test_a_roll_back_is_undone_by_the_number_of_the_release_it_left(shop: Shop) -> None:
    up_to(shop, H0, H1)
    shop.roll_back()
    shop.roll_back(3)
    assert (shop.published(), releases.require_release(shop.lake, None).hour) == ({0: H0, 1: H1}, H1)
    up_to(shop, H2)
    shop.roll_back()
    assert shop.published() == {0: H0, 1: H1}
    shop.roll_back()
    assert shop.published() == {0: H0}, "release 5 was release 3 again: before that was release 2"


def test_a_roll_back_never_publishes_what_was_rolled_back_where_older_releases_are_gone(shop: Shop) -> None:
    up_to(shop, H0, H1)
    shop.roll_back()
    shop.lake.opened(shop.lake.releases).delete("release_id < 3")
    with pytest.raises(UsageError, match="readers have release 2, and no earlier one is kept"):
        shop.roll_back()


def test_after_a_roll_back_the_same_hour_is_published_again(shop: Shop) -> None:
    up_to(shop, H0, H1)
    shop.roll_back()
    shop.refresh(H1)
    assert (shop.published(), releases.require_release(shop.lake, None).hour) == ({0: H0, 1: H1}, H1)


def test_a_roll_back_during_a_restatement_ends_nothing(shop: Shop) -> None:
    up_to(shop, H0, H1, H2)
    shop.put(H1, "{broken\n" * 2)
    with pytest.raises(MedallionError):
        shop.restate(H1)
    shop.roll_back()
    shop.put(H1, {1: "mended"})
    shop.refresh()
    assert shop.published() == {0: H0, 1: H1}, "as rolled back to, until every hour is passed"
    shop.refresh()
    assert shop.published() == {0: H0, 1: "mended", 2: H2}


def test_a_running_hour_is_refused_though_the_source_lists_it(shop: Shop) -> None:
    running = format_hour(datetime.now(UTC))
    shop.put(running, {1: "still comes"})
    with pytest.raises(HourNotAvailable, match="has not ended yet"):
        shop.refresh(running)
    with pytest.raises(HourNotAvailable):
        shop.refresh()
    assert shop.applied is None


@pytest.mark.parametrize("stray", ["2025-11-31T00", "2099-01-01T00"])
def test_a_stray_file_does_not_wedge_the_lake_even_where_it_has_landed(shop: Shop, stray: str) -> None:
    shop.put(stray, {9: "stray"})
    up_to(shop, H0)
    said: list[str] = []
    shop.put(H1, {1: H1})
    assert shop.refresh(H1, said).hour == H1
    assert any(f"ignored 'cdc/orders/{stray}.json' at the source" in line for line in said)
    manifest = shop.lake.manifests / f"{stray}.json"  # as an earlier version landed it
    manifest.write_text(json.dumps({"hour": stray, "source": "s", "files": {}}))
    up_to(shop, H2)
    shop.drop(stray)
    up_to(shop, H3)
    shop.restate(H2)
    assert shop.published() == {0: H0, 1: H1, 2: H2, 3: H3}


def test_a_range_passes_over_an_hour_that_the_source_never_had(shop: Shop) -> None:
    for hour in (H0, H2):
        shop.put(hour, {int(hour[-2:]): hour})
    said: list[str] = []
    driver = shop.driver(said)
    operations.refresh_hours([Run(shop.settings, hour, "range") for hour in (H0, H1, H2)], driver)
    assert shop.published() == {0: H0, 2: H2}
    assert any(line.startswith(f"passed over: the source has no change file for hour {H1}") for line in said)
    with pytest.raises(HourNotAvailable, match=f"no change file for hour {H3}"):
        operations.refresh_hours([Run(shop.settings, H3, "range")], driver)


def test_an_hour_before_the_first_is_refused_and_an_applied_one_is_not(shop: Shop) -> None:
    up_to(shop, H1, H3)
    before = rf"hour {H0} is before {H1}, the first hour of source and lake: .* choose {H1} or a later hour"
    with pytest.raises(HourBeforeFirst, match=before) as refusal:
        shop.refresh(H0)
    assert refusal.value.exit_code == 2
    assert lake_status(shop.settings).problems == []
    for hour in (H1, H2, H3):  # the source never had H2
        assert shop.refresh(hour).message == f"hour {hour} is published already: nothing to do"
    said: list[str] = []
    operations.refresh_hours([Run(shop.settings, hour, "range") for hour in (H0, H1)], shop.driver(said))
    assert any(line.startswith(f"passed over: hour {H0} is before {H1}") for line in said)
    for hour in (H1, H3):
        shop.drop(hour)
    assert shop.refresh(H1).status == "skipped", "it has landed, though the source withdrew it"
    with pytest.raises(HourBeforeFirst, match=before):
        shop.refresh(H0)
    shop.restate(H1)
    assert shop.refresh(H1).status == "skipped"
    with pytest.raises(HourBeforeFirst, match=before):
        shop.refresh(H0)


def test_an_applied_hour_is_not_refused_where_what_landed_of_it_is_lost(shop: Shop) -> None:
    up_to(shop, H0, H1)
    shutil.rmtree(shop.root / "lake" / "landing")
    shop.drop(H0)
    assert shop.refresh(H0).status == "skipped"
    up_to(shop, H2)
    assert shop.refresh(H0).status == "skipped", "later hours have landed since"


def test_status_is_red_for_a_restatement_that_was_cut_short_and_says_how_to_finish_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "tables_of", lambda *_: shop.tables)
    up_to(shop, H0, H1, H2)
    assert not [problem for problem in lake_status(shop.settings).problems if "restatement" in problem]
    shop.put(H1, {1: "corrected"})
    operations.begin_restatement(shop.driver(), H1)
    shop.step("land")
    shop.step("apply", H1)  # and killed
    (problem,) = [problem for problem in lake_status(shop.settings).problems if "restatement" in problem]
    assert f"hours {H1} to {H2} was cut short" in problem
    assert f"run medallion refresh --to-hour {H2} to finish it" in problem
    driver = shop.driver()
    with driver.writing(Run(shop.settings, None, "restate"), "restate"):
        assert not [told for told in lake_status(shop.settings).problems if "restatement" in told], "it is at work"
        at_work = read_standing(shop.settings).at_work
        assert at_work is not None and (at_work.run_id, (at_work.step or "")[:8]) == ("restate", "restate,")
    between = read_standing(shop.settings, ["run", "waits for its source"])  # Airflow's running runs
    assert between.at_work == AtWork("run", H1, None) and not between.status.problems
    assert problem in read_standing(shop.settings, ["waits for its source"]).status.problems
    for hour in arrivals.pending_at_source(shop.settings, H2):
        shop.refresh(hour)
    assert shop.published()[1] == "corrected"
    assert not [problem for problem in lake_status(shop.settings).problems if "restatement" in problem]


@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_restatement_rewinds_the_logs_that_the_lake_has_or_had(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, is_dropped: bool
) -> None:
    dropped = tuple(log.name for log in registry(extras=True).logs) if is_dropped else ()
    write_record(shop.lake, TableRecord(extras=False, dropped=dropped))
    up_to(shop, H0)
    rewound: list[str] = []
    monkeypatch.setattr(restatement, "rewind_log", lambda _, log, __: rewound.append(log.name))
    shop.restate(H0)
    assert tuple(rewound) == dropped
