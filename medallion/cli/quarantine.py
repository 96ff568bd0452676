"""Commands about lines that could not be applied."""

from pathlib import Path

import click

from medallion.cli.common import AS_ROWS, HOUR, Group, current_tables, loaded_lake, new_run_id, open_driver, show_rows


@click.group(cls=Group)
def quarantine() -> None:
    """Change lines that could not be applied: list, show, and replay them once they fit."""


@quarantine.command("list")
@AS_ROWS
def list_quarantine(form: str) -> None:
    """List what is kept aside and why: lines of feeds that were rejected, and rows that tables drop.

    Rejected lines are those that are still kept, by feed and hour. Dropped rows are those of the newest release.
    """
    from medallion.inspect.quarantined import count_dropped_rows, count_rejected_lines

    lake, tables = loaded_lake(), current_tables()
    counts = [*count_rejected_lines(lake, tables), *count_dropped_rows(lake)]
    rows = [(count.name, count.kind, count.hour, count.reason, count.count) for count in counts]
    show_rows(["name", "kind", "hour", "reason", "count"], rows, form, notes=["reason"], optional=["hour"])


@quarantine.command("show")
@click.argument("feed")
@click.option("--hour", type=HOUR, help="Only this hour.")
@AS_ROWS
def show_quarantine(feed: str, hour: str | None, form: str) -> None:
    """Show the lines of FEED as they came, with file, line number and reason.

    Rows that a table drops are a table of their own: medallion query "FROM quarantine_silver_orders"
    """
    from medallion.ingest.quarantine import feed_of, read_rejected

    lines = read_rejected(loaded_lake(), feed_of(current_tables().feeds, feed), hour)
    rows = [(line.hour, line.file, line.line_number, line.reason, line.raw) for line in lines]
    names = ["hour", "file", "line_number", "reason", "raw"]
    show_rows(names, rows, form, notes=("reason", "raw"), optional=["hour"])


@quarantine.command("replay")
@click.argument("feed")
@click.option("--hour", type=HOUR, required=True, help="The hour whose lines are replayed.")
@click.option("--file", type=click.Path(path_type=Path), help="Corrected lines; without it, lines that fit unchanged.")
def replay_quarantine(feed: str, hour: str, file: Path | None) -> None:
    """Apply lines of FEED in their old place, so that a later change of a key still wins.

    This restates the hour and all later ones. Where a column or type was corrected in
    its module, nothing more is needed; to correct the lines themselves, edit them in what show prints:

    \b
      medallion quarantine show orders --hour H --format json > fix.json
      medallion quarantine replay orders --hour H --file fix.json
    """
    from medallion.ingest.quarantine import read_corrected_lines
    from medallion.pipeline import operations
    from medallion.pipeline.run import Run

    lines = read_corrected_lines(file) if file else None
    with open_driver() as driver:
        operations.replay(Run(driver.settings, hour, new_run_id("replay")), driver, feed, lines)
