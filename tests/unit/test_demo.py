"""What the demonstration prints: three hours, refreshed in three ways, side by side."""

from pathlib import Path

import pytest

from medallion.ops.event_log import append
from medallion.ops.events import Event
from medallion.storage.lake import Lake
from scripts.demo import print_comparison, ways


def test_the_hours_are_refreshed_in_full_by_spark_submit_then_warm_then_incrementally() -> None:
    assert [name for name, _ in ways(True)] == ["full, JVM per task", "full, warm", "incremental, warm"]
    assert [asked["spark"] for _, asked in ways(True)] == ["submit", "as set", "as set"]
    assert "warm" not in str([name for name, _ in ways(False)])


def test_seconds_and_cpu_of_each_way_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = Lake(str(tmp_path))
    append(
        lake,
        [
            Event("a", "h0", "refresh", "full", 1, "silver", seconds=3.0, cpu_seconds=5.5),
            Event("a", "h0", "refresh", "full", 1, "silver", "silver_orders", seconds=2.0, cpu_seconds=4.0),
            Event("b", "h1", "refresh", "incremental", 1, "silver", seconds=1.0, cpu_seconds=None),
        ],
    )
    runs = {
        ("full, warm", "h0"): {"dag_run_id": "a", "duration": 60.0},
        ("incremental, warm", "h1"): {"dag_run_id": "b", "duration": 20.0},
    }

    print_comparison(lake, runs)

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "seconds full, warm incremental, warm",
        "h0 h1",
        "refresh silver 3.0 1.0",
        "CPU of the steps 5.5 0.0",
        "whole run 60.0 20.0",
    ]
