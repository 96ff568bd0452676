"""What the demonstration refreshes and prints: a full hour beside a steady incremental one, both on one Spark."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medallion.ops.event_log import append
from medallion.ops.events import Event
from medallion.storage.lake import Lake
from scripts import demo
from scripts.demo import refresh_until_steady
from scripts.demo_summary import Shown, month_in_words, print_comparison

HOURS = [f"h{number}" for number in range(8)]


@pytest.mark.parametrize(
    ("set_ups", "strategies"),
    [
        (1, ["full, warm", "incremental, set-up", "incremental, warm"]),
        (0, ["full, warm", "incremental, warm"]),
        (9, ["full, warm", *["incremental, set-up"] * demo.MAX_INCREMENTAL]),
    ],
)
def test_hours_are_refreshed_until_an_incremental_one_is_steady(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    set_ups: int,
    strategies: list[str],
) -> None:
    lake = Lake(str(tmp_path))
    asked: list[dict[str, str]] = []

    def refreshed(_: Any, conf: dict[str, str], __: str) -> dict[str, Any]:
        asked.append(conf)
        hour, strategy = conf["hour"], conf["strategy"]
        details = {"state": "set-up"} if strategy == "incremental" and len(asked) <= 1 + set_ups else {}
        step = Event(hour, hour, "refresh", strategy, 1, "gold")
        append(lake, [step, Event(hour, hour, "refresh", strategy, 1, "gold", "gold_x", details=details)])
        return {"dag_run_id": hour, "duration": 1.0}

    monkeypatch.setattr(demo, "refresh", refreshed)
    airflow: Any = None
    assert [shown.name for shown in refresh_until_steady(airflow, lake, HOURS, "warm")] == strategies
    said = capsys.readouterr().out.splitlines()
    assert said[1::2] == [f"demo: hour {hour} was: {name}" for hour, name in zip(HOURS, strategies, strict=False)]
    assert {conf["spark"] for conf in asked} == {"as set"}, "like is compared with like"


def test_seconds_and_cpu_of_each_hour_stand_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lake = Lake(str(tmp_path))
    append(
        lake,
        [
            Event("a", "h0", "refresh", "full", 1, "silver", seconds=3.0, cpu_seconds=50.0),
            Event("a", "h0", "refresh", "full", 1, "silver", "silver_orders", seconds=2.0, cpu_seconds=4.0),
            Event("b", "h1", "refresh", "incremental", 1, "silver", seconds=2.0, cpu_seconds=70.0),
            Event("c", "h2", "refresh", "incremental", 1, "silver", seconds=1.0, cpu_seconds=5.0),
        ],
    )
    runs = [
        Shown("full, warm", "h0", {"dag_run_id": "a", "duration": 60.0}),
        Shown("incremental, set-up", "h1", {"dag_run_id": "b", "duration": 30.0}, is_setup=True),
        Shown("incremental, warm", "h2", {"dag_run_id": "c", "duration": 20.0}),
    ]

    print_comparison(lake, runs, "EUR")

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "seconds full, warm incremental, set-up incremental, warm",
        "h0 h1 h2",
        "refresh silver 3.0 2.0 1.0",
        "sum of the steps 3.0 2.0 1.0",
        "CPU of the steps 50.0 70.0 5.0",
        "whole run 60.0 30.0 20.0",
        "sum of the steps: as on the page Runs; whole run: from the start of the run in Airflow to its end",
        "a month 730 hours like these: full 10.14 core-hours, incremental 1.01 (10 %);"
        " at 0.05 EUR each 0.51 against 0.05 EUR",
    ]


def test_month_of_the_demonstration_has_prices_that_follow_from_its_core_hours() -> None:
    runs = [Shown("full, warm", "h0", {}), Shown("incremental, warm", "h2", {})]
    month = month_in_words(runs, [44.6, 22.7], "USD")
    assert month.endswith("full 9.04 core-hours, incremental 4.60 (51 %); at 0.05 USD each 0.45 against 0.23 USD")


def test_lines_of_the_demonstration_break_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    runs = [
        Shown("full, warm", "h0", {"dag_run_id": "a"}),
        Shown("incremental, warm", "h2", {"dag_run_id": "c"}),
    ]
    demo.say(month_in_words(runs, [50.0, 5.0], "EUR"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= 80
    assert " ".join(line.strip() for line in lines) == f"demo: {month_in_words(runs, [50.0, 5.0], 'EUR')}"


def test_a_month_is_not_reckoned_from_hours_that_built_state() -> None:
    runs = [Shown("full, warm", "h0", {}), Shown("incremental, set-up", "h1", {}, is_setup=True)]
    assert "no steady incremental hour" in month_in_words(runs, [50.0, 70.0], "EUR")


@pytest.mark.parametrize("words", [["--help"], ["reed"]])
def test_help_and_a_typo_start_nothing(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "scripts.demo", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == (0 if words == ["--help"] else 2)
    assert "usage: python -m scripts.demo" in done.stdout + done.stderr
