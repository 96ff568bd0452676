"""What the demonstration prints at its end: its runs side by side, and what a month of each would cost."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medallion.cli.common import print_lines
from medallion.hours import MONTH_HOURS
from medallion.model.table import STRATEGIES
from medallion.ops import event_log
from medallion.storage.lake import Lake
from medallion.ui.runs import PRICE

STEPS = "sum of the steps"
CPU = "CPU of the steps"
WHOLE = "whole run"
LAST = (STEPS, CPU, WHOLE)  # the rows below the steps


@dataclass(frozen=True)
class Shown:
    """A run of the demo. run: as Airflow returns it. is_setup: whether it built state that later runs use."""

    name: str
    hour: str
    run: Mapping[str, Any]
    is_setup: bool = False


def print_comparison(lake: Lake, runs: Sequence[Shown], currency: str) -> None:
    """Print the seconds of each step by run, from the event log; the rest is Airflow and the start of processes."""
    seconds: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(runs))
    for column, shown in enumerate(runs):
        for row in event_log.read(lake, run_id=shown.run["dag_run_id"]):
            if row.table_name is None:
                seconds[" ".join(filter(None, (row.event_type, row.layer)))][column] += row.seconds
                seconds[STEPS][column] += row.seconds
                seconds[CPU][column] += row.cpu_seconds or 0.0
        seconds[WHOLE][column] = shown.run["duration"]
    order = sorted(seconds, key=lambda name: LAST.index(name) if name in LAST else -1)
    widths = [max(len(shown.name), len(shown.hour)) + 2 for shown in runs]

    def print_line(name: str, values: Iterable[str]) -> None:
        print(name.ljust(18) + "".join(value.rjust(width) for value, width in zip(values, widths, strict=True)))

    print_line("seconds", (shown.name for shown in runs))
    print_line("", (shown.hour for shown in runs))
    for step in order:
        print_line(step, (f"{value:.1f}" for value in seconds[step]))
    print_lines(
        [
            f"{STEPS}: as on the page Runs; {WHOLE}: from the start of the run in Airflow to its end",
            month_in_words(runs, seconds[CPU], currency),
        ]
    )


def month_in_words(runs: Sequence[Shown], cpu_seconds: Sequence[float], currency: str) -> str:
    """Say what a month of full hours and one of steady incremental hours would cost, in a line."""
    hours = {  # rounded as they are printed, so that the share and the prices follow from what is read
        shown.name.partition(",")[0]: round(cpu * MONTH_HOURS / 3600, 2)
        for shown, cpu in zip(runs, cpu_seconds, strict=True)
        if not shown.is_setup
    }
    if not all(hours.get(strategy) for strategy in STRATEGIES):
        return "a month   no steady incremental hour to compare yet: run make demo again"
    full, incremental = hours["full"], hours["incremental"]
    return (
        f"a month   {MONTH_HOURS} hours like these: full {full:,.2f} core-hours, incremental {incremental:,.2f}"
        f" ({100 * incremental / full:.0f} %); at {PRICE:g} {currency} each {full * PRICE:,.2f} against"
        f" {incremental * PRICE:,.2f} {currency}"
    )
