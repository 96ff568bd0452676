"""The commands ``medallion bench`` and ``medallion feldera-program``."""

from pathlib import Path

import click

from medallion.cli.common import number_list, settings
from medallion.settings import Settings


def _settings() -> Settings:
    """Read the settings of a benchmark: without extra tables, so that what is compared is the same for everybody."""
    return settings().replace(extras=False)


@click.group()
def bench() -> None:
    """Compare strategies on the same hours: whole runs, runs of the DAG, more data, age, a stream."""


@bench.command("run")
@click.option("--strategies", default="naive,full,incremental,duckdb", show_default=True, help="Two of these, or more.")
@click.option("--days", default="90", show_default=True, callback=number_list(int), help="Sizes of history.")
@click.option("--changes", default="1", callback=number_list(float), help="Times an hour's usual changes, each once.")
@click.option(
    "--changes-at", type=click.IntRange(1), metavar="DAYS", help="The history for those.  [default: the first]"
)
@click.option("--hours", default=10, show_default=True, help="Hours that count.")
@click.option("--warm-up", default=3, show_default=True, help="Hours before those, to warm up each driver.")
@click.option("--repeats", default=1, show_default=True, help="Each size of history so many times.")
@click.option("--scale", default=1.0, show_default=True, help="Size of the shop, as for source generate.")
@click.option("--out", default="bench-report", show_default=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--work", type=click.Path(path_type=Path), help="For the lakes.  [default: a temporary one]")
@click.option("--resume", is_flag=True, help="Go on with what OUT has, maybe of fewer sizes and repeats.")
@click.option("--catalogue/--no-catalogue", default=True, help="Customers, products, suppliers change too.")
@click.option("--feldera-url", help="A running Feldera, for the strategy feldera: http://127.0.0.1:8080.")
def run_strategies(
    strategies: str,
    days: list[int],
    changes: list[float],
    changes_at: int | None,
    hours: int,
    warm_up: int,
    repeats: int,
    scale: float,
    out: Path,
    work: Path | None,
    resume: bool,
    catalogue: bool,
    feldera_url: str | None,
) -> None:
    """Compare strategies on the same hours: seconds, CPU, bytes, with proof that the rows are equal.

    Each strategy has a copy of the lake and a driver of its own; they take turns hour by hour, and after
    each hour every table of Silver and Gold is compared. Rows that differ void the run.

    \b
    The report is OUT/report.html; all that was measured is OUT/measures.json, written after each round of drivers.
      medallion bench run --strategies full,incremental --days 7 --hours 2 --scale 0.1    a look, in minutes
      medallion bench run --days 30,90,365 --repeats 3 --changes 0.1,10,100 --work FOLDER  the whole answer, in hours
      medallion bench run --days 30,90,365 --repeats 3 --changes 0.1,10,100 --work FOLDER --resume    and on

    \b
    With --feldera-url a Feldera of yours takes part: its pipeline is replaced by one made from our tables
    (medallion feldera-program shows it), the hours are pushed to it, its views are compared with ours.
    MEDALLION_FELDERA_KEY is its API key, where it asks for one; MEDALLION_FELDERA_REQUEST_BYTES the largest
    request of a proxy in front of it.
      medallion bench run --strategies full,incremental,feldera --feldera-url http://127.0.0.1:8080
    """
    from tempfile import TemporaryDirectory

    from bench import report, runner
    from bench.plan import Plan
    from medallion.cli.console import progress_bar

    plan = Plan(
        strategies.split(","),
        *(days, changes, changes_at, hours, warm_up, repeats, scale),
        feldera=feldera_url,
        catalogue=catalogue,
    )
    with TemporaryDirectory(prefix="bench-") as folder, progress_bar() as advance:
        runner.run(plan, _settings(), work or Path(folder), out, advance, resume)
    report.write(out)
    click.echo(f"rows equal after every hour; the report is {out / 'report.html'}")


@bench.command()
@click.option("--days", default=90, show_default=True, help="Days of history.")
@click.option("--hours", default=3, show_default=True, help="Hours that count, of each strategy.")
@click.option("--warm-up", default=3, show_default=True, help="Hours before those.")
@click.option("--work", type=click.Path(path_type=Path), required=True, help="A folder for the lakes and for Airflow.")
@click.option("--out", default="bench-report", show_default=True, type=click.Path(path_type=Path, file_okay=False))
def dag(days: int, hours: int, warm_up: int, work: Path, out: Path) -> None:
    """Time the hour as a run of the DAG, with a JVM per task and with a warm Spark, from trigger to release."""
    from bench.dag import write_report

    write_report(_settings(), (days, warm_up, hours), work, out)
    click.echo(f"rows equal; the report is {out / 'report.html'}")


@bench.command()
@click.argument("scales", nargs=-1, type=float)
@click.option("--days", default=30, show_default=True, help="Days of history.")
@click.option("--work", type=click.Path(path_type=Path), required=True, help="An empty folder with room for all of it.")
def scale(scales: tuple[float, ...], days: int, work: Path) -> None:
    """Time shops of these sizes (1 and 10 by default); prints a line of JSON for each hour and layer."""
    from bench.scale import measure_sizes

    measure_sizes(_settings(), scales or (1.0, 10.0), days, work)


@bench.command()
@click.option("--hours", default=1000, show_default=True, type=click.IntRange(11), help="Age of the old lake.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Refreshes of each that count.")
def aging(hours: int, rounds: int) -> None:
    """Compare a refresh of a lake after 10 hours of commits with one after 1,000."""
    from bench.aging import compare_ages

    compare_ages(_settings(), hours, rounds)


@bench.command()
@click.option("--hours", default=6, show_default=True, type=click.IntRange(2), help="Hours of clicks.")
@click.option("--every", default=10.0, show_default=True, help="Seconds between two of them.")
def streaming(hours: int, every: float) -> None:
    """Time clicks from their file to Silver by Spark Structured Streaming, exactly once."""
    from bench.streaming import time_stream

    time_stream(_settings(), hours, every)


@click.command("feldera-program")
def feldera_program() -> None:
    """Print all tables and views as one program for Feldera, made from the same declarations."""
    from bench.feldera.program import program

    click.echo(program(), nl=False)
