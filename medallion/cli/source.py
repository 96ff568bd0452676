"""Commands for the source, including those of the project's own generator."""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import click

from medallion.cli.common import HOUR, Group
from medallion.counts import counted
from medallion.errors import UsageError, one_line
from medallion.model.table import Feed
from medallion.project import find_project

if TYPE_CHECKING:
    from medallion.inspect.source_check import SourceCheck


class SourceCommands(Group):
    """The commands for a source, and those of the project's generator if medallion.toml names one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted([*super().list_commands(ctx), *_of_project()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; None if there is none."""
        return super().get_command(ctx, cmd_name) or _of_project().get(cmd_name)


@click.group(cls=SourceCommands)
def source() -> None:
    """Try a source before anything is written, and make one where the project has a generator of its own."""


@source.command("check")
@click.option("--hour", type=HOUR, help="The hour to decode. Without it: the newest whole one of each feed.")
def check(hour: str | None) -> None:
    """Show what the source has for each feed, and decode one hour; nothing is written to the lake.

    Prints where its files are, which hours are whole, the first change decoded, what would be rejected and why, and
    whether its snapshot fits. Exit code 1 where a snapshot or an hour would be refused.
    """
    from medallion.ingest.source import open_source
    from medallion.inspect.source_check import check_source

    project = find_project(or_checkout=False)
    settings = project.settings()
    feeds = project.registry(extras=bool(settings.extras)).feeds
    report = check_source(open_source(settings), feeds, hour, settings.max_bad_lines)
    for line in _lines_of(report):
        click.echo(line)
    if not report.is_fine:
        raise click.exceptions.Exit(1)


def _lines_of(report: "SourceCheck") -> Iterator[str]:
    """Yield the lines of the report of a source check."""
    span = counted(len(report.whole), "whole hour") + (
        f", {report.whole[0]} to {report.whole[-1]}" if report.whole else ""
    )
    yield f"{report.root}: {span}"
    yield from (f"  waiting {hour}: {why}" for hour, why in report.waiting.items())
    yield from (f"  refused {sentence}" for sentence in report.refused)
    yield from (f"  {sentence}" for sentence in report.ignored)
    for feed in report.feeds:
        yield f"{feed.feed}: {feed.format}, {feed.place}, {counted(feed.hours, 'hour')}"
        if feed.snapshot:
            yield f"  snapshot: {feed.snapshot}"
        if feed.hour:
            counts = (
                f"{counted(feed.lines, 'line')}, {counted(feed.changes, 'change')}, {feed.rejected_lines:,} rejected"
            )
            yield f"  {feed.hour}: {counted(feed.files, 'file')}, {counts}"
        if feed.first:
            values = ", ".join(f"{name} {value}".strip() for name, value in feed.first.items())
            yield f"  first change: {one_line(values)}"
        yield from (f"  rejected {place}: {reason}" for place, reason in feed.rejected)
        yield from (f"  warning: {note}" for note in feed.notes)
        yield from (f"  refused: {problem}" for problem in feed.problems)


@source.command("infer")
@click.argument("feed")
def infer(feed: str) -> None:
    """Print a declaration of FEED, a feed that the project does not have yet, from its newest change files.

    \b
      medallion source infer customers > spark_jobs/bronze/customers.py

    Keys are the columns that deletions name. Types and NOT NULL follow from the values. Comments mark guesses.
    """
    from medallion.ingest.source import open_source
    from medallion.inspect.source_inference import infer_declaration

    project = find_project(or_checkout=False)
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,79}", feed):
        raise UsageError(f"a feed is called by small letters, digits and _, not {feed[:40]!r}")
    declared = {known.topic: known for known in project.registry(extras=True).feeds}
    layer = project.layers[0]
    unknown = Feed(keys=(), schema="", name=f"{layer}_{feed}", layer=layer, delivery=project.deliveries.every)
    known = declared.get(feed, unknown)
    click.echo(infer_declaration(open_source(project.settings()), known))


def _of_project() -> dict[str, click.Command]:
    try:
        project = find_project(or_checkout=False)
    except UsageError:  # the help also works outside a project
        return {}
    if project.generator is None:
        return {}
    if str(project.root) not in sys.path:
        sys.path.insert(0, str(project.root))
    try:
        commands = import_module(f"{project.generator}.commands").COMMANDS
        return {command.name: command for command in commands}
    except Exception as error:
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise UsageError(f"source.generator {project.generator}.commands has no COMMANDS: {reason}") from None
