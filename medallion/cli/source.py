"""Commands about the source, with those that the project brings to make one."""

import sys
from importlib import import_module

import click

from medallion.errors import UsageError, one_line
from medallion.project import find_project


class SourceCommands(click.Group):
    """The commands of the project's own generator, where medallion.toml names one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name every command, sorted."""
        return sorted([*super().list_commands(ctx), *_of_project()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; None where there is none."""
        return super().get_command(ctx, cmd_name) or _of_project().get(cmd_name)


@click.group(cls=SourceCommands)
def source() -> None:
    """Create a source of snapshot and change files, where the project has a generator of its own."""


def _of_project() -> dict[str, click.Command]:
    try:
        project = find_project()
    except UsageError:  # the help is shown anywhere
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
