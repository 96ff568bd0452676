"""Commands about the source."""

from pathlib import Path

import click


@click.group()
def source() -> None:
    """Where snapshot and change files come from."""


@source.command("generate")
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--days", default=7, show_default=True, help="Days of history in the snapshot.")
@click.option("--hours", default=24, show_default=True, help="Hours of changes after it.")
@click.option(
    "--scale", default=1.0, show_default=True, help="Size of the shop; 1 is about 4,859 change lines an hour."
)
@click.option("--seed", default=0, show_default=True, help="Another seed, another shop.")
def generate_source(target: Path, days: int, hours: int, scale: float, seed: int) -> None:
    """Make a demo source in DIR. The same arguments give the same bytes.

    \b
    The first hour of changes is 2025-11-30T00. With 90 days, a scale of 1 gives about
    650,000 orders, 1.6 million items, 3 million clicks and 2.2 million inventory events.
    """
    from medallion.cli.console import progress_bar
    from medallion.demo.generate import generate

    with progress_bar() as advance:
        summary = generate(target, days=days, hours=hours, scale=scale, seed=seed, progress=advance)
    click.echo(f"{target}: {summary}")
