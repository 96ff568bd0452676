"""Restating and reprocessing from the form: confirmed, refused in words, and done by the operations of the command."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medallion.airflow import redo
from medallion.airflow.landing import LandChanges
from medallion.airflow.redo import confirmed_hour
from medallion.airflow.runs import RequestRefused
from medallion.errors import UsageError
from medallion.ingest.restatement import read_restatement
from medallion.ingest.unfinished_erasure import plan_place
from medallion.inspect.run_history import run_history
from medallion.inspect.run_summary import run_summary
from medallion.ops import event_log, releases
from medallion.pipeline import operations
from medallion.pipeline.run import Run
from medallion.storage.files import write_json
from medallion.storage.rewind import require_version_before
from tests.shop import SHOP, build
from tests.unit import small_lake
from tests.unit.small_lake import H0, H1, H2, Shop

MANUAL = SimpleNamespace(
    dag_id="hourly_refresh", run_id="a_run", run_type="manual", data_interval_start=None, conf=None
)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"hour": None, "confirmation": None}, "restate needs an hour: write it in Hour, and again in Confirmation"),
        ({"hour": H0, "confirmation": None}, f"restate {H0} was not confirmed: write {H0} in Confirmation too"),
        ({"hour": H0, "confirmation": H1}, f"restate {H0} was not confirmed"),
        ({"hour": H0, "confirmation": H0, "select": "gold_orders"}, "restate refreshes every table"),
    ],
)
def test_what_is_not_confirmed_is_refused_in_words(params: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        confirmed_hour("restate", params, MANUAL)


def test_a_backfill_cannot_restate() -> None:
    with pytest.raises(UsageError, match="a backfill or schedule cannot reprocess"):
        confirmed_hour("reprocess", {"hour": H0, "confirmation": H0}, SimpleNamespace(run_type="backfill"))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Two published hours, in the lake and source that the environment names."""
    small_lake.without_spark(monkeypatch)
    made = small_lake.load(tmp_path)
    for hour in (H0, H1):
        made.put(hour, {int(hour[-2:]): hour})
        made.refresh(hour)
    monkeypatch.setattr(redo.Settings, "from_environment", lambda *_: made.settings)
    monkeypatch.setattr(redo, "spark_master", lambda _: "local[1]")
    # Their users first, so that none is imported while it would take over the function of this test for good.
    for name in ("ingest.arrivals.tables_of", "inspect.status.tables_of", "pipeline.driver.tables_in"):
        monkeypatch.setattr(f"medallion.{name}", lambda *_: made.tables)
    monkeypatch.setattr("medallion.ops.lake_tables.tables_of", lambda *_: made.tables)
    return made


def trigger(action: str, hour: str, notes: list[str], confirmation: str | None = None) -> str:
    ti = SimpleNamespace(try_number=1, xcom_push=lambda key, value: notes.append(value), xcom_pull=lambda **_: None)
    params = {"hour": hour, "confirmation": confirmation or hour, "action": action, "strategy": "full"}
    return LandChanges(task_id="land", project=SHOP).execute({"ti": ti, "dag_run": MANUAL, "params": params})


def test_a_restatement_from_the_form_applies_corrected_files_and_is_published_by_the_later_tasks(shop: Shop) -> None:
    shop.put(H0, {0: "corrected"})
    assert trigger("restate", H0, []) == H1
    assert shop.rows() == {0: "corrected", 1: H1}
    assert shop.published() == {0: H0, 1: H1}, "readers keep what they have"
    operations.refresh_onward(Run(shop.settings, H1, "a_run"), shop.driver())
    assert shop.published() == {0: "corrected", 1: H1}
    assert read_restatement(shop.lake) is None


def test_a_restatement_from_the_form_shows_the_rows_of_each_hour_that_it_applied(shop: Shop) -> None:
    shop.put(H0, {0: "corrected", 2: "late"})
    last = trigger("restate", H0, [])
    shop.step("apply", last, run_id="a_run")  # the task that follows finds it done
    operations.refresh_onward(Run(shop.settings, last, "a_run"), shop.driver())
    runs = [run for run in run_history(event_log.read(shop.lake)) if run.run_id == "a_run"]
    assert [(run.hour, run.rows_in, run.rows_changed, run.status) for run in runs] == [
        (H1, 1, 1, "succeeded"),
        (H0, 2, 2, "succeeded"),
    ]
    assert "3 rows of Bronze changed by 3 lines" in run_summary(shop.lake, "a_run")


def test_reprocessing_gives_the_published_hour_to_the_later_tasks(shop: Shop) -> None:
    before = releases.require_release(shop.lake, None).release_id
    assert trigger("reprocess", H1, []) == H1
    operations.refresh_onward(Run(shop.settings, H1, "a_run"), shop.driver())
    assert releases.require_release(shop.lake, None).release_id == before + 1


@pytest.mark.parametrize("action", ["restate", "reprocess"])
def test_an_action_without_a_published_table_is_refused_before_it_begins(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    rest = build(table for table in shop.tables if table.name != "gold_orders")
    monkeypatch.setattr("medallion.pipeline.driver.tables_in", lambda *_: rest)
    with pytest.raises(RequestRefused, match="gold_orders would drop out of the release.*nothing was changed"):
        trigger(action, H1, [])
    assert read_restatement(shop.lake) is None


@pytest.mark.parametrize(
    ("action", "hour", "confirmation", "why"),
    [
        ("restate", H0, H1, f"restate {H0} was not confirmed"),
        ("restate", H2, H2, f"hour {H2} is after {H1}, the last one"),
        ("reprocess", H0, H0, f"{H0} cannot be reprocessed: readers have hour {H1}"),
    ],
)
def test_a_wrong_request_changes_nothing_and_says_why_in_the_note(
    shop: Shop, action: str, hour: str, confirmation: str, why: str
) -> None:
    notes: list[str] = []
    with pytest.raises(RequestRefused, match=why):
        trigger(action, hour, notes, confirmation)
    assert why in notes[-1] and notes[-1].endswith("nothing was changed")
    assert (shop.applied, read_restatement(shop.lake)) == (H1, None)


def test_a_restatement_of_an_hour_whose_history_is_gone_fails_at_once_and_records_nothing(shop: Shop) -> None:
    version = require_version_before(shop.lake, "bronze_orders", H1)
    for file in shop.lake.opened(shop.lake.path("bronze_orders"), version).file_uris():
        Path(file).unlink()  # as maintenance or an erasure does
    notes: list[str] = []
    with pytest.raises(RequestRefused, match="no version of bronze_orders from before .* restate a later hour"):
        trigger("restate", H1, notes)
    assert notes[-1].endswith("restate a later hour; nothing was changed")
    assert read_restatement(shop.lake) is None


def test_a_restatement_that_would_lose_a_file_fails_at_once(shop: Shop) -> None:
    shop.drop(H1)
    (shop.lake.landing / "orders" / f"{H1}.json").unlink()
    with pytest.raises(RequestRefused, match="would be lost"):
        trigger("restate", H0, [])


def test_a_restatement_is_refused_at_once_while_an_erasure_is_unfinished(shop: Shop) -> None:
    write_json(plan_place(shop.lake), {"erasure_id": "e"})
    with pytest.raises(RequestRefused, match="erasure e was cut short"):
        trigger("restate", H0, [])


def test_a_restatement_that_has_begun_and_cannot_go_on_does_not_say_that_nothing_was_changed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("the hour is red")

    monkeypatch.setattr(operations, "run_step", refuse)
    with pytest.raises(RequestRefused) as refusal:
        trigger("restate", H0, [])
    assert str(refusal.value) == "the hour is red"
