"""medallion plan: how each table of the project is refreshed, derived from Spark's analysis of its query."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from medallion.cli.common import (
    AS_OBJECT,
    HOUR,
    current_tables,
    loaded_lake,
    print_json,
    print_lines,
    settings,
    show_rows,
)
from medallion.errors import MedallionError

if TYPE_CHECKING:
    from medallion.model.proven import Proof
    from medallion.model.refresh_lock import Entry


@click.command()
@click.option(
    "--hour", type=HOUR, help="What an incremental refresh of this hour would do; afterwards, beside what it did."
)
@click.option("--next", "is_next", is_flag=True, help="The same of the next hour that the source has.")
@click.option("--write", "is_written", is_flag=True, help="Derive how each table is refreshed; write refresh.lock.")
@click.option("--check", "is_checked", is_flag=True, help="Fail where refresh.lock is not what is derived.")
@click.option("--all", "anew", is_flag=True, help="Derive and prove all of it again, also what has not changed.")
@AS_OBJECT
def plan(hour: str | None, is_next: bool, is_written: bool, is_checked: bool, anew: bool, form: str) -> None:
    """Show how each table is refreshed, as derived from its query, and why; or what a refresh would do.

    If tables have changed since refresh.lock was written, Spark analyses the queries without running any. A method
    that cannot be proven right is not chosen; medallion explain TABLE says why.
    """
    if hour or is_next:
        _show_forecast(hour, form)
        return
    from medallion.derive.project import graph_of, text_of
    from medallion.inspect.personal_columns import require_no_personal_columns
    from medallion.model.refresh_lock import NAME, is_derived_from, readable_entries
    from medallion.project import find_project
    from medallion.spark.plans import analyse_here
    from medallion.storage.files import write_text

    project = find_project(or_checkout=False)
    every, path = project.registry(extras=True), project.root / NAME
    for layer in project.layers:  # this also reports promises on missing tables
        require_no_personal_columns(every, project.suite(layer), layer)
    former = text = _text_of(path)
    if anew or not former or not is_derived_from(graph_of(every), path):
        analyse = partial(analyse_here, settings().replace(spark_connect=None))  # Spark Connect shows no plans
        text = text_of(every, analyse, {} if anew else _known(path))
    if is_written:
        write_text(path, text)
    elif is_checked and text != former:
        raise MedallionError(
            f"{path.name} is not up to date ({_drift(former, text)}): run medallion plan --write, and commit it"
        )
    entries = readable_entries(text)
    if is_written or is_checked:
        if is_written and former and text != former:
            click.echo(f"changed: {_drift(former, text)}")
        click.echo(f"{path.name}: the refresh methods of {len(entries)} tables are derived and proven")
        return
    shown = [entries[table.name] for table in every if table.name in entries]
    if form == "json":
        fields = ("table", "policy", "reason")
        print_json([{**{f: getattr(entry, f) for f in fields}, "method": entry.proof.method} for entry in shown])
    else:
        print_lines(map(_line, shown))


def _show_forecast(hour: str | None, form: str) -> None:
    from dataclasses import asdict

    from medallion.inspect.forecast import as_expected, forecast_hour

    hour, forecasts = forecast_hour(loaded_lake(), current_tables(), settings(), hour)
    if form == "json":
        forecast_tables = [asdict(forecast) for forecast in forecasts]
        print_json({"hour": hour, "strategy": "incremental", "tables": forecast_tables})
        return
    columns = ("table", "lines", "expected", "rows", "seconds", "ran", "rows written", "took", "reason")
    rows = [
        (
            *(forecast.table, sum(forecast.lines.values()), forecast.method, forecast.rows, _rounded(forecast.seconds)),
            *(forecast.ran, forecast.ran_rows, _rounded(forecast.ran_seconds), forecast.reason),
        )
        for forecast in forecasts
    ]
    right, count = as_expected(forecasts)
    print_lines(_forecast_title(hour, is_done=count > 0))
    show_rows(columns, rows, form, notes=("reason",), optional=("lines", "took", "rows written"))
    if count:
        click.echo(f"{hour}: {right} of {count} tables were refreshed by the expected method")


def _forecast_title(hour: str, *, is_done: bool) -> Iterator[str]:
    """Yield which hour and strategy a forecast is of and, if the hour is still to come, how to refresh it so."""
    if is_done:
        yield f"{hour}: forecast of an incremental refresh, beside what was done"
        return
    yield f"{hour}: forecast of an incremental refresh"
    command = f"run medallion refresh --hour {hour} --strategy incremental"
    yield f"{command} (in Airflow: Strategy incremental); the default strategy, full, recomputes every table"


def _line(entry: "Entry") -> str:
    """Return how a table is refreshed; for a full recompute, also where to read why no other method was chosen."""
    from medallion.model.methods import Full

    more = f"; medallion explain {entry.table} says why" if isinstance(entry.method, Full) and entry.refused else ""
    return f"{entry.table}  {entry.proof.method}: {entry.reason}{more}"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _drift(former: str, text: str) -> str:
    """Return the tables whose entries differ, with the new refresh method of each where the method differs."""
    from medallion.model.refresh_lock import readable_entries

    old, new = readable_entries(former), readable_entries(text)
    changed = [name for name in (*new, *(old.keys() - new.keys())) if old.get(name) != new.get(name)]
    return ", ".join(f"{name}{_change(old.get(name), new.get(name))}" for name in changed) or "its first line"


def _change(old: object, new: object) -> str:
    from medallion.model.refresh_lock import Entry

    if isinstance(old, Entry) and isinstance(new, Entry) and old.method != new.method:
        return f": {new.proof.method}, not {old.proof.method}"
    return " is gone" if new is None else ""


def _text_of(path: Path) -> str:
    """Return the text of refresh.lock; empty if it cannot be read, because it is then written again."""
    from medallion.model.refresh_lock import lock_lines

    try:
        return "".join(f"{line}\n" for line in lock_lines(path) if line)
    except MedallionError:
        return ""


def _known(path: Path) -> "Mapping[str, Proof]":
    """Return the proofs in refresh.lock; empty if it cannot be read, or was edited by hand."""
    from medallion.model.refresh_lock import read_lock

    try:
        return read_lock(path).proofs
    except MedallionError:
        return {}
