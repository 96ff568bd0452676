"""TPC-H by the hour: each query refreshed in full and by what changed, on one warm Spark, and answered by DuckDB.

``python -m bench.tpch --scale 0.1 --hours 4`` in the root of the repository. Both lakes have the same hours; the first
one of each is not measured, as it builds state. After the last hour the two have the same rows, or the run fails.
"""

import json
import shutil
import sys
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from bench.tpc import as_table, refresh_both, run, timings

EXAMPLE = Path(__file__).parents[1] / "examples" / "tpch"
TITLES = {"query": "query", "method": "method", "rows": "rows", "full_seconds": "full, s"} | {
    "incremental_seconds": "incremental, s", "duckdb_seconds": "DuckDB in memory, s",
}  # fmt: skip


@click.command()
@click.option("--scale", default=0.1, show_default=True, help="TPC-H's scale factor: 1 is a gigabyte.")
@click.option("--hours", default=4, show_default=True, type=click.IntRange(2), help="Hours; the first is a warm-up.")
@click.option("--format", "form", default="table", type=click.Choice(["table", "json"]), show_default=True)
def tpch(scale: float, hours: int, form: str) -> None:
    """Refresh TPC-H's 22 queries in full and by what changed, and compare rows and seconds."""
    with TemporaryDirectory(prefix="tpch-") as folder:
        project = Path(folder) / "project"
        shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("lake", "source", "__pycache__"))
        run(project, {}, "source", "generate", "source", "--scale", str(scale), "--hours", str(hours))
        refresh_both(project, hours)
        duckdb = _duckdb_seconds(project, scale, hours)
        rows = [row | {"duckdb_seconds": duckdb[row["query"]]} for row in timings(project)]
    click.echo(json.dumps(rows, indent=2) if form == "json" else "\n".join(as_table(rows, TITLES)))


def _duckdb_seconds(project: Path, scale: float, hours: int) -> dict[str, float]:
    """What DuckDB takes for each of its own queries, in memory, after the last hour."""
    sys.path.insert(0, str(project))
    try:
        data = import_module("tpch_source.data")
    finally:
        sys.path.pop(0)
    found = {}
    with data.tpch(scale) as connection:
        for number in range(1, hours + 1):
            data.change_hour(connection, number)
        for number, query in connection.execute("FROM tpch_queries()").fetchall():
            start = time.perf_counter()
            connection.execute(query).fetchall()
            found[f"q{number:02}"] = round(time.perf_counter() - start, 3)
    return found


if __name__ == "__main__":
    tpch()
