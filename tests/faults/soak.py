"""A week in one go (F38): ``python -m tests.faults.soak [--hours 168] [--seed N] [--merge-on-read SIZE]``.

Each hour is refreshed incrementally in one warm session; a run dies at a random durable effect every ten hours or so,
and once a day a process of its own is ended with SIGKILL, with its JVM or without it. After each day comes upkeep; then
Bronze is compared with plain Python, and every other table with a full refresh of a copy, row by row. Exit code 1 when
a row differs, or when the hours of a day grow by more than 2 % per day in CPU seconds.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from demo.generate import generate
from medallion.cli.console import progress_bar
from medallion.hours import hour_range, parse_hour
from medallion.loopback import go_past_proxies
from medallion.model.table import Table
from medallion.ops import releases
from medallion.pipeline import operations
from medallion.pipeline.maintain import Retention, maintain
from medallion.refresh.full import refresh_full
from medallion.settings import Settings
from medallion.spark.jvm import CpuClock
from medallion.spark.session import spark_session
from medallion.storage.live_rows import read_live_rows
from tests.faults.faults import kill, start
from tests.faults.model import Model, snapshot, with_hour
from tests.faults.world import HOURS, World, dies, rows_of, state_of_small_inputs
from tests.part_of_shop import some_tables
from tests.refresh_run import refresh_run

DAY = 24
DEATHS = 0.1  # of the hours
MAX_SLOPE = 0.02  # of the mean, per day


@dataclass
class Day:
    """What came of a day.

    seconds, cpu_seconds: of each hour that nothing struck. memory: bytes of this process and its JVM; jvm_memory: of
    the latter. files: of data, after upkeep; logs and reports stay for their days. differing: tables with wrong rows.
    """

    number: int
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    memory: int = 0
    jvm_memory: int = 0
    files: int = 0


class Soak:
    """A world that is taken through its hours, with its model beside it."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.chance, self.cpu = world, random.Random(seed), CpuClock()
        self.cpu.watch(world.spark)
        self.model: Model = snapshot(world)
        self.former = ""

    def day(self, number: int, hours: Sequence[str]) -> Day:
        """Refresh the hours of a day, some of them struck, then upkeep, then compare."""
        day, killed = Day(number), self.chance.choice(hours)
        for hour in hours:
            if hour == killed:
                day.struck.append(self.kill_a_process(hour))
            elif self.chance.random() < DEATHS:
                effect, after = self.chance.randrange(40), self.chance.random() < 0.5
                day.struck.append(f"{hour}: {dies(lambda h=hour: self.world.refresh(h), effect, after=after)}")
            began, used = time.monotonic(), self.cpu()
            self.world.refresh(hour)
            if not day.struck or not day.struck[-1].startswith(hour):
                day.seconds.append(time.monotonic() - began)
                day.cpu_seconds.append(self.cpu() - used)
            scratch = self.world.root / "changes.parquet"
            self.model = with_hour(self.world, self.model, hour, scratch)
        maintain(self.world.run(None, "upkeep"), self.world.driver(), Retention(hours=0))
        day.differing = self.differing(hours[-1])
        by_process = {process.name(): process.memory_info().rss for process in self.processes()}
        day.memory, day.jvm_memory = sum(by_process.values()), by_process.get("java", 0)
        data = Path(self.world.settings.lake).rglob("*.parquet")
        day.files = sum("_delta_log" not in file.parts for file in data)
        return day

    def kill_a_process(self, hour: str) -> str:
        """Refresh in a process of its own, killed at some moment."""
        process, jvm, seconds = start(self.world, hour), self.chance.random() < 0.5, self.chance.uniform(5, 25)
        time.sleep(seconds)
        kill(process, jvm=jvm)
        return f"{hour}: SIGKILL after {seconds:.1f} s {'with' if jvm else 'without'} the JVM"

    def processes(self) -> list[psutil.Process]:
        """This one and its JVM."""
        return [psutil.Process(), *psutil.Process().children(recursive=True)]

    def differing(self, hour: str) -> list[str]:
        """Tables of the newest release that are not what the source makes of them."""
        release = releases.require_release(self.world.lake, None)
        wrong = [] if release.hour == hour else [f"hour {release.hour} is published, not {hour}"]
        for feed in self.world.tables.feeds:
            delta: Any = self.world.lake.open(self.world.lake.path(feed.name), release.versions[feed.name])
            rows = read_live_rows(delta, self.world.lake.folder(feed.name)).to_pylist()
            if sorted(rows, key=lambda row: row[feed.keys[0]]) != sorted(
                self.model[feed.name].values(), key=lambda row: row[feed.keys[0]]
            ):
                wrong.append(feed.name)
        copy = replace(self.world, root=self.world.root.with_name(f"copy-{hour}"))
        shutil.copytree(self.world.settings.lake, copy.settings.lake)
        run = refresh_run(copy.lake, self.world.spark, hour=hour, run_id="compare")
        for table in self.world.tables:
            if isinstance(table, Table):
                refresh_full(run, table)
        versions = {name: copy.lake.version(name) or 0 for name in release.versions}
        recomputed = replace(release, versions=versions, commits={})  # upkeep may have rewritten files of Bronze
        full, published = rows_of(copy.lake, recomputed), rows_of(self.world.lake, release)
        shutil.rmtree(copy.root)
        return wrong + [name for name, rows in published.items() if full[name] != rows]


def slope(days: Sequence[Day], values: str) -> float:
    """How much the median of a day grows per day, as a share of the mean; the first day warms up."""
    medians = [statistics.median(getattr(day, values)) for day in days[1:]]
    if len(medians) < 2:
        return 0.0
    return statistics.linear_regression(range(len(medians)), medians).slope / statistics.mean(medians)


def summary(days: Sequence[Day]) -> str:
    """A Markdown table with a row per day, and the slopes."""
    names = ("day", "hours struck", "tables that differ", "seconds of an hour", "CPU seconds", "memory, MB", "JVM, MB")
    lines = [f"| {' | '.join((*names, 'data files'))} |", "|---" * (len(names) + 1) + "|"]
    for day in days:
        medians = [f"{statistics.median(values):.2f}" for values in (day.seconds, day.cpu_seconds)]
        memory = [f"{size / 1e6:,.0f}" for size in (day.memory, day.jvm_memory)]
        figures = (day.number, len(day.struck), len(day.differing), *medians, *memory, day.files)
        lines.append(f"| {' | '.join(map(str, figures))} |")
    slopes = [f"{slope(days, values):+.1%}" for values in ("seconds", "cpu_seconds")]
    return "\n".join([*lines, "", f"From day 2 on, per day: {slopes[0]} seconds, {slopes[1]} CPU seconds."])


def main() -> int:
    """Run it and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--hours", type=int, default=7 * DAY, help="full days  [168]")
    parser.add_argument("--seed", type=int, default=0, help="chooses what is struck")
    parser.add_argument("--merge-on-read", default="8m", metavar="SIZE", help="1k: in every table where it pays  [8m]")
    parser.add_argument("--report", type=Path, help="the days as JSON, written as they end")
    given = parser.parse_args()
    go_past_proxies()
    os.environ["TZ"] = "UTC"
    time.tzset()
    tables = some_tables("gold_order_status_summary")
    settings = Settings.from_environment().replace(spark_master="local[2]", driver_memory="1g")
    spark = spark_session(settings, "soak")
    last = f"{parse_hour(HOURS[0]) + timedelta(hours=given.hours - 1):%Y-%m-%dT%H}"
    hours, days = list(hour_range(HOURS[0], last)), list[Day]()
    with (
        state_of_small_inputs(),
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        progress_bar() as advance,
    ):
        world = World(Path(folder, "world"), spark, tables, strategy="incremental", merge_on_read=given.merge_on_read)
        generate(world.root / "source", days=2, hours=len(hours), scale=0.02, seed=given.seed)
        operations.load(world.run(None, "load"), world.driver())
        soak = Soak(world, given.seed)
        for number in range(len(hours) // DAY):
            advance(f"day {number + 1}", number, len(hours) // DAY)
            days.append(soak.day(number + 1, hours[number * DAY : (number + 1) * DAY]))
            if given.report:
                given.report.write_text(json.dumps([asdict(day) for day in days], indent=1))
    print(summary(days))
    return int(any(day.differing for day in days) or slope(days, "cpu_seconds") > MAX_SLOPE)


if __name__ == "__main__":
    sys.exit(main())
