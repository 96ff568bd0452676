"""Commands that write: load, refresh, follow, one step, maintain, adopt and discard."""

from functools import partial
from typing import Any

import click

from medallion.cli.common import (
    HOUR,
    STEP_NAMES,
    STRATEGY,
    NumberFrom,
    loaded_lake,
    names_of_tables,
    new_run_id,
    open_driver,
)
from medallion.errors import UsageError
from medallion.hours import hour_range
from medallion.settings import KEEP_DAYS, KEEP_HOURS, MAX_KEEP_DAYS, MAX_KEEP_HOURS
from medallion.storage.files import in_bucket


@click.command()
def load() -> None:
    """Load the snapshot, compute every table for the first time, and publish them."""
    from medallion.cli.console import progress_bar
    from medallion.pipeline import operations
    from medallion.pipeline.run import Run

    with open_driver() as driver, progress_bar(driver) as advance:
        operations.load(Run(driver.settings, None, new_run_id("load")), driver, advance)


@click.command()
@click.option("--hour", type=HOUR, help="The hour to refresh. Without it: the next pending one.")
@click.option("--from-hour", type=HOUR, help="With --to-hour: refresh a range, in order, both ends included.")
@click.option("--to-hour", type=HOUR, help="The last hour of the range. Alone: all pending hours up to it.")
@click.option(
    "--restate",
    type=HOUR,
    help="Reprocess from this hour: restore Bronze to before it, then apply it and every later hour again.",
)
@click.option(
    "--strategy",
    type=STRATEGY,
    default="full",
    show_default=True,
    help="How tables are refreshed: full recomputes them, incremental touches what changed.",
)
@click.option(
    "--select",
    callback=names_of_tables,
    metavar="TABLES",
    help="Refresh only these, as in dbt: gold_x or tag:x, +gold_x with what it reads, silver_x+ with what reads it.",
)
def refresh(
    hour: str | None, from_hour: str | None, to_hour: str | None, restate: str | None, strategy: str, select: str
) -> None:
    """Land, apply, refresh, check and publish an hour of changes, in one Spark session and without Airflow.

    Hours apply in order, once. An hour that is published already is skipped; after a failure, run the
    same command again and it goes on from where it stopped.

    \b
      medallion refresh --hour 2025-11-30T00
      medallion refresh --to-hour 2025-11-30T23
      medallion refresh --from-hour 2025-11-30T00 --to-hour 2025-11-30T23

    An hour of a range for which the source has no file is passed over when it has a later one.
    Where the source has corrected or late files of an hour that was applied already, --restate
    reprocesses them and prints which rows changed.

    \b
      medallion refresh --restate 2025-11-30T05

    With --select (commas or spaces between several) and --hour, tables that are not selected stay as
    they are. A release is published only if every table follows from the same Bronze; else readers keep
    the one they have, and the next run without --select catches up. Without --hour, they are computed
    again at the published hour, with what reads them, and published.

    \b
      medallion refresh --select "gold_inventory_risk, silver_products+"
    """
    from medallion.cli.console import progress_bar
    from medallion.ingest.arrivals import pending_at_source
    from medallion.pipeline import operations
    from medallion.pipeline.run import Run

    if restate and (hour or from_hour or to_hour or select):
        raise UsageError("give --restate alone: it goes on to the last hour that was applied")
    if from_hour and not to_hour:
        raise UsageError("give --to-hour too: --from-hour is the first hour of a range")
    if hour and to_hour:
        raise UsageError(
            "give --hour, or --to-hour for all pending hours up to it, or both ends of a range; without any, the next"
            " pending hour is refreshed"
        )
    with open_driver() as driver:
        if restate:
            operations.restate(Run(driver.settings, restate, new_run_id("restate"), strategy=strategy), driver)
            return
        hours: list[str | None] = [hour]
        if to_hour:
            hours = [*(hour_range(from_hour, to_hour) if from_hour else pending_at_source(driver.settings, to_hour))]
        runs = [
            Run(driver.settings, h, new_run_id("refresh"), strategy=strategy, select=select) for h in hours or [to_hour]
        ]
        with progress_bar(report_to=driver) as advance:
            operations.refresh_hours(runs, driver, advance)


@click.command()
@click.option(
    "--settle",
    default=10.0,
    show_default=True,
    type=NumberFrom(0),
    help="Seconds an hour's files must stay unchanged.",
)
@click.option(
    "--every",
    default=0.0,
    show_default=True,
    type=NumberFrom(0),
    help="Minimum seconds between the starts of two refreshes.",
)
@click.option("--until", type=HOUR, help="End after this hour.  [default: go on until interrupted]")
@click.option("--strategy", type=STRATEGY, default="incremental", show_default=True, help="As for medallion refresh.")
def follow(settle: float, every: float, until: str | None, strategy: str) -> None:
    """Refresh each hour as its files arrive, in one process whose session stays warm.

    An hour is refreshed once its files have not changed for --settle seconds; refresh --restate reprocesses files
    that arrive later. A failure ends the command: no hour is passed over.

    \b
    Each hour is a line, in seconds from when its files were last modified:
      2025-11-30T00  landed 10.2  bronze 13.0  silver 16.1  gold 18.4
        published 21.9
    """
    from medallion.pipeline import follow as following

    loaded_lake()
    with open_driver() as driver:
        # Listing a bucket costs requests; listing a folder costs nothing.
        poll = max(1.0, settle) if in_bucket(driver.settings.source) else max(0.1, min(1.0, settle / 4))
        pace = following.Pace(settle, every, poll)
        driver.report, driver.report_wait = (lambda _: None), partial(click.echo, err=True)
        click.echo(f"following {driver.settings.source}; the session starts", err=True)
        for done in following.follow(driver, strategy, pace, lambda: new_run_id("follow"), until):
            hops = "".join(f"  {hop} {seconds:.1f}" for hop, seconds in done.latency.items())
            click.echo(f"{done.hour}{hops}" if hops else f"{done.hour}  {done.outcome.message}")


@click.command()
@click.argument("name", metavar="NAME", type=click.Choice(STEP_NAMES))
@click.option("--hour", type=HOUR, help="The hour; land alone can find the next pending one by itself.")
@click.option("--layer", help="The layer: for check any, for refresh one that is computed.")
@click.option("--strategy", type=STRATEGY, default="full", show_default=True, help="As for medallion refresh.")
@click.option("--run-id", help="Names the run in the event log and in reports.  [default: generated]")
@click.option("--attempt", default=1, show_default=True, help="Counts the tries of one run.")
@click.option("--select", default="", metavar="TABLES", help="As for medallion refresh.")
def step(name: str, hour: str | None, layer: str | None, run_id: str | None, **of_run: Any) -> None:
    """Run one step of an hour, as a DAG task does: land, apply, refresh, check, publish or validate.

    In order: land; apply; check --layer bronze; refresh and check --layer silver; refresh and
    check --layer gold; publish; validate. Every step can be run again.
    """
    from medallion.pipeline.outdated import require_refreshed
    from medallion.pipeline.run import Run
    from medallion.pipeline.steps import run_step

    with open_driver() as driver:
        run = Run(driver.settings, hour, run_id or new_run_id(name), **of_run)
        if name == "check" and layer in driver.tables.layers[1:] and not run.select:
            require_refreshed(driver, layer)  # whoever runs steps by hand may have left one out
        run_step(name, run, driver, layer)


@click.command()
@click.option(
    "--keep-hours",
    default=KEEP_HOURS,
    show_default=True,
    type=click.IntRange(0, MAX_KEEP_HOURS),
    help="Hours to keep old versions and releases.",
)
@click.option(
    "--keep-days",
    default=KEEP_DAYS,
    show_default=True,
    type=click.IntRange(1, MAX_KEEP_DAYS),
    help="Days to keep events, reports and landed files.",
)
def maintain(keep_hours: int, keep_days: int) -> None:
    """Merge small files, and remove old versions, events, reports and what crashes left behind.

    Whatever a kept release names stays readable, and the newest two releases are always kept. An hour
    can be restated, and a release rolled back to, as far back as releases are kept.
    """
    from medallion.pipeline.maintain import Retention
    from medallion.pipeline.maintain import maintain as work
    from medallion.pipeline.run import Run

    loaded_lake()
    with open_driver() as driver:
        work(Run(driver.settings, None, new_run_id("maintain")), driver, Retention(keep_hours, keep_days))


@click.command()
@click.argument("table")
def adopt(table: str) -> None:
    """Keep what somebody else changed in TABLE.

    An hour is refused while a Bronze table has rows that were changed by hand or by another program. This
    takes these commits as changes: the next refresh follows them as it follows an hour's. To undo them, use
    discard. Also for releases and quarantine_<topic>.
    """
    from medallion.pipeline.adoption import adopt as work
    from medallion.pipeline.run import Run

    with open_driver() as driver:
        work(Run(driver.settings, None, new_run_id("adopt")), driver, table)


@click.command()
@click.argument("table")
def discard(table: str) -> None:
    """Undo what somebody else changed in TABLE.

    This restores the version that the last refresh, load or upkeep left, in a commit of its own. To keep the
    change, use adopt. Also for releases and quarantine_<topic>.
    """
    from medallion.pipeline.adoption import discard as work
    from medallion.pipeline.run import Run

    with open_driver() as driver:
        work(Run(driver.settings, None, new_run_id("discard")), driver, table)


COMMANDS = (load, refresh, follow, step, maintain, adopt, discard)
