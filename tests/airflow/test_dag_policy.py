"""What the scheduler promises about the hourly refresh."""

import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pendulum
import pytest
from airflow.models.dagrun import DagRun
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import TimeRestriction
from airflow.utils.types import DagRunType

from dags.daily_maintenance import dag as upkeep
from dags.hourly_refresh import dag
from dags.hourly_self_check import dag as self_check
from dags.refresh_on_arrival import dag as on_arrival
from medallion.airflow.runs import requested_hour
from medallion.errors import UsageError
from medallion.model.table import STRATEGIES
from medallion.ops.lake_tables import TableRecord, write_record
from medallion.storage.lake import Lake
from tests.shop import SHOP, registry

ALL_TASKS = pytest.mark.parametrize("task", [*dag.tasks, *upkeep.tasks], ids=lambda task: task.task_id)
HOURLY_TASKS = pytest.mark.parametrize("task", dag.tasks, ids=lambda task: task.task_id)


@contextmanager
def conf_vars(values: dict[tuple[str, str], str]) -> Iterator[None]:
    """Airflow's configuration with these values, by section and key."""
    names = {f"AIRFLOW__{section.upper()}__{key.upper()}": value for (section, key), value in values.items()}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in names.items():
            patch.setenv(name, value)
        yield


def test_a_layer_starts_when_the_layer_below_has_been_checked() -> None:
    upstream = {task.task_id: task.upstream_task_ids for task in dag.tasks}
    assert upstream == {
        "land_changes": set(),
        "bronze.apply_changes": {"land_changes"},
        "bronze.check": {"bronze.apply_changes"},
        "silver.refresh": {"bronze.check"},
        "silver.check": {"silver.refresh"},
        "gold.refresh": {"silver.check"},
        "gold.check": {"gold.refresh"},
        "publish": {"gold.check"},
        "validate": {"publish"},
    }


def test_a_scheduled_run_is_for_the_hour_before_it() -> None:
    as_scheduled = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    interval = as_scheduled.timetable.infer_manual_data_interval(run_after=pendulum.datetime(2025, 11, 30, 5))
    assert (interval.start, interval.end) == (
        datetime(2025, 11, 30, 4, tzinfo=UTC),
        datetime(2025, 11, 30, 5, tzinfo=UTC),
    )


def test_hours_that_were_missed_are_not_caught_up_unasked() -> None:
    assert not dag.catchup


def test_one_run_at_a_time() -> None:
    assert dag.max_active_runs == 1


def test_no_run_holds_up_another_by_its_state_alone() -> None:
    """The ledger of hours keeps the order; a run that failed must not bar all later ones without a word."""
    assert not any(task.depends_on_past or task.wait_for_downstream for task in dag.tasks)


def test_a_run_that_has_begun_gets_the_slot_of_the_lake_before_one_that_begins() -> None:
    assert {str(task.weight_rule) for task in dag.tasks} == {"upstream"}, "the later a task, the heavier"


def test_runs_are_called_by_the_hour_they_are_for() -> None:
    timetable = DagSerialization.from_dict(DagSerialization.to_dict(dag)).timetable
    interval = timetable.infer_manual_data_interval(run_after=pendulum.datetime(2025, 11, 30, 5))
    scheduled = timetable.generate_run_id(run_type=DagRunType.SCHEDULED, run_after=interval.end, data_interval=interval)
    assert scheduled == "scheduled__2025-11-30T04"


def test_the_runs_of_a_backfill_are_called_by_the_hour_they_are_for() -> None:
    as_scheduled = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    first, last = pendulum.datetime(2025, 11, 30, 1), pendulum.datetime(2025, 11, 30, 3)
    runs = list(as_scheduled.iter_dagrun_infos_between(first, last))
    assert [run.logical_date.hour for run in runs] == [1, 2, 3]
    ids = [
        DagRun.generate_run_id(run_type=DagRunType.BACKFILL_JOB, logical_date=run.logical_date, run_after=run.run_after)
        for run in runs
    ]
    assert [run_id[:25] for run_id in ids] == [f"backfill__2025-11-30T0{hour}:00"[:25] for hour in (1, 2, 3)]


def test_a_scheduled_run_starts_when_its_hour_has_ended() -> None:
    as_scheduled = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    start = pendulum.datetime(2025, 11, 30, 4)
    info = as_scheduled.timetable.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(start, None, catchup=False)
    )
    assert info is not None and info.run_after == info.data_interval.end


@ALL_TASKS
def test_tasks_take_turns_at_the_lake(task) -> None:
    assert (task.pool, task.pool_slots) == ("lake_writer", 1)


@ALL_TASKS
def test_a_task_that_fails_is_tried_again_and_one_that_hangs_is_ended(task) -> None:
    assert task.retries == 2
    assert timedelta() < task.retry_delay <= timedelta(minutes=5)
    assert timedelta() < task.execution_timeout <= timedelta(hours=1)


@HOURLY_TASKS
def test_every_failure_reaches_the_event_log(task) -> None:
    assert task.on_failure_callback
    assert task.on_retry_callback


@ALL_TASKS
def test_somebody_owns_it(task) -> None:
    assert task.owner == "data-platform"


def test_every_table_is_updated_by_one_task_of_its_layer_and_gold_when_it_is_published() -> None:
    updated = [(asset.name, task.task_id) for task in dag.tasks for asset in task.outlets]
    by = {"bronze": "bronze.check", "silver": "silver.check", "gold": "publish"}
    assert sorted(updated) == sorted((table.name, by[table.layer]) for table in registry())


def test_an_asset_is_where_its_table_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from medallion.airflow.table_graph import assets

    every = registry(extras=True)
    monkeypatch.setenv("MEDALLION_LAKE", "s3a://bucket/lake")
    assert "s3a://bucket/lake/gold/inventory_risk" in {asset.uri for asset in assets(SHOP, every, "gold")}
    monkeypatch.setenv("MEDALLION_LAKE", "/lake with space")
    assert "file:///lake%20with%20space/gold/inventory_risk" in {asset.uri for asset in assets(SHOP, every, "gold")}
    # A path follows from the name alone, also where the folder is not the layer.
    addresses = {asset.name: asset.uri for asset in assets(SHOP, every, "silver")}
    assert addresses["quarantine_silver_orders"] == "file:///lake%20with%20space/quarantine/silver_orders"


def test_assets_and_layers_of_the_dag_are_those_of_the_lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from medallion.airflow import hourly_refresh

    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path))
    monkeypatch.setenv("MEDALLION_EXTRAS", "false")
    write_record(Lake(str(tmp_path)), TableRecord(extras=True))
    extended = hourly_refresh(SHOP)
    published = {asset.name for asset in extended.get_task("publish").outlets}
    assert "platinum_top_customers_by_region" in published and "### Platinum" in extended.doc_md
    assert "platinum.refresh" in extended.task_ids
    monkeypatch.setenv("MEDALLION_EXTRAS", "true")
    write_record(Lake(str(tmp_path)), TableRecord(extras=False))
    plain = hourly_refresh(SHOP)
    assert "### Platinum" not in plain.doc_md and "platinum.refresh" not in plain.task_ids


def test_dags_and_assets_bear_the_name_of_a_project_that_has_neighbours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from medallion.airflow import hourly_refresh, refresh_on_arrival
    from medallion.airflow.naming import name_in_airflow

    assert (hourly_refresh(SHOP).dag_id, dag.dag_id) == ("hourly_refresh", "hourly_refresh")
    with conf_vars({("core", "dags_folder"): str(SHOP.root.parent)}):
        beside = hourly_refresh(SHOP)
        assert (beside.dag_id, beside.tags) == ("shop_hourly_refresh", {"medallion", "shop"})
        assert "shop_gold_inventory_risk" in {asset.name for asset in beside.get_task("publish").outlets}
        assert refresh_on_arrival(SHOP).get_task("refresh").trigger_dag_id == "shop_hourly_refresh"
    with conf_vars({("dag_processor", "dag_bundle_config_list"): '[{"name": "a"}, {"name": "b"}]'}):
        assert name_in_airflow(SHOP, "hourly_refresh") == "shop_hourly_refresh"


def test_factory_takes_the_project_of_the_file_that_calls_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "medallion.toml").write_text('[project]\nname = "clinic"\nlayers = ["raw"]\n')
    (tmp_path / "spark_jobs" / "raw").mkdir(parents=True)
    (tmp_path / "spark_jobs" / "raw" / "visits.py").write_text(
        '"""Visits. One row per visit_id."""\nfrom medallion import Feed\n\n'
        'TABLE = Feed(keys=("visit_id",), schema="visit_id BIGINT NOT NULL")\n'
    )
    (tmp_path / "dags").mkdir()
    file = tmp_path / "dags" / "hourly_refresh.py"
    file.write_text((SHOP.root / "dags" / "hourly_refresh.py").read_text())
    monkeypatch.setenv("MEDALLION_PROJECT", str(SHOP.root))
    made = runpy.run_path(str(file))["dag"]
    assert made.tags == {"medallion", "clinic"} and "raw.apply_changes" in made.task_ids
    assert made.get_task("raw.check").op_args[-1] == str(tmp_path)


@pytest.mark.parametrize("hour", [None, "2025-11-30T00", "2024-02-29T23"])
def test_the_form_takes_an_hour_or_none(hour: str | None) -> None:
    assert dag.params.get_param("hour").resolve(hour) == hour


@pytest.mark.parametrize(
    "hour",
    [
        "now",
        "2025-11-30",
        "2025-11-30 00",
        "2025-11-30T00:00",
        "2025-11-30T24",
        "2025-13-01T00",
        "2025-02-29T00",
        "2025-11-31T00",
        "../../../etc/passwd",
        "2025-11-30T00; rm -rf /",
        "--layer",
        "{{ var.value.secret }}",
        "\u0662\u0660\u0662\u0665-11-30T00",  # digits, but not these
    ],
)
def test_the_form_takes_any_text_and_the_run_refuses_what_is_no_hour(hour: str) -> None:
    """A form that refuses shows "Bad Request" alone; nothing that is no hour gets further than the first task."""
    asked = {"hour": dag.params.get_param("hour").resolve(hour)}
    with pytest.raises(UsageError, match="is not an hour: write YYYY-MM-DDTHH"):
        requested_hour(asked, SimpleNamespace(run_type="manual", data_interval_start=None))


def test_the_form_refuses_a_number_for_an_hour() -> None:
    with pytest.raises(ParamValidationError):
        dag.params.get_param("hour").resolve(20251130)


def test_the_form_offers_the_strategies_there_are() -> None:
    assert dag.params.get_param("strategy").schema["enum"] == list(STRATEGIES)
    with pytest.raises(ParamValidationError):
        dag.params.get_param("strategy").resolve("magic")


def test_the_page_of_the_dag_shows_every_table_with_what_it_is_made_from() -> None:
    for table in registry():
        (row,) = [line for line in dag.doc_md.splitlines() if f"**{table.name}**" in line]
        assert table.doc.splitlines()[0] in row
        assert all(name in row for name in table.inputs)


@pytest.mark.parametrize(
    "module",
    ["hourly_refresh", "daily_maintenance", "erase", "hourly_self_check", "refresh_on_arrival", "replay_quarantine"],
)
def test_parsing_a_dag_imports_no_engine(module: str) -> None:
    # Airflow's own imports are its own affair: what comes on top must be this project and the standard library.
    script = f"""
import sys
import airflow.sdk, airflow.providers.apache.spark.operators.spark_submit
import airflow.timetables.interval, airflow.triggers.base, airflow.listeners, asgiref.sync
import airflow.providers.standard.operators.trigger_dagrun, pydantic_settings
from airflow.sdk import DAG, Asset, BaseHook, CronDataIntervalTimetable, Param, TaskGroup, chain, task
before = {{name.partition(".")[0] for name in sys.modules}}
import dags.{module}
print(*{{name.partition(".")[0] for name in sys.modules}} - before - sys.stdlib_module_names)
assert not {{"pyspark", "great_expectations"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {name for name in done.stdout.split() if not name.startswith("medallion")} <= {"dags"}, (
        "and what declares tables leaves no names behind"
    )


def test_upkeep_runs_once_a_day_and_is_not_caught_up() -> None:
    assert (upkeep.max_active_runs, upkeep.catchup) == (1, False)
    as_scheduled = DagSerialization.from_dict(DagSerialization.to_dict(upkeep))
    interval = as_scheduled.timetable.infer_manual_data_interval(run_after=pendulum.datetime(2025, 11, 30, 5))
    assert interval.end - interval.start == timedelta(days=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("keep_hours", -1), ("keep_days", 0), ("keep_hours", "1; DROP"), ("keep_days", 10**12), ("keep_hours", 10**30)],
)
def test_upkeep_refuses_a_retention_that_is_none(name: str, value: object) -> None:
    with pytest.raises(ParamValidationError):
        upkeep.params.get_param(name).resolve(value)


def test_the_self_check_waits_for_nobody_and_finds_the_same_a_second_time() -> None:
    (task,) = self_check.tasks
    assert (task.pool, task.retries) == ("default_pool", 0)
    assert task.on_failure_callback


def test_an_arrival_is_waited_for_one_at_a_time_and_without_a_slot_of_the_lake() -> None:
    assert (on_arrival.max_active_runs, on_arrival.catchup) == (1, False)
    assert {task.pool for task in on_arrival.tasks} == {"default_pool"}
    assert {task.retries for task in on_arrival.tasks} == {0}, "the run that it starts has retries of its own"
    assert {task.execution_timeout for task in on_arrival.tasks} == {timedelta(hours=1)}
    refresh = on_arrival.get_task("refresh")
    assert refresh.deferrable
    assert refresh.trigger_dag_id == dag.dag_id
    assert set(refresh.conf) <= set(dag.params)
