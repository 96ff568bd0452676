"""The commands ``medallion bench`` and ``medallion feldera-program``."""

from pathlib import Path

import click

from medallion.cli.common import Group, number_list, settings
from medallion.settings import Settings

SOURCE_FORMATS = ("insert_delete", "debezium", "dms")


def _settings() -> Settings:
    """Read the settings of a benchmark: without extra tables, so that what is compared is the same for everybody."""
    return settings().replace(extras=False)


@click.group(cls=Group)
def bench() -> None:
    """Measure strategies: the same hours, DAG runs, more data, an old lake, a stream."""


@bench.command("run")
@click.option(
    "--strategies", default="naive,full,incremental,duckdb", show_default=True, help="Strategies, at least two."
)
@click.option(
    "--days", default="90", show_default=True, callback=number_list(int), help="Days of history, comma-separated."
)
@click.option(
    "--changes", default="1", callback=number_list(float), help="Multiples of an hour's usual changes; each runs once."
)
@click.option(
    "--changes-at", type=click.IntRange(1), metavar="DAYS", help="Days of history for --changes.  [default: the first]"
)
@click.option("--hours", default=10, show_default=True, help="Hours to measure.")
@click.option("--warm-up", default=3, show_default=True, help="Hours to warm up each driver, not measured.")
@click.option("--repeats", default=1, show_default=True, help="Repetitions of each history.")
@click.option("--scale", default=1.0, show_default=True, help="Size of the shop, as for source generate.")
@click.option("--out", default="bench-report", show_default=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--work", type=click.Path(path_type=Path), help="Folder for the lakes.  [default: temporary]")
@click.option("--resume", is_flag=True, help="Continue OUT: measure only what is missing.")
@click.option("--catalogue/--no-catalogue", default=True, help="Whether customers, products and suppliers change too.")
@click.option("--feldera-url", help="Feldera service for the strategy feldera.")
@click.option(
    "--source-format",
    type=click.Choice(SOURCE_FORMATS),
    default=SOURCE_FORMATS[0],
    help="How the changes are delivered; says what decoding them costs.",
)
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
    source_format: str,
) -> None:
    """Compare strategies on the same hours by seconds, CPU and bytes, and check that their rows are equal.

    Each strategy has its own copy of the lake and its own driver; they take turns hour by hour. After each hour
    all Silver and Gold tables are compared, and a difference fails the run.

    The report is OUT/report.html; the raw rows are in OUT/measures.parquet, written after each round. The first
    of these takes minutes, the second hours; with --resume it continues.

    \b
      medallion bench run --strategies full,incremental --days 7 --hours 2
      medallion bench run --days 30,90,365 --changes 0.1,10,100 --work FOLDER

    With --feldera-url, a running Feldera takes part; its pipeline is replaced by the one that
    medallion feldera-program prints. MEDALLION_FELDERA_KEY is its API key; MEDALLION_FELDERA_REQUEST_BYTES
    limits requests for a proxy.

    \b
      medallion bench run --strategies full,feldera --feldera-url URL
    """
    from tempfile import TemporaryDirectory

    from bench import report, runner, source_formats
    from bench.plan import Plan
    from medallion.cli.console import progress_bar

    plan = Plan(
        strategies.split(","),
        *(days, changes, changes_at, hours, warm_up, repeats, scale),
        feldera=feldera_url,
        catalogue=catalogue,
        source_format=source_format,
    )
    with (
        TemporaryDirectory(prefix="bench-") as folder,
        source_formats.project_in_format(source_format),
        progress_bar() as advance,
    ):
        place = work or Path(folder)
        runner.run(plan, _settings(), place, out, advance, resume)
        if source_format != SOURCE_FORMATS[0]:
            costs = source_formats.decoding_costs(place / f"source-{days[0]}", source_format, plan.all_hours)
            click.echo(source_formats.describe_costs(costs))
    report.write(out)
    click.echo(f"rows equal after every hour; the report is {out / 'report.html'}")


@bench.command()
@click.option("--days", default=90, show_default=True, help="Days of history.")
@click.option("--hours", default=3, show_default=True, help="Hours to measure, of each strategy.")
@click.option("--warm-up", default=3, show_default=True, help="Hours to warm up, not measured.")
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Folder for the lakes and Airflow.")
@click.option("--out", default="bench-report", show_default=True, type=click.Path(path_type=Path, file_okay=False))
def dag(days: int, hours: int, warm_up: int, work: Path, out: Path) -> None:
    """Time DAG runs from trigger to release, with a JVM per task and with warm Spark."""
    from bench.dag import write_report

    write_report(_settings(), (days, warm_up, hours), work, out)
    click.echo(f"rows equal; the report is {out / 'report.html'}")


@bench.command()
@click.argument("scales", nargs=-1, type=float)
@click.option("--days", default=30, show_default=True, help="Days of history.")
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Empty folder for sources and lakes.")
def scale(scales: tuple[float, ...], days: int, work: Path) -> None:
    """Time shops of these SCALES (1 and 10 by default); print a line of JSON per hour and layer."""
    from bench.scale import measure_sizes

    measure_sizes(_settings(), scales or (1.0, 10.0), days, work)


@bench.command()
@click.option("--hours", default=168, show_default=True, type=click.IntRange(11), help="Age of the old lake, in hours.")
@click.option("--rounds", default=12, show_default=True, type=click.IntRange(1), help="Refreshes of each to measure.")
def aging(hours: int, rounds: int) -> None:
    """Compare incremental hours of a lake that is 10 hours old with those of one that is older."""
    from bench.aging import compare_ages

    compare_ages(_settings(), hours, rounds)


@bench.command()
@click.option("--hours", default=6, show_default=True, type=click.IntRange(2), help="Hours of clicks.")
@click.option("--every", default=10.0, show_default=True, help="Seconds between files.")
def streaming(hours: int, every: float) -> None:
    """Time clicks from file to Silver with Spark Structured Streaming, exactly once."""
    from bench.streaming import time_stream

    time_stream(_settings(), hours, every)


@click.command("feldera-program")
def feldera_program() -> None:
    """Print all tables of this project as one Feldera program, generated from the same declarations."""
    from bench.feldera.program import program
    from medallion.project import find_project

    click.echo(program(find_project(or_checkout=False).registry()), nl=False)
