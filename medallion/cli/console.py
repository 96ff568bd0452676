"""Output of a command besides its result: warnings, and progress as a bar on a terminal, as plain lines elsewhere."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from medallion.ingest.source import Advance

if TYPE_CHECKING:
    from medallion.pipeline.driver import Driver


def configure_logging() -> None:
    """Print warnings of this package to standard error, one line each, as errors are printed."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("medallion: %(message)s"))
    logging.getLogger("medallion").addHandler(handler)


@contextmanager
def progress_bar(report_to: "Driver | None" = None) -> Iterator[Advance]:
    """Show a progress bar, and print the messages of ``report_to`` above it. Yield the function that advances it.

    Until it is first called there is nothing to count, and only the time that has passed is shown.

    If standard error is not a terminal, progress is printed as plain lines instead.
    """
    if not sys.stderr.isatty():
        yield _tenths()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    spinner, what_it_does, elapsed = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(spinner, what_it_does, elapsed, console=Console(stderr=True)) as bar:
        task = bar.add_task("working", total=None)

        def advance(what: str, done: int, total: int) -> None:
            bar.columns = (spinner, what_it_does, BarColumn(), MofNCompleteColumn(), elapsed)
            bar.update(task, description=what, completed=done, total=total)

        if report_to is not None:
            report_to.report = lambda line: bar.console.print(line, highlight=False, markup=False)
        yield advance


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that ``what`` is being done, and for how long; elsewhere nothing is printed."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(what, total=None)
        yield


def _tenths() -> Advance:
    """Return a function that prints progress as plain lines for a log, at most ten of them for long work."""
    reported = -1

    def advance(what: str, done: int, total: int) -> None:
        nonlocal reported
        tenth = 10 * done // max(total, 1)
        if 1 < total > done and (tenth > reported or total <= 48):
            reported = tenth
            print(f"{what} ({done + 1} of {total})", file=sys.stderr, flush=True)

    return advance
