"""Commands for published releases, which are what readers see."""

from collections.abc import Mapping, Sequence

import click

from medallion.cli.common import (
    AS_ROWS,
    RELEASE,
    Group,
    current_lake,
    current_tables,
    loaded_lake,
    new_run_id,
    open_driver,
    show_rows,
)
from medallion.cli.console import working
from medallion.hours import hour_or_snapshot
from medallion.ops import releases
from medallion.ops.holds import held_releases
from medallion.storage.lake import state_of
from medallion.storage.named_versions import open_named


@click.group(cls=Group)
def release() -> None:
    """What readers see: list, compare, hold and roll back published releases. A release is given by number or name."""


@release.command("list")
@AS_ROWS
def list_releases(form: str) -> None:
    """The releases that are kept, newest last."""

    names = ["release", "hour", "published_at", "restores", "held_as", "strategy", "run_id"]
    lake = loaded_lake()
    held, first = held_releases(lake), "snapshot" if form == "table" else None
    all_releases = releases.read_all(lake)
    rows = (
        (r.release_id, r.hour or first, r.published_at, r.restores, _names(held, r), r.strategy, r.run_id)
        for r in all_releases
    )
    show_rows(names, rows, form, optional=("run_id", "strategy", "restores", "held_as"))
    if all_releases and form == "table":
        newest = all_releases[-1]
        again = "" if newest.restores is None else f", which restores release {newest.restores}"
        click.echo(f"readers see release {newest.release_id} of {hour_or_snapshot(newest.hour)}{again}")


@release.command("show")
@click.argument("number", metavar="[RELEASE]", type=RELEASE, required=False)
@AS_ROWS
def show_release(number: int | None, form: str) -> None:
    """The tables of a release, the newest by default: version, rows and files of each."""

    lake = current_lake()
    chosen = releases.require_release(lake, number)
    opened = (open_named(lake, version) for version in filter(None, map(chosen.version_of, chosen.versions)))
    states = zip(chosen.versions, map(state_of, opened), strict=True)
    rows = ((table, s.version, s.rows, s.files, s.bytes, lake.path(table)) for table, s in states)
    names = ["table", "version", "rows", "files", "bytes", "path"]
    if form == "table":
        click.echo(f"release {chosen.release_id} of {hour_or_snapshot(chosen.hour)}")
    show_rows(names, rows, form, optional=("path", "files", "bytes"))


@release.command("diff")
@click.argument("old", metavar="A", type=RELEASE)
@click.argument("new", metavar="B", type=RELEASE)
@click.option("--table", help="Show the differing rows of this table, - as in A and + as in B.")
@click.option("--limit", default=20, show_default=True, help="With --table: rows to show at most.")
@AS_ROWS
def diff_releases(old: int, new: int, table: str | None, limit: int, form: str) -> None:
    """Rows that were added, removed and changed from release A to release B, per table."""
    from medallion.inspect.query import diff, diff_rows

    lake = current_lake()
    a, b = releases.require_release(lake, old), releases.require_release(lake, new)
    if table is not None:
        with working(f"comparing {table}"):
            table_diff = diff_rows(lake, a, b, current_tables()[table], limit)
        show_rows(*table_diff, form)
    else:
        with working(f"comparing release {a.release_id} with {b.release_id}"):
            differences = [*diff(lake, a, b, current_tables())]
        rows = ((d.table, d.added, d.removed, d.changed) for d in differences)
        show_rows(["table", "added", "removed", "changed"], rows, form)


@release.command("rollback")
@click.argument("number", metavar="[RELEASE]", type=RELEASE, required=False)
def rollback_release(number: int | None) -> None:
    """Let readers see an earlier release again; without a number, the one before what they see now.

    Nothing is recomputed and Bronze keeps its hours: this publishes the old versions once more, as a
    release of its own. Each roll back without a number goes one release further back; to undo one, give the
    number of the release to return to. The next refresh publishes what is new again.
    """
    from medallion.pipeline.rollback import rollback
    from medallion.pipeline.run import Run

    with open_driver() as driver:
        rollback(Run(driver.settings, None, new_run_id("rollback")), driver, number)


@release.command("hold")
@click.argument("name")
@click.argument("number", metavar="[RELEASE]", type=RELEASE, required=False)
def hold_release(name: str, number: int | None) -> None:
    """Keep a release under NAME, the newest by default, until it is no longer held.

    Upkeep keeps it and what it is read from, however old it is. Wherever a command takes the number of a release, it
    takes the name as well.

    \b
      medallion release hold annual-report-2025
      medallion query --release annual-report-2025 "FROM gold_daily_orders"
    """
    from medallion.pipeline import held_releases
    from medallion.pipeline.run import Run

    with open_driver() as driver:
        held_releases.hold(Run(driver.settings, None, new_run_id("hold")), driver, name, number)


@release.command("unhold")
@click.argument("name")
def unhold_release(name: str) -> None:
    """No longer keep the release that is held as NAME. The next upkeep removes it if it is old."""
    from medallion.pipeline import held_releases
    from medallion.pipeline.run import Run

    with open_driver() as driver:
        held_releases.unhold(Run(driver.settings, None, new_run_id("unhold")), driver, name)


def _names(held: Mapping[int, Sequence[str]], release: releases.Release) -> str | None:
    return ", ".join(held.get(release.release_id, ())) or None
