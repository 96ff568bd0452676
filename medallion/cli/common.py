"""What the groups of commands share: types of arguments, output as table, JSON or CSV."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from medallion.hours import parse_hour
from medallion.settings import Settings
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from medallion.model.registry import Registry
    from medallion.pipeline.driver import Driver


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


def format_option(*forms: str) -> Callable[[Any], Any]:
    """The option --format with these choices; the first is not the default, `table` is."""
    return click.option("--format", "form", type=click.Choice(forms), default="table", show_default=True)


AS_ROWS = format_option("table", "json", "csv")


def number_list(kind: type) -> Callable[..., Any]:
    """A callback for an option that takes numbers, separated by commas."""

    def read(_context: click.Context, _parameter: click.Parameter, value: str) -> list[Any]:
        try:
            return [kind(part) for part in value.split(",")]
        except ValueError:
            raise click.BadParameter(f"{value!r} is no list of numbers, such as 30,90") from None

    return read


def current_lake() -> Lake:
    """The lake that the environment names."""
    return Lake(Settings.from_environment().lake)


def current_tables() -> "Registry":
    """The tables of the lake that the environment names."""
    from medallion.ops.lake_tables import tables_of

    settings = Settings.from_environment()
    return tables_of(Lake(settings.lake), settings.extras)


@contextmanager
def open_driver() -> Iterator["Driver"]:
    """Yield what one command works with; its Spark session, if it started one, ends with it."""
    from medallion.pipeline.driver import Driver

    driver = Driver(Settings.from_environment(), report=click.echo)
    try:
        yield driver
    finally:
        driver.stop()


def new_run_id(command: str) -> str:
    """Name a run of a command: unique, and sorted by time."""
    return f"{command}__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}_{uuid4().hex[:6]}"


def show_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> None:
    """Print rows as a table for people, as CSV (streamed) or as JSON."""
    if form == "json":
        click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=1, default=str))
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        writer.writerows(rows)
    else:
        from medallion.inspect.status import rows_table

        print_rich(rows_table(names, rows))


def print_rich(renderable: Any) -> None:
    """Print a table or tree of Rich, as wide as the terminal."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    console.print(renderable)
