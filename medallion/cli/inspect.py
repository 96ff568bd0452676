"""Commands that inspect the lake: status, tables, events, expectations, query, data-docs."""

import csv
import json
import sys
from dataclasses import asdict, replace
from datetime import timedelta

import click

from medallion.cli.common import (
    AS_OBJECT,
    AS_ROWS,
    HOUR,
    OF_RELEASE,
    NumberFrom,
    current_lake,
    current_tables,
    loaded_lake,
    new_run_id,
    open_driver,
    print_json,
    print_rich,
    print_sheet,
    settings,
    show_rows,
)
from medallion.csv_cells import plain_cells
from medallion.errors import MedallionError
from medallion.ops import releases
from medallion.settings import STALE_HOURS

SOURCE_SECONDS = 5.0  # longest wait of status for the listing of the source


@click.command()
@AS_OBJECT
@click.option(
    "--check",
    is_flag=True,
    help="For a monitor: exit code 1 when something is stale, red, refused, or too old for the schedule to apply.",
)
@click.option(
    "--stale-hours",
    type=NumberFrom(0),
    help=f"Hours since a table's last hour ended. Default: {STALE_HOURS:g}, and none for a history that is replayed.",
)
def status(form: str, check: bool, stale_hours: float | None) -> None:
    """Show each table's rows, version, last hour, freshness and last check, and the newest release.

    Checks and failures are those of the 7 days before the newest event. Hours that the source has and the lake lacks
    are pending; as hours arrive all the time, they alone do not fail --check.
    """
    from medallion.ingest.arrivals import PendingInBackground
    from medallion.inspect.status import lake_status

    loaded_lake()
    pending = PendingInBackground(settings())
    state = lake_status(settings(), stale_hours)
    state = replace(state, pending=pending.wait(SOURCE_SECONDS))
    if form == "json":
        print_json(asdict(state))
    else:
        from medallion.cli.sheets import status_sheet

        print_sheet(status_sheet(state))
    if check and state.problems:
        first, *more = state.problems
        raise MedallionError(first + (f"; and {len(more)} more" if more else ""))


@click.command()
@click.option("--tree", "root", metavar="TABLE", help="What this table is made from, down to Bronze.")
@click.option(
    "--add", type=click.Choice(["extras"]), help="Add the extra tables to the lake; the next hour builds them."
)
@click.option("--drop", metavar="TABLE|extras", help="Publish without this table, or all extra ones, from now on.")
@AS_OBJECT
def tables(root: str | None, add: str | None, drop: str | None, form: str) -> None:
    """Show how each table is refreshed: from what, by which method, how stale, how often failed, how long it takes.

    Which tables a lake has is recorded in the lake when it is loaded. MEDALLION_EXTRAS is read then, and never again.

    \b
      medallion tables
      medallion tables --tree gold_supplier_performance
      medallion tables --add extras
      medallion tables --drop gold_old_report    its module is gone: the next
                                                 release comes without it
    """
    if add is not None or drop is not None:
        from medallion.pipeline import table_changes
        from medallion.pipeline.run import Run

        with open_driver() as driver:
            run = Run(driver.settings, None, new_run_id("tables"))
            if add is not None:
                click.echo(table_changes.add_extra_tables(run, driver))
            if drop is not None:
                click.echo(table_changes.drop_tables(run, driver, drop))
        return
    from medallion.cli import sheets

    if root is not None:
        known = current_tables()
        lineage = sheets.lineage_tree(known, known[root].name)
        print_json(lineage) if form == "json" else print_rich(sheets.draw_tree(lineage))
        return
    from medallion.inspect.status import lake_status

    loaded_lake()
    state = lake_status(settings())
    if form == "json":
        print_json([asdict(table) for table in state.tables])
    else:
        print_sheet(sheets.tables_sheet(state))


@click.command()
@click.option("--hour", type=HOUR, help="Only this hour.")
@click.option("--run", "run_id", help="Only this run.")
@click.option("--strategy", help="Only this strategy.")
@click.option("--last", type=click.IntRange(1), help="Only the newest N rows.")
@click.option(
    "--days",
    default=7,
    show_default=True,
    type=click.IntRange(0, 36_500),
    help="Days before the newest event; 0 for all that is kept.",
)
@AS_ROWS
def events(hour: str | None, run_id: str | None, strategy: str | None, last: int | None, days: int, form: str) -> None:
    """Show where the seconds went: one row per step and table, oldest first.

    \b
      medallion events --hour 2025-11-30T00
      medallion events --days 0 --format csv > timings.csv

    With --hour or --run all of its events are shown, however old they are.
    """
    from medallion.cli.sheets import events_sheet
    from medallion.ops import event_log as log
    from medallion.ops.event_schema import COLUMNS

    since = timedelta(days=days) if days and not (hour or run_id) else None
    rows = log.read(current_lake(), since, hour=hour, run_id=run_id, strategy=strategy)[-(last or 0) :]
    if form == "json":
        print_json([*map(asdict, rows)])
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(COLUMNS)
        content = (asdict(row) | {"details": json.dumps(row.details)} for row in rows)
        writer.writerows(plain_cells(row[name] for name in COLUMNS) for row in content)
    elif rows:
        print_sheet(events_sheet(rows))
    else:
        loaded_lake()
        click.echo("no events: nothing has run, or nothing matches")


@click.command()
@click.option("--table", help="Only those of this table.")
@click.option("--broken", is_flag=True, help="Only those that did not hold in one of these checks.")
@click.option("--last", default=8, show_default=True, type=click.IntRange(1), help="Number of recent checks to show.")
@click.option("--hour", type=HOUR, help="As the checks of this hour found them.  [default: the newest checks]")
@AS_ROWS
def expectations(table: str | None, broken: bool, last: int, hour: str | None, form: str) -> None:
    """Show how each expectation fared: records that passed and failed in the newest check, and the trend.

    The trend is the number of failed records, check by check, the newest last; x where the table as a whole failed.

    \b
      medallion expectations --broken
      medallion expectations --broken --hour 2025-11-30T09
      medallion expectations --table silver_orders_enriched --last 24 --format csv
    """
    from medallion.inspect.check_history import trends

    if table is not None:
        table = current_tables()[table].name
    names = ["table", "expectation", "severity", "hour", "status", "passed", "failed", "trend"]
    rows = []
    for trend in trends(loaded_lake(), table, last, hour):
        if not broken or trend.is_broken:
            newest = trend.last
            result = (newest.hour, newest.status, newest.passed_records, newest.failed_records)
            rows.append((trend.table, trend.expectation, trend.severity, *result, trend.counts))
    show_rows(names, rows, form, notes=("expectation", "trend"), optional=("severity", "hour"))


@click.command()
@click.argument("sql", metavar="SELECT")
@OF_RELEASE
@AS_ROWS
def query(sql: str, number: int | None, form: str) -> None:
    """Run one SELECT over a published release, whole and without a JVM, in the SQL of DuckDB.

    \b
      medallion query "SELECT * FROM gold_order_status_summary"
      medallion query --format csv "SELECT * FROM gold_inventory_risk" > risk.csv
    """
    from medallion.inspect.query import open_release, select

    lake = current_lake()
    with open_release(lake, releases.require_release(lake, number)) as connection:
        cursor = select(connection, sql)
        names = [name for name, *_ in cursor.description or ()]
        rows = iter(cursor.fetchone, None)
        show_rows(names, rows, form)


@click.command("data-docs")
def data_docs() -> None:
    """Build Great Expectations' Data Docs from the checks since the last time; a run of the DAG does so at its end."""
    from medallion.checks.docs_queue import build_data_docs

    reports = loaded_lake().reports
    if error := build_data_docs(reports):
        raise MedallionError(f"the Data Docs were not built: {error}")
    click.echo(f"{reports}/gx/site/index.html")


COMMANDS = (status, tables, events, expectations, query, data_docs)
