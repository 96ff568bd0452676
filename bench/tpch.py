"""TPC-H by the hour: each query refreshed in full and incrementally, on one warm Spark, and answered by DuckDB.

``python -m bench.tpch --scale 0.1 --hours 4`` in the root of the repository. Both lakes have the same hours; the first
one of each is not measured, as it builds state. After the last hour the two have the same rows, or the run fails.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click

from medallion.airflow.ports import free_port
from medallion.errors import MedallionError
from medallion.model.refresh_method import RefreshMethod

EXAMPLE = Path(__file__).parents[1] / "examples" / "tpch"
FIRST = datetime(2025, 11, 30, tzinfo=UTC)  # the hour of the first changes
STRATEGIES = ("full", "incremental")
_MEDALLION = [sys.executable, "-m", "medallion"]


@click.command()
@click.option("--scale", default=0.1, show_default=True, help="TPC-H's scale factor: 1 is a gigabyte.")
@click.option("--hours", default=4, show_default=True, type=click.IntRange(2), help="Hours; the first is a warm-up.")
@click.option("--catalogue/--no-catalogue", default=True, help="Whether customers, parts and stocks change too.")
@click.option("--format", "form", default="table", type=click.Choice(["table", "json"]), show_default=True)
def tpch(scale: float, hours: int, catalogue: bool, form: str) -> None:
    """Refresh TPC-H's 22 queries in full and by what changed, and compare rows and seconds."""
    with TemporaryDirectory(prefix="tpch-") as folder:
        project = Path(folder) / "project"
        shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("lake", "source", "__pycache__"))
        rows = _measure(project, scale, hours, catalogue)
    click.echo(json.dumps(rows, indent=2) if form == "json" else "\n".join(_as_table(rows)))


def _measure(project: Path, scale: float, hours: int, catalogue: bool) -> list[dict[str, Any]]:
    """Return a row per query: method, rows, and median seconds of the measured hours."""
    changes = "--catalogue" if catalogue else "--no-catalogue"
    _run(project, {}, "source", "generate", "source", "--scale", str(scale), "--hours", str(hours), changes)
    with _warm_spark(project) as attached:
        own = {strategy: attached | {"MEDALLION_LAKE": str(project / strategy)} for strategy in STRATEGIES}
        for strategy in STRATEGIES:
            _run(project, own[strategy], "load")
        for number in range(hours):  # in turns, so that other work on the machine falls on both
            hour = f"{FIRST + timedelta(hours=number):%Y-%m-%dT%H}"
            for strategy in STRATEGIES:
                _run(project, own[strategy], "refresh", "--hour", hour, "--strategy", strategy)
        for strategy in STRATEGIES:
            own_events = _run(project, own[strategy], "events", "--days", "0", "--format", "json")
            (project / f"{strategy}.json").write_text(own_events, encoding="utf-8")
    taken = {strategy: _seconds_by_table(project / f"{strategy}.json") for strategy in STRATEGIES}
    duckdb = _duckdb_seconds(project, scale, hours, catalogue)
    measurements = []
    for name in sorted(taken["full"]):
        _require_same_rows(project, name)
        full, changed = taken["full"][name], taken["incremental"][name]
        measurements.append(
            {
                "query": name.removeprefix("gold_"),
                "method": changed[-1]["details"]["method"],
                "rows": full[-1]["rows_out"],
                "full_seconds": round(median(row["seconds"] for row in full), 2),
                "incremental_seconds": round(median(row["seconds"] for row in changed), 2),
                "duckdb_seconds": duckdb[name],
            }
        )
    return measurements


def _seconds_by_table(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the refresh events of each query in the measured hours, by table."""
    refreshes: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(json.loads(file.read_text(encoding="utf-8")), key=lambda row: str(row["hour"])):
        name, is_measured = row["table_name"] or "", row["hour"] and row["hour"] > f"{FIRST:%Y-%m-%dT%H}"
        if row["event_type"] == "refresh" and name.startswith("gold_") and is_measured:
            refreshes.setdefault(name, []).append(row)
    return refreshes


def _require_same_rows(project: Path, name: str) -> None:
    """Raise MedallionError if the two lakes have different rows in a table."""
    from deltalake import DeltaTable

    layer, _, table = name.partition("_")
    rows = [
        sorted(map(repr, DeltaTable(str(project / strategy / layer / table)).to_pyarrow_table().to_pylist()))
        for strategy in STRATEGIES
    ]
    if rows[0] != rows[1]:
        raise MedallionError(f"{name} has other rows refreshed by what changed than in full")


def _duckdb_seconds(project: Path, scale: float, hours: int, catalogue: bool) -> dict[str, float]:
    """Return the seconds that DuckDB takes for each query, in memory, after the last hour."""
    sys.path.insert(0, str(project))
    try:
        data = import_module("tpch_source.data")
    finally:
        sys.path.pop(0)
    seconds = {}
    with data.tpch(scale) as connection:
        for number in range(1, hours + 1):
            data.change_hour(connection, number, catalogue)
        for number, query in connection.execute("FROM tpch_queries()").fetchall():
            start = time.perf_counter()
            connection.execute(query).fetchall()
            seconds[f"gold_q{number:02}"] = round(time.perf_counter() - start, 3)
    return seconds


@contextmanager
def _warm_spark(project: Path) -> Iterator[dict[str, str]]:
    """Keep a Spark Connect server for the block; yield the settings of processes that attach to it."""
    port = free_port()
    attached = {"MEDALLION_SPARK_CONNECT": f"sc://localhost:{port}", "SPARK_CONNECT_AUTHENTICATE_TOKEN": "benchmark"}
    server = subprocess.Popen([*_MEDALLION, "spark-server"], env=_environment(attached), cwd=project)
    try:
        _wait_for(server, port)
        yield attached
    finally:
        server.terminate()
        server.wait(timeout=60)


def _wait_for(server: "subprocess.Popen[bytes]", port: int) -> None:
    """Wait until the server accepts connections; before its first start it fetches what Spark needs, for minutes."""
    while server.poll() is None:
        with suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
            return
        time.sleep(0.2)
    raise MedallionError("medallion spark-server ended before it answered: see above")


def _environment(own: dict[str, str]) -> dict[str, str]:
    """Return this process's variables with ``own``, without its other settings but the place of the JARs."""
    foreign = {name for name in os.environ if name.startswith("MEDALLION_")} - {"MEDALLION_JARS"}
    return {name: text for name, text in os.environ.items() if name not in foreign} | own


def _run(project: Path, own: dict[str, str], *words: str) -> str:
    """Run a command of the project; return its output. Raises MedallionError, with its output, if it fails."""
    done = subprocess.run([*_MEDALLION, *words], cwd=project, env=_environment(own), capture_output=True, text=True)
    if done.returncode:
        raise MedallionError(f"medallion {' '.join(words)}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return done.stdout


def _as_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| query | method | rows | full, s | incremental, s | DuckDB in memory, s |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        yield f"| {' | '.join(str(value) for value in row.values())} |"
    changed = [row for row in rows if row["method"] != RefreshMethod.UNCHANGED]
    full, incremental = (sum(row[f"{strategy}_seconds"] for row in changed) for strategy in STRATEGIES)
    shares = sorted(row["incremental_seconds"] / row["full_seconds"] for row in changed)
    yield ""
    yield (
        f"incremental / full of the {len(changed)} queries that changed: {median(shares):.2f} in the median,"
        f" {shares[0]:.2f} to {shares[-1]:.2f}; {incremental:.1f} of {full:.1f} s in sum"
    )


if __name__ == "__main__":
    tpch()
