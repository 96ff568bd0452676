"""Does an hour cost more as a lake ages? Hours of a lake after 10 hours and of one after 168, taken in turns.

Run it as ``medallion bench aging --hours 168 --rounds 12``. Every hour is a real incremental refresh of a small shop in
which any table may have marked rows; upkeep follows every 24 of them. Both lakes are refreshed in one Spark session.
Prints seconds, CPU seconds, file counts and the size of the logs.
"""

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from demo.generate import generate
from medallion.cli.console import progress_bar
from medallion.counts import counted
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.run import Run
from medallion.settings import Settings
from medallion.spark.jvm import CpuClock
from medallion.spark.session import spark_session
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YOUNG, UPKEEP = 10, 24


class AgingLake:
    """A lake that is refreshed hour by hour, in a session that others use too."""

    def __init__(self, settings: Settings, spark: "SparkSession") -> None:
        self.settings, self._spark = settings, spark
        self._driver = Driver(settings, report=lambda _: None)
        self._driver.use(spark)

    def load(self) -> None:
        """Load the snapshot."""
        operations.load(Run(self.settings, None, "load"), self._driver)

    def refresh(self) -> None:
        """Refresh the next hour."""
        operations.refresh_hour(Run(self.settings, None, "aging", strategy="incremental"), self._driver)

    def keep_up(self) -> None:
        """Do the upkeep of a day."""
        maintain(Run(self.settings, None, "upkeep"), self._driver, Retention(hours=0))

    def copy(self, path: Path) -> "AgingLake":
        """Copy it to ``path``."""
        shutil.copytree(self.settings.lake, path)
        return AgingLake(self.settings.replace(lake=str(path)), self._spark)


def sizes(lake: Lake) -> str:
    """Data files, files of logs and their size, all over the lake."""
    files = [file for file in Path(lake.root).rglob("*") if file.is_file()]
    logs = [file for file in files if "_delta_log" in file.parts]
    data = [file for file in files if file.suffix == ".parquet" and file not in logs]
    megabytes = sum(file.stat().st_size for file in logs) / 1e6
    return f"{len(data):,} data files, {len(logs):,} files of logs, {megabytes:.1f} MB of logs"


def compare_ages(plain: Settings, hours: int, rounds: int) -> None:
    """Age a lake by ``hours``, then refresh it and a copy of its first hours in turns, and print the ratios."""
    with tempfile.TemporaryDirectory(prefix="aging-") as folder, progress_bar() as advance:
        root = Path(folder)
        generate(root / "source", days=2, hours=hours + rounds + 1, scale=0.05, seed=0)
        spark = spark_session(plain)
        settings = plain.replace(lake=str(root / "old"), source=str(root / "source"), merge_on_read="1k")
        old = AgingLake(settings, spark)
        old.load()
        young = old
        for number in range(1, hours + 1):
            old.refresh()
            if number == YOUNG:
                young = old.copy(root / "young")
            if number % UPKEEP == 0:
                old.keep_up()
            advance(f"{hours:,} hours", number, hours)
        lakes = {"young": young, "old": old}
        for name, lake in lakes.items():
            lake.keep_up()
            print(f"{name}: {sizes(Lake.of(lake.settings))}", flush=True)
        clock = CpuClock()
        clock.watch(spark)
        ratios = []
        for number in range(1 + rounds):
            taken = {}
            for name in lakes if number % 2 else reversed(lakes):
                began, used = time.perf_counter(), clock()
                lakes[name].refresh()
                taken[name] = time.perf_counter() - began, clock() - used
            ratio = [after / before for before, after in zip(taken["young"], taken["old"], strict=True)]
            ratios += [ratio] if number else []
            told = ", ".join(f"{name} {s:.2f} s, {cpu:.2f} CPU s" for name, (s, cpu) in taken.items())
            what = f"round {number}" if number else "warm-up"
            print(f"{what}: {told}; ratios {ratio[0]:.2f}, {ratio[1]:.2f}", flush=True)
        seconds, cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
        print(f"median ratio of {counted(rounds, 'round')}: {seconds:.2f} in seconds, {cpu:.2f} in CPU seconds")
