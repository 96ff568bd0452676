"""The ``medallion`` command. Exit code 0: done; 1: failed, saying where; 2: wrong use, saying what is allowed."""

import atexit
import errno
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TextIO

import click

from medallion.cli import define, inspect, refresh
from medallion.cli.airflow import airflow
from medallion.cli.catalog import catalog
from medallion.cli.common import Group
from medallion.cli.compare import compare
from medallion.cli.completion import completion
from medallion.cli.console import configure_logging
from medallion.cli.erase import erase
from medallion.cli.explain import explain
from medallion.cli.init import init
from medallion.cli.plan import plan
from medallion.cli.quarantine import quarantine
from medallion.cli.release import release
from medallion.cli.source import source
from medallion.cli.spark_server import spark_server
from medallion.errors import NOT_ALLOWED, MedallionError, one_line
from medallion.loopback import go_past_proxies
from medallion.spark.surroundings import own_path

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
BENCHMARK = "bench.cli"  # imported only for its commands: it builds on this package, and is heavy


BENCHMARK_COMMANDS = ("bench", "feldera-program")


def _has_benchmark() -> bool:
    """Check whether the benchmark is installed: it comes with the repository, not with the package."""
    return find_spec(BENCHMARK.partition(".")[0]) is not None


class Commands(Group):
    """The commands of the package, and those of the benchmark where it is installed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, including those that are imported only when they run."""
        return sorted([*super().list_commands(ctx), *(BENCHMARK_COMMANDS if _has_benchmark() else ())])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name; None if there is none."""
        if cmd_name in BENCHMARK_COMMANDS and _has_benchmark():
            command: click.Command = getattr(import_module(BENCHMARK), cmd_name.replace("-", "_"))
            return command
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Outside its standalone mode, click returns the exit code that a command raises as a result."""
        try:
            return super().invoke(ctx)
        except click.exceptions.Exit as done:
            raise SystemExit(done.exit_code) from None


@click.group(cls=Commands, context_settings=CONTEXT)
@click.version_option(package_name="medallion", prog_name="medallion")
def cli() -> None:
    """Refresh a lakehouse hour by hour, in full or incrementally, on Spark and Delta Lake.

    \b
    A first project, from nothing:
      medallion init bikes && cd bikes           two feeds, two tables, a source
      medallion load                             its snapshot into the lake
      medallion refresh                          the first hour of changes
      medallion status                           what the lake holds now
      medallion events                           where the seconds went

    \b
    A project is the nearest folder upwards with medallion.toml.
    Environment variables override its settings:
      MEDALLION_PROJECT        another project's folder
      MEDALLION_LAKE           the lake, a path or s3a://bucket/prefix    (lake)
      MEDALLION_SOURCE         a path or s3://bucket/prefix        (data/source)
      MEDALLION_SPARK_MASTER   where Spark runs                       (local[*])
      MEDALLION_SPARK_CONNECT  a warm Spark, such as sc://localhost:15002 (none)
      MEDALLION_DRIVER_MEMORY  heap of the driver                           (4g)
      MEDALLION_MAX_BAD_LINES  share of a file's lines that may be bad    (0.01)
      MEDALLION_LOCK_WAIT      seconds to wait for another writer          (600)
      MEDALLION_S3_ENDPOINT, _REGION, _ANONYMOUS, _TIMEOUT           for buckets

    Hours are written YYYY-MM-DDTHH and are UTC.
    """


for command in (
    *refresh.COMMANDS,
    *define.COMMANDS,
    *inspect.COMMANDS,
    release,
    quarantine,
    source,
    init,
    airflow,
    spark_server,
    completion,
    catalog,
    compare,
    erase,
    plan,
    explain,
):
    cli.add_command(command)


def main() -> None:
    """Run the command; errors meant for people become one line on standard error."""
    code = 1  # for an uncaught exception; the interpreter prints its traceback

    def leave() -> None:
        """End the process before the interpreter shuts down.

        A thread of Arrow that still waits for the interpreter then aborts the process, so that a successful command
        would sometimes exit with SIGABRT (https://github.com/apache/arrow/issues/34314).
        """
        lost = [stream for stream in (sys.stdout, sys.stderr) if not _flush(stream)]
        os._exit(code or len(lost))

    go_past_proxies()
    sys.path[:] = own_path(sys.path)  # before a command imports pyspark
    configure_logging()
    atexit.register(leave)  # registered first, it is called last
    code = run(cli)
    sys.exit(code)


def run(command: Callable[..., Any]) -> int:
    """Run a click command with this process's arguments and return its exit code."""
    try:
        command(standalone_mode=False)
    except SystemExit as end:  # a command ends with a code of its own, or was asked to stop, such as spark-server
        return end.code if isinstance(end.code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:  # a group without a command
        click.echo(error.ctx.get_help() if error.ctx else error.message)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted: run the same command again to go on", 1)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "medallion"
        return _fail(f"{error.format_message()} ({path} --help tells more)", 2)
    except MedallionError as error:
        return _fail(str(error), error.exit_code, getattr(error, "__notes__", ()))
    except BrokenPipeError:  # the reader of the output has ended, as in `medallion query ... | head -1`
        return 1
    except Exception as error:
        if (message := _disk_trouble(error) or _jvm_trouble()) is None:
            raise
        return _fail(message, 1)
    return 0


def _disk_trouble(error: Exception) -> str | None:
    """Return a message that a disk is full, or that a permission is missing, and what to do; None for other errors."""
    number, place = (error.errno, error.filename) if isinstance(error, OSError) else (None, None)
    if number == errno.ENOSPC and place:
        return f"{place}: {os.strerror(errno.ENOSPC)}; free some, then run this again"
    if os.strerror(errno.ENOSPC) in str(error):  # libraries raise their own errors for it
        return f"cannot write: {one_line(error)}; free some space, then run this again"
    if number is None or number not in NOT_ALLOWED:
        return None
    advice = "run this as the account that the lake belongs to, or let this one read and write there"
    return f"{place}: {os.strerror(number)}; {advice}"


def _jvm_trouble() -> str | None:
    """Return a message if the JVM of this process has ended, so that every call to it fails; None while it runs."""
    if "pyspark" not in sys.modules:
        return None
    from medallion.spark.own_jvm import end_of_jvm

    return end_of_jvm()


def _flush(stream: TextIO) -> bool:
    """Flush a stream. If that fails, print a message and return False; a reader that has ended is not a failure."""
    try:
        stream.flush()
    except BrokenPipeError:
        return True
    except (OSError, ValueError) as error:
        _fail(f"cannot write: {error}", 1)
        return False
    return True


def _fail(message: str, code: int, lines: Iterable[str] = ()) -> int:
    """Print a message as one line, and below it ``lines`` that quote another program. Return the exit code."""
    click.echo("\n".join([f"medallion: {' '.join(message.split())}", *lines]), err=True)
    return code
