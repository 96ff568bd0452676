"""What the two TPC benchmarks share: a project of its own, its hours in both strategies, rows and seconds."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from medallion.errors import MedallionError

STRATEGIES = ("full", "incremental")
_FIRST = datetime(2025, 11, 30, tzinfo=UTC)  # the hour of the first changes
_MEDALLION = [sys.executable, "-c", "from medallion.cli.main import main; main()"]
_PORT = 15099


def hour_at(number: int) -> str:
    """Return the hour of changes with this number, from 0 on."""
    return f"{_FIRST + timedelta(hours=number):%Y-%m-%dT%H}"


def refresh_both(project: Path, hours: int) -> None:
    """Load two lakes of the project, ``full`` and ``incremental``, and refresh their hours, on one warm Spark.

    The first hour of each is a full one. The events of each lake are then beside it: ``full.json``.
    """
    with _warm_spark(project) as attached:
        for strategy in STRATEGIES:
            own = attached | {"MEDALLION_LAKE": str(project / strategy)}
            run(project, own, "load")
            for number in range(hours):
                run(project, own, "refresh", "--hour", hour_at(number), "--strategy", strategy if number else "full")
            events = run(project, own, "events", "--days", "0", "--format", "json")
            (project / f"{strategy}.json").write_text(events, encoding="utf-8")


def timings(project: Path) -> Iterator[dict[str, Any]]:
    """By Gold table: what it took in the measured hours, all but the first. Raises MedallionError where rows differ."""
    taken = {strategy: _refreshes_by_table(project / f"{strategy}.json") for strategy in STRATEGIES}
    for name in sorted(taken["full"]):
        _require_same_rows(project, name)
        full, changed = taken["full"][name], taken["incremental"][name]
        yield {
            "query": name.removeprefix("gold_"),
            "method": max(changed, key=lambda row: row["seconds"])["details"]["method"],
            "rows": full[-1]["rows_out"],
            "full_seconds": round(median(row["seconds"] for row in full), 2),
            "incremental_seconds": round(median(row["seconds"] for row in changed), 2),
        }


def run(project: Path, own: dict[str, str], *words: str) -> str:
    """Run a command of the project; return what it printed. Raises MedallionError with what it said."""
    done = subprocess.run([*_MEDALLION, *words], cwd=project, env=_environment(own), capture_output=True, text=True)
    if done.returncode:
        raise MedallionError(f"medallion {' '.join(words)}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout


def as_table(rows: list[dict[str, Any]], titles: dict[str, str]) -> Iterator[str]:
    """Yield a table in Markdown. titles: by field, what stands above it."""
    yield f"| {' | '.join(titles.values())} |"
    yield "|---" * len(titles) + "|"
    for row in rows:
        yield f"| {' | '.join(str(row[field]) for field in titles)} |"


def _refreshes_by_table(file: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(json.loads(file.read_text(encoding="utf-8")), key=lambda row: str(row["hour"])):
        name = row["table_name"] or ""
        if row["event_type"] == "refresh" and name.startswith("gold_") and row["hour"] != hour_at(0):
            found.setdefault(name, []).append(row)
    return found


def _require_same_rows(project: Path, name: str) -> None:
    from deltalake import DeltaTable

    layer, _, table = name.partition("_")
    rows = [
        sorted(map(repr, DeltaTable(str(project / strategy / layer / table)).to_pyarrow_table().to_pylist()))
        for strategy in STRATEGIES
    ]
    if rows[0] != rows[1]:
        raise MedallionError(f"{name} has other rows refreshed by what changed than in full")


@contextmanager
def _warm_spark(project: Path) -> Iterator[dict[str, str]]:
    """Keep a Spark Connect server for the block; yield the settings of processes that attach to it."""
    attached = {"MEDALLION_SPARK_CONNECT": f"sc://localhost:{_PORT}", "SPARK_CONNECT_AUTHENTICATE_TOKEN": "benchmark"}
    server = subprocess.Popen([*_MEDALLION, "spark-server"], env=_environment(attached), cwd=project)
    try:
        yield attached
    finally:
        server.terminate()
        server.wait(timeout=60)


def _environment(own: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if not name.startswith("MEDALLION_")} | own
