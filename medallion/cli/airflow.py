"""Commands about an Airflow on this machine, for this project."""

import subprocess
import sys
from typing import TYPE_CHECKING

import click

from medallion.cli.common import Group, print_lines
from medallion.errors import UsageError
from medallion.project import find_project

if TYPE_CHECKING:
    from medallion.airflow.local import LocalAirflow


@click.group(cls=Group)
def airflow() -> None:
    """Start and stop an Airflow of this project, on this machine and for it alone.

    It listens on the loopback interface, on the port in MEDALLION_AIRFLOW_PORT (8080), and keeps all its
    state in .airflow/, including its password.
    """


@airflow.command()
def up() -> None:
    """Start Airflow unless it is running, and print its address and login."""
    from medallion.airflow.local import where

    chosen = _of_project()
    chosen.up(lambda line: print_lines([line]))
    print_lines(where(chosen).splitlines())


@airflow.command()
def down() -> None:
    """Stop all that `up` started."""
    click.echo("Airflow is down" if _of_project().down() else "Airflow was not running")


@airflow.command("run", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run_command(arguments: tuple[str, ...]) -> None:
    """Run an airflow command in its environment, such as: medallion airflow run dags list."""
    command = [sys.executable, "-m", "airflow", *arguments]
    sys.exit(subprocess.run(command, env=_of_project().environment).returncode)


def _of_project() -> "LocalAirflow":
    try:
        from medallion.airflow.local import LocalAirflow
    except ModuleNotFoundError as error:
        raise UsageError(f"Airflow is not installed ({error.name}): pip install 'medallion[airflow]'") from None
    return LocalAirflow.of_project(find_project(or_checkout=False))
