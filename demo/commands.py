"""Commands that make the demo source, and break it on purpose: they stand under ``medallion source``."""

from dataclasses import replace
from pathlib import Path

import click

from medallion.cli.common import HOUR, current_lake, current_tables, settings
from medallion.errors import UsageError


@click.command("generate")
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--days", default=7, show_default=True, help="Days of history in the snapshot.")
@click.option("--hours", default=24, show_default=True, help="Hours of changes after the snapshot.")
@click.option(
    "--scale", default=1.0, show_default=True, help="Size of the shop; 1 means about 4,859 change lines an hour."
)
@click.option("--seed", default=0, show_default=True, help="Random seed of the shop.")
@click.option("--force", is_flag=True, help="Replace a demo source in DIR that has other arguments.")
def generate_source(target: Path, days: int, hours: int, scale: float, seed: int, force: bool) -> None:
    """Create a demo source in DIR. The same arguments give the same bytes.

    More --hours continue an existing source. A source with other arguments is replaced only with --force.

    The first hour of changes is 2025-11-30T00. With 90 days, a scale of 1 gives about
    650,000 orders, 1.6 million items, 3 million clicks and 2.2 million inventory events.
    """
    from demo.generate import existing_plan, generate
    from demo.plan import Plan
    from medallion.cli.console import progress_bar

    existing, wanted = existing_plan(target), Plan(days, hours, scale, seed)
    if existing == wanted:
        click.echo(f"{target} exists with these arguments: nothing to do")
        return
    # A longer one begins with the same bytes: nothing that was landed from it changes.
    is_longer = existing is not None and wanted.hours > existing.hours and replace(existing, hours=hours) == wanted
    if existing is not None and not is_longer and not force:
        raise UsageError(
            f"{target} holds a demo source with --days {existing.days} --hours {existing.hours} --scale"
            f" {existing.scale:g} --seed {existing.seed}: name another folder, or replace it with --force"
        )
    with progress_bar() as advance:
        summary = generate(target, days=days, hours=hours, scale=scale, seed=seed, progress=advance)
    click.echo(f"{target}: {summary}")


@click.command("break")
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--hour", type=HOUR, required=True, help="The hour to break, not refreshed yet.")
def break_source(target: Path, hour: str) -> None:
    """Make an hour of a demo source fail its check: it deletes every supplier.

    Refresh that hour to see a failed check, its report, and that readers keep the release before. To recover:

    \b
      medallion source mend DIR --hour H
      medallion refresh --restate H
    """
    from demo.broken_hour import break_hour

    _refuse_applied(target, hour)
    click.echo(f"{target}: {hour} deletes all {break_hour(target, hour):,} suppliers")


@click.command("mend")
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--hour", type=HOUR, required=True, help="The hour that was broken.")
def mend_source(target: Path, hour: str) -> None:
    """Take back what `source break` did to an hour."""
    from demo.broken_hour import mend_hour

    removed = mend_hour(target, hour)
    if not removed:
        click.echo(f"{target}: {hour} is not broken: nothing to do")
        return
    click.echo(f"{target}: {removed:,} lines of {hour} removed; now medallion refresh --restate {hour}")


def _refuse_applied(target: Path, hour: str) -> None:
    """Raise UsageError where the lake of the environment reads ``target`` and has applied ``hour``."""
    from medallion.ingest.ledger import applied_hour

    if Path(settings().source).resolve() != target.resolve():
        return
    applied = applied_hour(current_lake(), current_tables())
    if applied is not None and hour <= applied:
        raise UsageError(f"{hour} is applied already (the newest applied hour is {applied}): break a later hour")


COMMANDS = (generate_source, break_source, mend_source)
