"""Parts that commands share: argument types, the current lake, and output as a table, JSON or CSV."""

import csv
import json
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import click

from medallion.counts import counted
from medallion.csv_cells import plain_cells
from medallion.errors import UsageError
from medallion.hours import parse_hour
from medallion.model.table import STRATEGIES
from medallion.project import find_project
from medallion.settings import Settings
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from medallion.cli.sheet import Sheet
    from medallion.model.registry import Registry
    from medallion.pipeline.driver import Driver


class Group(click.Group):
    """A group whose help describes each command in a whole sentence, which click would cut to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command's help."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, command.get_short_help_str(limit=1000)) for name, command in commands if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def names_of_tables(_: click.Context, param: click.Parameter, value: str | None) -> str:
    """Return the tables that an option names, empty without the option. Raises UsageError if it names none.

    An unset variable of a shell would otherwise select all of them.
    """
    if value is not None and not value.strip():
        raise UsageError(f"{param.opts[0]} names no table: name some, or leave it out")
    return value or ""


class Hour(click.ParamType[str]):
    """An hour on the command line."""

    name = "hour"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the placeholder that the help shows."""
        return "YYYY-MM-DDTHH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the hour unchanged. Raises UsageError if it is not an hour."""
        parse_hour(value)
        return str(value)


class ReleaseNumber(click.ParamType[int]):
    """A release on the command line: its number, or a name under which it is held."""

    name = "release"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of the release. Raises UsageError for a name that holds none."""
        from medallion.ops.holds import require_hold

        try:
            return int(value)
        except ValueError:
            return require_hold(current_lake(), str(value)).release_id


HOUR = Hour()
RELEASE = ReleaseNumber()
OF_RELEASE = click.option(
    "--release", "number", type=RELEASE, help="Read this release: a number, or a name.  [default: the newest]"
)
STRATEGY = click.Choice(STRATEGIES)
STEP_NAMES = ("land", "apply", "refresh", "check", "publish", "validate")  # here, because step modules import engines


def listing(*forms: str) -> Callable[[Any], Any]:
    """Return a decorator that adds the options of a list: --format with the choices ``forms``, and --wide."""

    def decorate(command: Any) -> Any:
        wide = click.option(
            "--wide",
            is_flag=True,
            expose_value=False,
            callback=_remember_wide,
            help="Show every column, however wide the terminal is.",
        )
        form = click.option("--format", "form", type=click.Choice(forms), default="table", show_default=True)
        return form(wide(command))

    return decorate


AS_ROWS = listing("table", "json", "csv")
AS_OBJECT = listing("table", "json")
_WIDE = "medallion.wide"


def _remember_wide(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    context.meta[_WIDE] = value


def number_list(kind: type) -> Callable[..., Any]:
    """Return a callback for an option that takes numbers, separated by commas."""

    def read(_context: click.Context, _parameter: click.Parameter, value: str) -> list[Any]:
        try:
            return [kind(part) for part in value.split(",")]
        except ValueError:
            raise click.BadParameter(f"{value!r} is not a list of numbers such as 30,90") from None

    return read


class NumberFrom(click.FloatRange):
    """A finite number that is not less than a bound. click alone would accept NaN and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Fails for a value that is not a finite number."""
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def settings() -> Settings:
    """Return the settings of this command, read from the project and the environment on first use."""
    root = click.get_current_context().find_root()
    if root.obj is None:
        root.obj = find_project(or_checkout=False).settings()
    return cast(Settings, root.obj)


def current_lake() -> Lake:
    """Return the lake that the settings name."""
    return Lake.of(settings())


def loaded_lake() -> Lake:
    """Return the lake that the settings name. Raises UsageError if it has not been loaded."""
    from medallion.ops import releases

    lake = current_lake()
    if releases.latest(lake) is None and all(lake.version(feed.name) is None for feed in current_tables().feeds):
        raise UsageError(
            f"lake {lake.root} does not exist: run medallion load to create it, or set MEDALLION_LAKE to another"
        )
    return lake


def current_tables() -> "Registry":
    """Return the tables of the lake that the settings name."""
    from medallion.ops.lake_tables import tables_of

    return tables_of(current_lake(), settings().extras)


@contextmanager
def open_driver() -> Iterator["Driver"]:
    """Yield the driver of one command. A Spark session that the command started ends with it."""
    from medallion.pipeline import driver

    with driver.open_driver(settings(), report=click.echo) as opened:
        yield opened


def new_run_id(command: str) -> str:
    """Return the id of a new run of a command. Ids are unique, and those of a command sort by time."""
    return f"{command}__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}_{uuid4().hex[:6]}"


def show_rows(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    form: str,
    *,
    notes: Collection[str] = (),
    optional: Sequence[str] = (),
) -> None:
    """Print rows as a table for people, as CSV (streamed) or as JSON.

    Args:
        names: The columns.
        rows: The values of each row, in the order of ``names``.
        form: ``table``, ``csv`` or ``json``.
        notes: Columns whose values may be long; in a table they get lines of their own.
        optional: Columns that a narrow table leaves out, in this order.
    """
    if form == "json":
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(plain_cells(names))
        writer.writerows(map(plain_cells, rows))
    else:
        from medallion.cli.sheet import Column, Sheet

        ranks = {name: rank for rank, name in enumerate(reversed(optional), start=1)}
        columns = [Column(name, ranks.get(name, 0), name in notes) for name in names]
        # Identifiers get no thousands separator: 26320 can be pasted into a query, 26,320 cannot.
        ids = {place for place, name in enumerate(names) if name.endswith(("_id", "_number"))}
        shown = [[str(v) if place in ids and v is not None else v for place, v in enumerate(row)] for row in rows]
        print_sheet(Sheet(columns, shown, footer=[counted(len(shown), "row")]))


def print_json(content: Any) -> None:
    """Print JSON, with decimals and timestamps as strings so that none loses a digit."""
    click.echo(json.dumps(content, indent=1, default=str))


def print_sheet(sheet: "Sheet") -> None:
    """Print a sheet as wide as the terminal; in full with --wide, or if the width of the output is unknown."""
    from medallion.cli.sheet import render

    for line in render(sheet, _output_width()):
        click.echo(line)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of text, broken between words to the width of the terminal; whole with --wide."""
    from medallion.cli.sheet import wrap_line

    width = _output_width()
    for line in lines:
        for part in wrap_line(line, width):
            click.echo(part)


def _output_width() -> int | None:
    context = click.get_current_context(silent=True)
    is_wide = context is not None and context.meta.get(_WIDE, False)
    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return shutil.get_terminal_size().columns if is_known and not is_wide else None


def print_rich(renderable: Any) -> None:
    """Print a Rich tree as wide as the terminal."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    console.print(renderable)
