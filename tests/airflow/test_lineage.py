"""What the tables of a task are children of, as Airflow's provider of OpenLineage has it."""

import os
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from medallion.airflow.lineage import lineage_parent


def task() -> Any:
    dag_run = SimpleNamespace(logical_date=datetime(2025, 11, 30, tzinfo=UTC), conf={}, clear_number=0)
    names = {"dag_id": "hourly_refresh", "task_id": "gold.refresh", "try_number": 1, "map_index": -1}
    return SimpleNamespace(**names, dag_run=dag_run, get_template_context=lambda: {"dag_run": dag_run})


def test_task_is_the_parent_of_its_tables_where_lineage_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    namespace, name, run_id = (lineage_parent(task()) or "").split("/")
    assert (namespace, name) == ("default", "hourly_refresh.gold.refresh")
    assert UUID(run_id)


def test_nothing_is_named_when_no_lineage_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(variable)
    assert lineage_parent(task()) is None


def test_task_that_the_provider_cannot_name_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    assert lineage_parent(object()) is None
    assert "have no parent in the lineage" in caplog.text
