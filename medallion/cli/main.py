"""The ``medallion`` command. Exit code 0: done; 1: failed, saying where; 2: wrong use, saying what is allowed."""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from medallion.errors import MedallionError, UsageError
from medallion.hours import hour_range, parse_hour
from medallion.ops import releases
from medallion.settings import Settings
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from medallion.model.table import Layer
    from medallion.pipeline.driver import Driver

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Hour(click.ParamType[str]):
    """An hour on the command line."""

    name = "hour"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """How help shows it."""
        return "YYYY-MM-DDTHH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The hour as it was given, if it is one."""
        parse_hour(value)
        return str(value)


HOUR = Hour()


def _format(*forms: str) -> Callable[[Any], Any]:
    return click.option("--format", "form", type=click.Choice(forms), default="table", show_default=True)


AS_ROWS = _format("table", "json", "csv")


@click.group(context_settings=CONTEXT)
def cli() -> None:
    """Refresh an e-commerce lakehouse hour by hour: Bronze, Silver and Gold on Spark and Delta Lake.

    \b
    A first run, from nothing:
      medallion source generate data/source          a demo shop: 7 days of history, 24 hours of changes
      medallion load                                 its snapshot into the lake
      medallion refresh --hour 2025-11-30T00         the first hour of changes
      medallion status                               what the lake holds now
      medallion events                               where the seconds went

    \b
    Settings come from the environment:
      MEDALLION_LAKE            the lake, a path or s3a://bucket/prefix      (./lake)
      MEDALLION_SOURCE          the source, a path or s3://bucket/prefix     (./data/source)
      MEDALLION_SPARK_MASTER    where Spark runs                             (local[*])
      MEDALLION_SPARK_CONNECT   a warm Spark to attach to, sc://localhost:15002  (one per process)
      MEDALLION_DRIVER_MEMORY   heap of the driver                           (4g)
      MEDALLION_MAX_BAD_LINES   share of a file's lines that may be bad      (0.01)
      MEDALLION_LOCK_WAIT       seconds to wait for another writer           (600)
      MEDALLION_S3_ENDPOINT, MEDALLION_S3_REGION, MEDALLION_S3_ANONYMOUS, MEDALLION_S3_TIMEOUT     for buckets

    Hours are written YYYY-MM-DDTHH and are UTC.
    """


@cli.group()
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


@cli.command()
def load() -> None:
    """Load the snapshot into Bronze, compute Silver and Gold for the first time, and publish them."""
    from medallion.cli.console import progress_bar
    from medallion.pipeline import operations
    from medallion.pipeline.run import Run

    with _driver() as driver, progress_bar(driver) as advance:
        operations.load(Run(driver.settings, None, _run_id("load")), driver, advance)


@cli.command()
@click.option("--hour", type=HOUR, help="The hour to refresh. Without it: the next in line.")
@click.option("--from-hour", type=HOUR, help="With --to-hour: refresh a range, in order, both ends included.")
@click.option("--to-hour", type=HOUR, help="The last hour of the range.")
@click.option("--restate", type=HOUR, help="Go back to before this hour and apply it and all later ones anew.")
@click.option(
    "--strategy",
    default="full",
    show_default=True,
    help="How Silver and Gold are refreshed: full recomputes them, incremental touches what changed.",
)
def refresh(hour: str | None, from_hour: str | None, to_hour: str | None, restate: str | None, strategy: str) -> None:
    """Land, apply, refresh, check and publish an hour of changes, in one Spark session and without Airflow.

    \b
    Hours apply in order, once. An hour that is published already is skipped; after a failure, run the
    same command again and it goes on from where it stopped.

    \b
      medallion refresh --hour 2025-11-30T00
      medallion refresh --from-hour 2025-11-30T00 --to-hour 2025-11-30T23

    Where the source has corrected or late files of an hour that was passed already, --restate takes
    them in, and says which rows changed.

    \b
      medallion refresh --restate 2025-11-30T05
    """
    from medallion.cli.console import progress_bar
    from medallion.pipeline import operations
    from medallion.pipeline.run import Run

    if restate and (hour or from_hour or to_hour):
        raise UsageError("give --restate alone: it goes on to the last hour that was applied")
    if (from_hour is None) != (to_hour is None) or (hour and from_hour):
        raise UsageError("give --hour, or --from-hour and --to-hour together, or none of them for the next in line")
    hours: list[str | None] = list(hour_range(from_hour, to_hour)) if from_hour and to_hour else [hour]
    with _driver() as driver:
        if restate:
            operations.restate(Run(driver.settings, restate, _run_id("restate"), strategy=strategy), driver)
            return
        runs = [Run(driver.settings, one, _run_id("refresh"), strategy=strategy) for one in hours]
        with progress_bar(report_to=driver) as advance:
            for number, run in enumerate(runs):
                advance(run.hour or "next hour", number, len(runs))
                outcome = operations.refresh_hour(run, driver)
                advance(outcome.hour or "", number + 1, len(runs))


@cli.command()
@click.option("--settle", default=10.0, show_default=True, type=click.FloatRange(0), help="Seconds without a change.")
@click.option("--every", default=0.0, show_default=True, type=click.FloatRange(0), help="Least seconds between hours.")
@click.option("--until", type=HOUR, help="End after this hour.  [default: go on until interrupted]")
@click.option("--strategy", default="incremental", show_default=True, help="As for medallion refresh.")
def follow(settle: float, every: float, until: str | None, strategy: str) -> None:
    """Refresh each hour as its files arrive, in one process whose session stays warm.

    An hour is taken once its files have not changed for --settle seconds; a file that comes later still is taken
    in by refresh --restate. What fails ends it: nothing passes over a red check.

    \b
    Each hour is a line, in seconds from when its files had last changed:
      2025-11-30T00  landed 10.2  bronze 13.0  silver 16.1  gold 18.4  published 21.9
    """
    from medallion.pipeline import follow as following

    pace = following.Pace(settle, every, poll=max(0.1, min(1.0, settle / 4)))
    with _driver() as driver:
        driver.report = lambda _: None
        click.echo(f"following {driver.settings.source}; the session starts", err=True)
        for done in following.follow(driver, strategy, pace, lambda: _run_id("follow"), until):
            hops = "".join(f"  {hop} {seconds:.1f}" for hop, seconds in done.latency.items())
            click.echo(f"{done.hour}{hops}" if hops else f"{done.hour}  {done.outcome.message}")


@cli.command()
@click.argument("name", metavar="NAME")
@click.option("--hour", type=HOUR, help="The hour; land alone can find the next in line by itself.")
@click.option("--layer", help="For refresh: silver, gold or platinum. For check: bronze too.")
@click.option("--strategy", default="full", show_default=True, help="As for medallion refresh.")
@click.option("--run-id", help="Names the run in the event log and in reports.  [default: made up]")
@click.option("--attempt", default=1, show_default=True, help="Counts the tries of one run.")
def step(name: str, hour: str | None, layer: "Layer | None", strategy: str, run_id: str | None, attempt: int) -> None:
    """Run one step of an hour, as a DAG task does: land, apply, refresh, check, publish or validate.

    \b
    In order: land; apply; check --layer bronze; refresh and check --layer silver; refresh and
    check --layer gold; publish; validate. Every step can be run again.
    """
    from medallion.pipeline.run import Run
    from medallion.pipeline.steps import run_step

    with _driver() as driver:
        run = Run(driver.settings, hour, run_id or _run_id(name), attempt, strategy)
        run_step(name, run, layer, driver)


@cli.command()
@click.option("--keep-hours", default=24, show_default=True, type=click.IntRange(0), help="Versions and releases.")
@click.option(
    "--keep-days", default=90, show_default=True, type=click.IntRange(1), help="Events, reports, landed files."
)
def maintain(keep_hours: int, keep_days: int) -> None:
    """Merge small files, and remove old versions, events, reports and what crashes left behind.

    Whatever a kept release names stays readable, and the newest two releases are always kept. An hour
    can be restated, and a release rolled back to, as far back as releases are kept.
    """
    from medallion.pipeline.maintain import Retention
    from medallion.pipeline.maintain import maintain as work
    from medallion.pipeline.run import Run

    with _driver() as driver:
        work(Run(driver.settings, None, _run_id("maintain")), driver, Retention(keep_hours, keep_days))


@cli.command()
@_format("table", "json")
@click.option("--check", is_flag=True, help="For a monitor: exit code 1 when something is stale or red.")
@click.option("--stale-hours", default=2.0, show_default=True, help="How long ago a table's last hour may have ended.")
def status(form: str, check: bool, stale_hours: float) -> None:
    """Show each table's rows, version, last hour, freshness and last check, and the newest release."""
    from medallion.inspect.status import lake_status, status_table

    found = lake_status(Settings.from_environment(), stale_hours)
    if form == "json":
        click.echo(json.dumps(found, indent=1, default=str))
    else:
        _print(status_table(found))
    if check and found["problems"]:
        first, *more = found["problems"]
        raise MedallionError(first + (f"; and {len(more)} more" if more else ""))


@cli.command()
@click.option("--tree", "root", metavar="TABLE", help="What this table is made from, down to Bronze.")
@_format("table", "json")
def tables(root: str | None, form: str) -> None:
    """Show how each table is kept: what it reads, how it is refreshed, how stale, how often failed, how long it takes.

    \b
      medallion tables
      medallion tables --tree gold_supplier_performance
    """
    from medallion.inspect import status as found
    from medallion.model.registry import registry

    if root is not None:
        _print(found.tree(registry(), registry()[root].name))
        return
    told = found.lake_status(Settings.from_environment())
    if form == "json":
        click.echo(json.dumps(told["tables"], indent=1, default=str))
    else:
        _print(found.tables_table(told))


@cli.command()
@click.option("--hour", type=HOUR, help="Only this hour.")
@click.option("--run", "run_id", help="Only this run.")
@click.option("--strategy", help="Only this strategy.")
@click.option("--last", default=0, help="Only the newest N rows.")
@AS_ROWS
def events(hour: str | None, run_id: str | None, strategy: str | None, last: int, form: str) -> None:
    """Show where the seconds went: one row per step and table, oldest first.

    \b
      medallion events --hour 2025-11-30T00
      medallion events --format csv > timings.csv
    """
    from medallion.inspect.status import events_table
    from medallion.ops import event_log as log

    rows = log.read(_lake(), hour=hour, run_id=run_id, strategy=strategy)[-last:]
    if form == "json":
        click.echo(json.dumps(rows, indent=1, default=str))
    elif form == "csv":
        writer = csv.DictWriter(sys.stdout, fieldnames=list(log.COLUMNS))
        writer.writeheader()
        writer.writerows(row | {"details": json.dumps(row["details"])} for row in rows)
    elif rows:
        _print(events_table(rows))
    else:
        click.echo("no events: nothing has run, or nothing matches")


@cli.command()
@click.option("--table", help="Only those of this table.")
@click.option("--broken", is_flag=True, help="Only those that some row has broken in one of these checks.")
@click.option("--last", default=8, show_default=True, type=click.IntRange(1), help="So many checks.")
@AS_ROWS
def expectations(table: str | None, broken: bool, last: int, form: str) -> None:
    """Show how each expectation fared: rows that kept and broke it in the newest check, and the trend.

    The trend is the rows that broke it, check by check, the newest last.

    \b
      medallion expectations --broken
      medallion expectations --table silver_orders_enriched --last 24 --format csv
    """
    from medallion.inspect.check_history import trends
    from medallion.model.registry import registry

    if table is not None:
        table = registry()[table].name
    names = ["table", "expectation", "severity", "hour", "status", "passed", "failed", "trend"]
    found = trends(_lake(), table, last)
    rows = []
    for one in found:
        if not broken or any(check.failed != 0 for check in one.checks):
            now = one.last
            told = (now.hour, now.status, now.passed, now.failed)
            rows.append((one.table, one.expectation, one.severity, *told, one.counts))
    _show(names, rows, form)


@cli.command()
@click.argument("sql", metavar="SELECT")
@click.option("--release", "number", type=int, help="Read this release.  [default: the newest]")
@AS_ROWS
def query(sql: str, number: int | None, form: str) -> None:
    """Run one SELECT over a published release, whole and without a JVM, in the SQL of DuckDB.

    \b
      medallion query "SELECT * FROM gold_order_status_summary"
      medallion query --format csv "SELECT * FROM gold_weekly_revenue_trend" > weeks.csv
    """
    from medallion.inspect.query import open_release, select

    lake = _lake()
    with open_release(lake, releases.find(lake, number)) as connection:
        cursor = select(connection, sql)
        names = [name for name, *_ in cursor.description or ()]
        rows = iter(cursor.fetchone, None)
        _show(names, rows, form)


@cli.group()
def release() -> None:
    """What readers see: list, compare and roll back published releases."""


@release.command("list")
@AS_ROWS
def list_releases(form: str) -> None:
    """The releases that are kept, newest last."""

    names = ["release", "hour", "published_at", "strategy", "run_id"]
    kept = releases.published(_lake())
    _show(names, ((r.release_id, r.hour, r.published_at, r.strategy, r.run_id) for r in kept), form)


@release.command("show")
@click.argument("number", metavar="[RELEASE]", type=int, required=False)
@AS_ROWS
def show_release(number: int | None, form: str) -> None:
    """The tables of a release, the newest by default: version, rows and files of each."""

    lake = _lake()
    found = releases.find(lake, number)
    states = ((table, lake.state(table, version)) for table, version in found.versions.items())
    rows = ((table, s.version, s.rows, s.files, s.bytes, lake.path(table)) for table, s in states if s)
    _show(["table", "version", "rows", "files", "bytes", "path"], rows, form)


@release.command("diff")
@click.argument("old", metavar="A", type=int)
@click.argument("new", metavar="B", type=int)
@click.option("--table", help="Show the differing rows of this table, - as in A and + as in B.")
@click.option("--limit", default=20, show_default=True, help="With --table: at most so many rows.")
@AS_ROWS
def diff_releases(old: int, new: int, table: str | None, limit: int, form: str) -> None:
    """Rows that were added, removed and changed from release A to release B, per table."""
    from medallion.inspect.query import diff, diff_rows
    from medallion.model.registry import registry

    lake = _lake()
    a, b = releases.find(lake, old), releases.find(lake, new)
    if table is not None:
        _show(*diff_rows(lake, a, b, registry()[table], limit), form)
    else:
        found = diff(lake, a, b, registry())
        _show(["table", "added", "removed", "changed"], ((d.table, d.added, d.removed, d.changed) for d in found), form)


@release.command("rollback")
@click.argument("number", metavar="[RELEASE]", type=int, required=False)
def rollback_release(number: int | None) -> None:
    """Let readers see an earlier release again; without a number, the one before the newest.

    Nothing is recomputed and Bronze keeps its hours: this publishes the old versions once more, as a
    release of its own. The next refresh publishes what is new again.
    """
    from medallion.pipeline import operations
    from medallion.pipeline.run import Run

    with _driver() as driver:
        operations.rollback(Run(driver.settings, None, _run_id("rollback")), driver, number)


@cli.group()
def quarantine() -> None:
    """Change lines that could not be applied: list, show, and replay them once they fit."""


@quarantine.command("list")
@AS_ROWS
def list_quarantine(form: str) -> None:
    """How many lines of which feed and hour are kept back, and why."""
    from collections import Counter

    from medallion.ingest.quarantine import rejected
    from medallion.model.registry import registry

    lake = _lake()
    found = Counter((feed.topic, row.hour, row.reason) for feed in registry().feeds for row in rejected(lake, feed))
    _show(["feed", "hour", "reason", "lines"], [(*key, count) for key, count in sorted(found.items())], form)


@quarantine.command("show")
@click.argument("feed")
@click.option("--hour", type=HOUR, help="Only this hour.")
@AS_ROWS
def show_quarantine(feed: str, hour: str | None, form: str) -> None:
    """The lines of FEED as they came, with file, line number and reason."""
    from medallion.ingest.quarantine import feed_of, rejected
    from medallion.model.registry import registry

    rows = rejected(_lake(), feed_of(registry().feeds, feed), hour)
    _show(["hour", "file", "line_number", "reason", "raw"], [tuple(vars(row).values())[:5] for row in rows], form)


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
    with _driver() as driver:
        operations.replay(Run(driver.settings, hour, _run_id("replay")), driver, feed, lines)


def _numbers(kind: type) -> Callable[..., Any]:
    def read(_context: click.Context, _parameter: click.Parameter, value: str) -> list[Any]:
        try:
            return [kind(part) for part in value.split(",")]
        except ValueError:
            raise click.BadParameter(f"{value!r} is no list of numbers, such as 30,90") from None

    return read


@cli.command()
@click.option("--strategies", default="naive,full,incremental,duckdb", show_default=True, help="Two of these, or more.")
@click.option("--days", default="90", show_default=True, callback=_numbers(int), help="Sizes of history.")
@click.option("--changes", default="1", callback=_numbers(float), help="Times an hour's usual changes, each once.")
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
def bench(
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
      medallion bench --strategies full,incremental --days 7 --hours 2 --scale 0.1    a look, in minutes
      medallion bench --days 30,90,365 --repeats 3 --changes 0.1,10,100 --work FOLDER  the whole answer, in hours
      medallion bench --days 30,90,365 --repeats 3 --changes 0.1,10,100 --work FOLDER --resume    and on

    \b
    With --feldera-url a Feldera of yours takes part: its pipeline is replaced by one made from our tables
    (medallion feldera-program shows it), the hours are pushed to it, its views are compared with ours.
    MEDALLION_FELDERA_KEY is its API key, where it asks for one.
      medallion bench --strategies full,incremental,feldera --feldera-url http://127.0.0.1:8080
    """
    from tempfile import TemporaryDirectory

    os.environ["MEDALLION_EXTRAS"] = "false"  # what is compared is the same for everybody

    from bench import contest, report
    from medallion.cli.console import progress_bar

    plan = contest.Plan(
        strategies.split(","),
        *(days, changes, changes_at, hours, warm_up, repeats, scale),
        feldera=feldera_url,
        catalogue=catalogue,
    )
    with TemporaryDirectory(prefix="bench-") as folder, progress_bar() as advance:
        contest.run(plan, Settings.from_environment(), work or Path(folder), out, advance, resume)
    report.write(out)
    click.echo(f"rows equal after every hour; the report is {out / 'report.html'}")


@cli.command("spark-server")
def spark_server() -> None:
    """Keep a Spark warm for steps to attach to, until interrupted; started again when it dies.

    \b
    In this shell and in those where steps run:
      export MEDALLION_SPARK_CONNECT=sc://localhost:15002
      export SPARK_CONNECT_AUTHENTICATE_TOKEN=...            a secret of your own


    It takes MEDALLION_SPARK_MASTER and MEDALLION_DRIVER_MEMORY, and listens on this machine alone.
    """
    from medallion.spark.server import serve

    serve(Settings.from_environment(), report=click.echo)


@cli.command("feldera-program")
def feldera_program() -> None:
    """Print all tables and views as one program for Feldera, made from the same declarations."""
    from bench.feldera import program

    click.echo(program(), nl=False)


def main() -> None:
    """Run the command; errors meant for people become one line on standard error."""
    sys.exit(run(cli))


def run(command: Callable[..., Any]) -> int:
    """Run a click command with this process's arguments and return its exit code."""
    try:
        command(standalone_mode=False)
    except click.exceptions.Exit as done:
        return done.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted: run the same command again to go on", 1)
    except click.ClickException as error:
        return _fail(f"{error.format_message()} (medallion --help tells more)", 2)
    except MedallionError as error:
        return _fail(str(error), error.exit_code)
    return 0


def _lake() -> Lake:
    return Lake(Settings.from_environment().lake)


@contextmanager
def _driver() -> Iterator["Driver"]:
    """What one command works with; its Spark session, if it started one, ends with it."""
    from medallion.pipeline.driver import Driver

    driver = Driver(Settings.from_environment(), report=click.echo)
    try:
        yield driver
    finally:
        driver.stop()


def _fail(message: str, code: int) -> int:
    click.echo(f"medallion: {' '.join(message.split())}", err=True)
    return code


def _run_id(command: str) -> str:
    return f"{command}__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}_{uuid4().hex[:6]}"


def _show(names: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> None:
    """Rows as a table for people, as CSV (streamed) or as JSON."""
    if form == "json":
        click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1, default=str))
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        writer.writerows(rows)
    else:
        from medallion.inspect.status import rows_table

        _print(rows_table(names, rows))


def _print(renderable: Any) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    console.print(renderable)
