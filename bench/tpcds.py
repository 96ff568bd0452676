"""TPC-DS by the hour: how many of its 99 queries are refreshed by what changed, why the others are not, and the rows.

``python -m bench.tpcds`` in the root of the repository writes a project with the 24 tables as feeds and the 99 queries
as Gold, as DuckDB's extension has them, and derives how each is refreshed; nothing is computed. With ``--hours`` those
that are refreshed by what changed are, and in full as well, over hours of changed sales and returns: rows are compared.
"""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from bench.tpc import as_table, refresh_both, run, timings
from bench.tpcds_project import tpcds, write_project
from medallion.derive.derivation import Derivations, derive
from medallion.project import project_at
from medallion.settings import Settings
from medallion.spark.plans import analyse_here

FULL = "full recompute"
TITLES = {"query": "query", "method": "method", "rows": "rows", "full_seconds": "full, s"} | {
    "incremental_seconds": "incremental, s",
}  # fmt: skip


@click.command()
@click.option("--scale", default=0.01, show_default=True, help="TPC-DS's scale factor: 1 is a gigabyte.")
@click.option("--hours", default=0, show_default=True, help="Hours that are refreshed; the first is a warm-up.")
@click.option("--work", type=click.Path(path_type=Path, file_okay=False), help="Folder to keep.  [default: temporary]")
@click.option("--format", "form", default="table", type=click.Choice(["table", "json"]), show_default=True)
def measure(scale: float, hours: int, work: Path | None, form: str) -> None:
    """Derive how TPC-DS's 99 queries are refreshed; with --hours, refresh them and compare rows and seconds."""
    with TemporaryDirectory(prefix="tpcds-") as folder:
        root = (work or Path(folder)) / "project"
        with tpcds(scale) as connection:
            write_project(root, connection, hours)
        start = time.monotonic()
        rows = [*_methods(_derived(root))]
        click.echo(f"{len(rows)} queries derived in {time.monotonic() - start:.0f} s", err=True)
        measured = [*_refreshed(root, rows, hours)] if hours else []
    if form == "json":
        click.echo(json.dumps({"queries": rows, "hours": measured}, indent=2))
        return
    for row in rows:
        click.echo(f"{row['query']}: {row['method']}: {row['reason']}")
    for title, field in (("methods", "method"), ("reasons for full", "why")):
        click.echo(f"\n{title}:")
        for what, count in Counter(row[field] for row in rows if row[field]).most_common():
            click.echo(f"{count:4} {what}")
    if measured:
        click.echo("\n".join(["", *as_table(measured, TITLES)]))


def _derived(root: Path) -> Derivations:
    settings = Settings.from_environment().replace(spark_connect=None)
    tables = project_at(root).registry(extras=True)
    return derive(tables.with_methods(dict.fromkeys(tables.tables)).tables, partial(analyse_here, settings))


def _methods(found: Derivations) -> Iterator[dict[str, str]]:
    """By query: its method, why it is that one, and in short what stands in the way of every other one."""
    for name in sorted({*found.by_table, *found.errors}):
        query = name.removeprefix("gold_")
        if name in found.errors:
            reason = str(found.errors[name])
            yield {"query": query, "method": "refused", "reason": reason, "why": _in_short(reason)}
            continue
        derivation, method = found.by_table[name], str(found.nodes[name].refresh_method)
        if method != FULL:
            yield {"query": query, "method": method, "reason": derivation.reason, "why": ""}
            continue
        reason = derivation.refused.get("incremental aggregate", derivation.reason)
        yield {"query": query, "method": method, "reason": reason, "why": _in_short(reason)}


def _in_short(reason: str) -> str:
    """The reason without the names that only this query has."""
    return re.sub(r"`[^`]*`|\b[a-z]+_[a-z_0-9]+\b|\bc?\d+\b", "...", reason)[:110]


def _refreshed(root: Path, rows: list[dict[str, str]], hours: int) -> Iterator[dict[str, Any]]:
    """Refresh the queries that are refreshed by what changed, and only these; compare their rows."""
    for row in rows:
        if row["method"] in (FULL, "refused"):
            os.unlink(root / "spark_jobs" / "gold" / f"{row['query']}.py")
    run(root, {}, "plan", "--write")
    refresh_both(root, hours)
    yield from timings(root)


if __name__ == "__main__":
    measure()
