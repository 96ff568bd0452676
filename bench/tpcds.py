"""TPC-DS: how many of its 99 queries are refreshed by what changed, and why the others are not.

``python -m bench.tpcds`` in the root of the repository writes a project with the 24 tables as feeds and the 99 queries
as Gold, as DuckDB's extension has them, and derives how each is refreshed; nothing is computed.
``python -m tests.tpcds_rows`` refreshes them over hours of changes, and compares their rows.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from bench.tpcds_project import tpcds, write_project
from medallion.derive.derivation import Derivations, derive
from medallion.model.registry import Registry
from medallion.project import project_at
from medallion.settings import Settings
from medallion.spark.plans import analyse_here

FULL = "full recompute"


@click.command()
@click.option("--format", "form", default="table", type=click.Choice(["table", "json"]), show_default=True)
def measure(form: str) -> None:
    """Derive how TPC-DS's 99 queries are refreshed, and count the methods and the reasons."""
    with TemporaryDirectory(prefix="tpcds-") as folder:
        with tpcds(scale=0) as connection:
            write_project(Path(folder), connection)
        start = time.monotonic()
        rows = [*_methods(derived(project_at(Path(folder)).registry(extras=True)))]
        click.echo(f"{len(rows)} queries derived in {time.monotonic() - start:.0f} s", err=True)
    if form == "json":
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        click.echo(f"{row['query']}: {row['method']}: {row['reason']}")
    for title, field in (("methods", "method"), ("reasons for full", "why")):
        click.echo(f"\n{title}:")
        for what, count in Counter(row[field] for row in rows if row[field]).most_common():
            click.echo(f"{count:4} {what}")


def derived(tables: Registry) -> Derivations:
    """Derive the refresh methods of tables that have none yet, with the Spark session of this process."""
    settings = Settings.from_environment().replace(spark_connect=None)  # Spark Connect shows no plans
    return derive(tables.tables, partial(analyse_here, settings))


def _methods(derivations: Derivations) -> Iterator[dict[str, str]]:
    """Yield each query with its refresh method and the reason, which is also shortened where nothing is incremental."""
    for name in sorted({*derivations.by_table, *derivations.errors}):
        query = name.removeprefix("gold_")
        if name in derivations.errors:
            reason = str(derivations.errors[name])
            yield {"query": query, "method": "refused", "reason": reason, "why": _in_short(reason)}
            continue
        derivation, method = derivations.by_table[name], str(derivations.nodes[name].refresh_method)
        if method != FULL:
            yield {"query": query, "method": method, "reason": derivation.reason, "why": ""}
            continue
        reason = derivation.refused.get("incremental aggregate", derivation.reason)
        yield {"query": query, "method": method, "reason": reason, "why": _in_short(reason)}


def _in_short(reason: str) -> str:
    """Return the start of a reason without the names and numbers that only this query has."""
    return re.sub(r"`[^`]*`|\b[a-z]+_[a-z_0-9]+\b|\bc?\d+\b", "...", reason)[:110]


if __name__ == "__main__":
    measure()
