"""What a task does with what its step tells it."""

import logging
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from dags.erase import dag as erase_dag
from dags.hourly_refresh import dag
from medallion.airflow import erase_task, local
from medallion.airflow.local import LocalAirflow
from medallion.airflow.runs import requested_hour
from medallion.airflow.tasks import record_failure, replay_lines, run_here, self_check, spark_master
from medallion.errors import CheckFailed, HourOutOfOrder, MedallionError, UsageError
from medallion.hours import parse_hour
from medallion.inspect import status
from medallion.ops import event_log
from medallion.pipeline.run import Outcome, Run
from medallion.project import Project, project_at
from tests.shop import SHOP

PARAMS = {"hour": None, "strategy": "full"}


def dag_run(run_type: str = "scheduled", interval_start: str | None = "2025-11-30T04") -> SimpleNamespace:
    start = interval_start and parse_hour(interval_start)
    return SimpleNamespace(run_id="a_run", run_type=run_type, data_interval_start=start, conf=None)


class Task(SimpleNamespace):
    """A task instance, and the notes that were left."""

    def __init__(self) -> None:
        super().__init__(try_number=2, notes=[])

    def xcom_push(self, key: str, value: str) -> None:
        self.notes.append(value)

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> str | None:
        return "2025-11-30T04" if key == "return_value" else None


def run(step: str, hour: str = "2025-11-30T04", ti: Task | None = None) -> str:
    return run_here.function(step, "bronze", hour, str(SHOP.root), params=PARAMS, dag_run=dag_run(), ti=ti or Task())


@pytest.fixture
def step_raises(monkeypatch: pytest.MonkeyPatch):
    def arrange(error: Exception) -> None:
        def run_step(*_: object) -> Outcome:
            raise error

        monkeypatch.setattr("medallion.pipeline.steps.run_step", run_step)

    return arrange


@pytest.fixture
def step_ends(monkeypatch: pytest.MonkeyPatch):
    def arrange(status: str) -> list[Run]:
        asked = []

        def run_step(name: str, run: Run, *_: object) -> Outcome:
            asked.append(run)
            return Outcome(status, "a note", run.hour or "2025-11-30T07")

        monkeypatch.setattr("medallion.pipeline.steps.run_step", run_step)
        return asked

    return arrange


@pytest.mark.parametrize(
    "error", [CheckFailed("orders are red"), HourOutOfOrder("hours are missing"), UsageError("no such strategy")]
)
def test_what_another_try_would_not_mend_is_not_tried_again(step_raises, error: MedallionError) -> None:
    step_raises(error)
    with pytest.raises(AirflowFailException, match=str(error)):
        run("check", "2025-11-30T04")


def test_a_failure_becomes_the_note_of_its_run(step_raises) -> None:
    step_raises(CheckFailed("orders are red; see the report"))
    ti = Task()
    with pytest.raises(AirflowFailException):
        run("check", ti=ti)
    assert ti.notes == ["hour 2025-11-30T04: bronze check: orders are red; see the report"]


def test_any_other_failure_is_tried_again(step_raises) -> None:
    step_raises(MedallionError("the disk is full"))
    with pytest.raises(AirflowException, match="the disk is full") as raised:
        run("publish", "2025-11-30T04")
    assert not isinstance(raised.value, AirflowFailException | AirflowSkipException)


def test_publish_is_not_skipped_when_the_release_exists(step_ends) -> None:
    step_ends("skipped")
    assert run("publish", "2025-11-30T04") == "2025-11-30T04"


def test_a_warning_lets_the_run_go_on(step_ends) -> None:
    step_ends("warned")
    assert run("check", "2025-11-30T04") == "2025-11-30T04"


def test_step_receives_run_and_attempt(step_ends) -> None:
    asked = step_ends("succeeded")
    run("check")
    assert (asked[0].run_id, asked[0].attempt, asked[0].strategy) == ("a_run", 2, "full")


def test_task_log_has_no_lines_about_methods_of_great_expectations(step_ends) -> None:
    step_ends("succeeded")
    run("check", "2025-11-30T04")
    assert not logging.getLogger("great_expectations._docs_decorators").isEnabledFor(logging.INFO)


def test_the_self_check_is_red_with_all_that_is_wrong_and_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def lake_status(_: object, *limits: float) -> status.LakeStatus:
        asked.append(limits)
        return status.LakeStatus("x", problems=wrong)

    def check(stale_hours: float, max_failures: int) -> None:
        params = {"stale_hours": stale_hours, "max_failures": max_failures}
        self_check.function(
            str(SHOP.root), params=params, dag_run=dag_run(), ti=Task(), dag=SimpleNamespace(params=params)
        )

    monkeypatch.setattr(status, "lake_status", lake_status)
    wrong = ["silver_orders is stale", "gold_customer_ltv has failed 3 times in a row"]
    with pytest.raises(AirflowFailException, match="silver_orders is stale; gold_customer_ltv has failed 3 times"):
        check(2, 1)
    wrong = []
    check(3, 0)
    assert asked == [(2, 1), (3, 0)]


@pytest.mark.parametrize(
    ("in_form", "run_type", "interval_start", "hour"),
    [
        (None, "scheduled", "2025-11-30T04", "2025-11-30T04"),
        (None, "backfill", "2025-11-30T04", "2025-11-30T04"),
        (None, "manual", "2025-11-30T04", None),
        (None, "manual", None, None),
        ("2025-12-01T09", "manual", None, "2025-12-01T09"),
        ("2025-12-01T09", "backfill", "2025-11-30T04", "2025-11-30T04"),
    ],
)
def test_the_form_decides_then_the_schedule_but_a_backfill_has_its_own_hours(
    in_form, run_type, interval_start, hour
) -> None:
    assert requested_hour(PARAMS | {"hour": in_form}, dag_run(run_type, interval_start)) == hour


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        ('{"conn_type": "spark", "host": "local[2]"}', "local[2]"),
        ('{"conn_type": "spark", "host": "spark://master:7077"}', "spark://master:7077"),
        ('{"conn_type": "spark", "host": "master", "port": 7077}', "spark://master:7077"),
        ('{"conn_type": "spark", "host": "spark://master", "port": 7077}', "spark://master:7077"),
        ("spark://master:7077", "spark://master:7077"),
        ('{"conn_type": "spark", "host": "yarn"}', "yarn"),
        ('{"conn_type": "spark", "host": "k8s://https://kubernetes", "port": 6443}', "k8s://https://kubernetes:6443"),
    ],
)
def test_spark_runs_where_the_connection_says(monkeypatch: pytest.MonkeyPatch, connection: str, master: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    assert spark_master("spark_default") == master


def test_a_missing_connection_is_an_error_that_says_what_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    with pytest.raises(AirflowFailException, match="no connection is called spark_default: add one of type spark"):
        dag.get_task("silver.refresh").execute({"ti": Task()})


def test_changes_are_applied_without_a_jvm_and_with_one_where_the_connection_says(
    step_ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master:7077")
    asked = step_ends("succeeded")
    run("apply", "2025-11-30T04")
    assert asked[0].settings.spark_master == "spark://master:7077"


def test_a_check_may_start_spark_where_the_connection_says_and_needs_none(
    step_ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = step_ends("succeeded")
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    run("check", "2025-11-30T04")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "spark://master:7077")
    run("check", "2025-11-30T04")
    monkeypatch.setenv("MEDALLION_SPARK_CHECKS_FROM", "off")
    run("check", "2025-11-30T04")
    assert [each.settings.spark_master for each in asked] == ["local[*]", "spark://master:7077", "local[*]"]


def test_with_a_warm_spark_a_spark_task_runs_its_step_attached_to_it(
    step_ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDALLION_SPARK_CONNECT", "sc://localhost:15002")
    asked = step_ends("succeeded")
    dag.get_task("silver.refresh").execute({"ti": Task(), "params": PARAMS, "dag_run": dag_run()})
    assert (asked[0].hour, asked[0].settings.spark_connect) == ("2025-11-30T04", "sc://localhost:15002")


def test_a_run_that_asks_for_it_is_submitted_though_there_is_a_warm_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_SPARK_CONNECT", "sc://localhost:15002")
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    task = dag.get_task("silver.refresh")
    with pytest.raises(AirflowFailException, match="no connection is called spark_default"):
        task.execute({"ti": Task(), "params": {**PARAMS, "spark": "submit"}, "dag_run": dag_run()})
    no_warm_spark = {"MEDALLION_SPARK_CONNECT": "", "MEDALLION_SHOP_SPARK_CONNECT": ""}
    assert task.env_vars == {**no_warm_spark, "MEDALLION_PROJECT": str(SHOP.root)}
    set_for_others = {"MEDALLION_SHOP_SPARK_CONNECT": "sc://localhost:15002", **task.env_vars}
    assert SHOP.settings(set_for_others).spark_connect is None


def bare_project(root: Path) -> Project:
    """A project of which no Airflow has ever run."""
    (root / "medallion.toml").write_text((SHOP.root / "medallion.toml").read_text())
    return project_at(root)


def test_clones_that_start_at_once_have_warm_sparks_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MEDALLION_SPARK_CONNECT", raising=False)
    project = bare_project(tmp_path)  # neither has started its Spark yet
    one, other = (LocalAirflow.of_project(project).environment["MEDALLION_SPARK_CONNECT"] for _ in range(2))
    assert one != other


def test_taken_port_is_refused_with_one_that_is_free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    project = bare_project(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("MEDALLION_AIRFLOW_PORT", str(port))
        refused = rf"port {port} is taken, .* with MEDALLION_AIRFLOW_PORT; port \d+ is free"
        with pytest.raises(MedallionError, match=refused):
            LocalAirflow.of_project(project).require_ports()
        monkeypatch.setenv("MEDALLION_AIRFLOW_PORT", str(local.free_port()))
        monkeypatch.setenv("MEDALLION_SPARK_CONNECT", f"sc://localhost:{port}")
        with pytest.raises(MedallionError, match=f"port {port} is taken, .* with MEDALLION_SPARK_CONNECT"):
            LocalAirflow.of_project(project).up()


def test_make_up_starts_a_warm_spark_unless_it_is_set_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEDALLION_SPARK_CONNECT", raising=False)
    assert LocalAirflow.of_project(SHOP).environment["MEDALLION_SPARK_CONNECT"].startswith("sc://localhost:")
    monkeypatch.setenv("MEDALLION_SPARK_CONNECT", "")
    assert LocalAirflow.of_project(SHOP).environment["MEDALLION_SPARK_CONNECT"] == ""


def test_a_spark_task_runs_its_step_for_the_hour_that_landed() -> None:
    arguments = dag.get_task("silver.refresh").application_args
    assert arguments[:4] == ["step", "refresh", "--layer", "silver"]
    assert arguments[arguments.index("--hour") + 1] == "{{ ti.xcom_pull(task_ids='land_changes') }}"


def test_a_failure_that_cannot_be_recorded_does_not_fail_the_callback(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    def no_lake(*_: object, **__: object) -> bool:
        raise OSError("no lake")

    monkeypatch.setattr(event_log, "close_lost_step", no_lake)
    ti = SimpleNamespace(try_number=1, xcom_pull=lambda **_: "2025-11-30T04")
    record_failure(
        {"ti": ti, "run_id": "a_run", "params": PARAMS, "dag_run": dag_run()},
        step="apply",
        layer="bronze",
        root=str(SHOP.root),
    )
    assert "this failure is not in the event log" in caplog.text


def test_erasure_with_a_variable_that_does_not_exist_fails_at_once_and_quotes_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(erase_task.Variable, "get", lambda name, default: default)
    ti, params = Task(), {"subjects_file": "", "subjects_variable": "someone@example.com"}
    with pytest.raises(AirflowFailException, match="subjects_variable is the name of no Variable"):
        erase_task.erase_persons.function(
            str(SHOP.root), params=params, dag_run=dag_run("manual"), ti=ti, dag=SimpleNamespace(params=params)
        )
    assert "someone" not in ti.notes[-1]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"subjects_file": "someone@example.com"}, "subjects_file cannot be read by this worker"),
        ({"subjects_file": "some\0one"}, "subjects_file cannot be read by this worker"),
        ({"subjects_file": " \t"}, "nobody is named"),
        ({}, "nobody is named"),
        ({"dry_run": True}, "nobody is named"),
        ({"subject_file": "someone"}, "unknown key 'subject_file': did you mean subjects_file"),
    ],
    ids=str,
)
def test_a_wrong_request_for_an_erasure_fails_at_once_with_the_reason_in_its_note(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: dict[str, object], why: str
) -> None:
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    ti, asking = Task(), dag_run("manual")
    asking.conf = asked
    params = {**{key: erase_dag.params.get_param(key).value for key in erase_dag.params}, **asked}
    with pytest.raises(AirflowFailException):
        erase_task.erase_persons.function(str(SHOP.root), params=params, dag_run=asking, ti=ti, dag=erase_dag)
    assert why in ti.notes[-1] and "someone" not in ti.notes[-1]


def test_refused_replay_leaves_its_reason_as_the_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    ti, params = Task(), {"feed": "oders", "hour": "2025-11-30T04", "lines": ""}
    with pytest.raises(AirflowFailException, match="oders"):
        replay_lines.function(
            str(SHOP.root), params=params, dag_run=dag_run("manual"), ti=ti, dag=SimpleNamespace(params=params)
        )
    assert ti.notes[-1].startswith("replay oders of 2025-11-30T04: ")
