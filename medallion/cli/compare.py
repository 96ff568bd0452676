"""medallion compare: the cost of incremental relative to full, on the project's own tables and hours."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from medallion.cli.common import AS_ROWS, loaded_lake, settings, show_rows
from medallion.counts import counted
from medallion.hours import MONTH_HOURS

if TYPE_CHECKING:
    from medallion.pipeline.comparison import ComparedHour, Saving


@click.command()
@click.option("--hours", type=click.IntRange(1), default=3, show_default=True, help="Hours that count.")
@click.option("--warm-up", type=click.IntRange(1), default=1, show_default=True, help="First hours that do not count.")
@click.option("--anew", is_flag=True, help="Load the snapshot and take the source's first hours: the lake is not read.")
@click.option(
    "--work", type=click.Path(path_type=Path, file_okay=False), help="Folder for the two copies.  [default: temporary]"
)
@AS_ROWS
def compare(hours: int, warm_up: int, anew: bool, work: Path | None, form: str) -> None:
    """Measure what your own tables cost in full and incrementally, on the next hours of your source.

    The lake is copied twice, and stays as it is. On one copy the hours are refreshed in full, on the other
    incrementally, in turns in one Spark session. After each hour the rows of all tables are compared: a difference
    ends the command. In the first hour Spark compiles, and incremental builds the state that it keeps: it does not
    count. Both get cheaper for some hours more; --warm-up 3 measures them as they are in a Spark that stays warm.

    \b
      medallion compare
      medallion compare --anew --hours 5 --format csv
    """
    from medallion.cli.console import progress_bar
    from medallion.pipeline.comparison import Comparison, saving

    if not anew:
        loaded_lake()
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="medallion-compare-", dir=work) as folder, progress_bar() as advance:
        plan = Comparison(settings(), hours, warm_up, anew)
        compared = [*plan.run(Path(folder), advance)]
    names = ("hour", "strategy", "seconds", "refresh_seconds", "cpu_seconds", "tables", "note")
    show_rows(names, _rows(compared), form, notes=("note",))
    if form == "table":
        click.echo("\n".join(_sentences(saving(compared))))


def _rows(compared: "Sequence[ComparedHour]") -> Iterator[Sequence[Any]]:
    for of in compared:
        for strategy, run in of.figures.items():
            notes = ["" if of.counts else "warm-up", run.state_work or ""]
            seconds = (sum(run.seconds.values()), run.refresh_seconds, run.cpu_hours * 3600)
            yield (of.hour, strategy, *(round(s, 2) for s in seconds), run.tables[0], ", ".join(filter(None, notes)))


def _sentences(savings: "Saving") -> Iterator[str]:
    yield (
        f"rows were equal after every hour; incremental took {savings.seconds:.0%} of the time of full above the first"
        f" layer, and {savings.cpu:.0%} of its CPU for the whole hour (medians of {counted(savings.hours, 'hour')})"
    )
    full, incremental = (savings.cpu_hours[strategy] * MONTH_HOURS for strategy in ("full", "incremental"))
    yield f"a month of such hours: {full:.2f} core-hours in full, {incremental:.2f} incrementally, on this machine"
