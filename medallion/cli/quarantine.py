"""Commands about lines that could not be applied."""

from pathlib import Path

import click

from medallion.cli.common import AS_ROWS, HOUR, current_lake, current_tables, new_run_id, open_driver, show_rows


@click.group()
def quarantine() -> None:
    """Change lines that could not be applied: list, show, and replay them once they fit."""


@quarantine.command("list")
@AS_ROWS
def list_quarantine(form: str) -> None:
    """How many lines of which feed and hour are kept back, and why."""
    from collections import Counter

    from medallion.ingest.quarantine import rejected

    lake = current_lake()
    found = Counter(
        (feed.topic, row.hour, row.reason) for feed in current_tables().feeds for row in rejected(lake, feed)
    )
    show_rows(["feed", "hour", "reason", "lines"], [(*key, count) for key, count in sorted(found.items())], form)


@quarantine.command("show")
@click.argument("feed")
@click.option("--hour", type=HOUR, help="Only this hour.")
@AS_ROWS
def show_quarantine(feed: str, hour: str | None, form: str) -> None:
    """The lines of FEED as they came, with file, line number and reason."""
    from medallion.ingest.quarantine import feed_of, rejected

    rows = rejected(current_lake(), feed_of(current_tables().feeds, feed), hour)
    show_rows(["hour", "file", "line_number", "reason", "raw"], [tuple(vars(row).values())[:5] for row in rows], form)


@quarantine.command("replay")
@click.argument("feed")
@click.option("--hour", type=HOUR, required=True, help="The hour whose lines are replayed.")
@click.option("--file", type=click.Path(path_type=Path), help="Mended lines; without it, lines that fit as they came.")
def replay_quarantine(feed: str, hour: str, file: Path | None) -> None:
    """Apply lines of FEED in their old place, so that a later change of a key still wins.

    This restates the hour and all later ones. Where a column or type was mended in spark_jobs/bronze/,
    nothing more is needed; to mend the lines themselves, edit them in what show prints:

    \b
      medallion quarantine show orders --hour 2025-11-30T05 --format json > lines.json
      medallion quarantine replay orders --hour 2025-11-30T05 --file lines.json
    """
    from medallion.ingest.quarantine import read_mended
    from medallion.pipeline import operations
    from medallion.pipeline.run import Run

    lines = read_mended(file) if file else None
    with open_driver() as driver:
        operations.replay(Run(driver.settings, hour, new_run_id("replay")), driver, feed, lines)
