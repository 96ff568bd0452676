"""Commands for editing tables: preview the rows of a query, rebuild edited tables."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from medallion.cli.common import (
    AS_ROWS,
    STRATEGY,
    current_tables,
    loaded_lake,
    names_of_tables,
    new_run_id,
    open_driver,
    print_json,
    settings,
    show_rows,
)
from medallion.cli.console import working
from medallion.errors import MedallionError, UsageError
from medallion.model.table import Table
from medallion.ops import releases

if TYPE_CHECKING:
    from medallion.inspect.preview import Preview


@click.command()
@click.argument("name", metavar="TABLE")
@click.option("--rows", "limit", default=20, show_default=True, type=click.IntRange(0), help="Rows to show at most.")
@click.option("--diff", is_flag=True, help="Compare with the published rows: counts, and differing rows by key.")
@AS_ROWS
def preview(name: str, limit: int, diff: bool, form: str) -> None:
    """Show the rows that a table's query gives now, on the inputs that readers have. Nothing is written.

    This works for a query that was edited since the table was built, and for a table that was never built.
    With --diff, - marks a row as readers have it, and + marks a row as the query gives it now.

    \b
      medallion preview gold_order_status_summary
      medallion preview gold_order_status_summary --diff --rows 50
    """
    from medallion.inspect.preview import Preview
    from medallion.model.parsed_query import Schemas
    from medallion.model.unknown_columns import unknown_columns
    from medallion.spark.session import spark_session

    lake, tables = loaded_lake(), current_tables()
    table, release = tables[name], releases.require_release(lake, None)
    if not isinstance(table, Table):
        raise UsageError(f"{table.name} is no query: medallion query shows its rows")
    if problems := unknown_columns(table, Schemas(tables.tables)):
        raise MedallionError("; ".join(problems))
    with working("starting Spark"):
        spark = spark_session(settings())
    try:
        _show(Preview(spark, lake, tables, release, table), limit, diff, form)
    finally:
        spark.stop()


def _show(preview: "Preview", limit: int, diff: bool, form: str) -> None:
    if not diff:
        with working(f"computing {preview.table.name}"):
            preview_rows = preview.rows(limit)
        show_rows(preview_rows.columns, preview_rows.rows, form)
        return
    with working(f"comparing {preview.table.name} with release {preview.release.release_id}"):
        difference = preview.difference(limit)
    sample = difference.sample
    if form == "json":
        rows = [dict(zip(sample.columns, row, strict=True)) for row in sample.rows]
        print_json(asdict(difference) | {"sample": rows})
        return
    if sample.rows or form == "csv":
        show_rows(sample.columns, sample.rows, form)
    counts = f"{difference.inserted:,} inserted, {difference.deleted:,} deleted, {difference.changed:,} changed"
    about = f"{preview.table.name} against release {preview.release.release_id}: {counts}"
    click.echo("; ".join([about, *difference.columns]), err=form == "csv")


@click.command()
@click.option("--select", callback=names_of_tables, metavar="TABLES", help="Rebuild these, whether edited or not.")
@click.option(
    "--strategy",
    type=STRATEGY,
    default="full",
    show_default=True,
    help="How what reads them is refreshed; an edited table is always recomputed.",
)
def reprocess(select: str, strategy: str) -> None:
    """Rebuild edited tables, and what reads them, at the published hour, and publish a new release of it.

    A table is edited if its rows were computed by a different query, or if it was never built. medallion
    status names edited tables. The next hour that is refreshed rebuilds them too.

    \b
      medallion reprocess
      medallion reprocess --select gold_inventory_risk
    """
    from medallion.pipeline import reprocess as work
    from medallion.pipeline.run import Run

    loaded_lake()
    with open_driver() as driver:
        run = Run(driver.settings, None, new_run_id("reprocess"), strategy=strategy, select=select)
        work.reprocess(run, driver)


COMMANDS = (preview, reprocess)
