"""Does a lake grow slow with age? A refresh after 10 hours of commits against one after 1,000, taken in turns.

Run it as ``medallion bench aging --hours 1000 --rounds 3``. The hours are simulated: each makes the commits of an hour,
on every table, the event log and the releases, with the same rows again, and upkeep follows every 24 of them. Then real
hours are refreshed on copies of both lakes in one Spark session. Prints seconds, file counts and the size of the logs.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from demo.generate import generate
from medallion.cli.console import progress_bar
from medallion.hours import format_hour, hour_number, parse_hour
from medallion.model.registry import Registry
from medallion.model.table import Feed
from medallion.ops import releases
from medallion.ops.event_log import EventLog
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver, open_driver
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.run import Run
from medallion.project import find_project
from medallion.settings import Settings
from medallion.spark.session import spark_session
from medallion.storage.lake import LEDGER, Lake

YOUNG, UPKEEP = 10, 24
FIRST_HOUR = "2025-11-30T00"  # of the changes of a generated source


def age(settings: Settings, hours: int) -> None:
    """Let ``hours`` pass over a loaded lake, up to the first hour of changes."""
    lake, tables = Lake.of(settings), find_project().registry()
    first = parse_hour(FIRST_HOUR) - timedelta(hours=hours)
    rows = {table.name: DeltaTable(lake.path(table.name)).to_pyarrow_table() for table in tables}
    with progress_bar() as advance, open_driver(settings, report=lambda _: None) as driver:
        for number in range(hours):
            hour = format_hour(first + timedelta(hours=number))
            _hour_of_commits(lake, tables, rows, hour)
            if (number + 1) % UPKEEP == 0:
                maintain(Run(settings, None, f"upkeep-{number}"), driver, Retention(hours=0))
                advance(f"{hours} hours", number + 1, hours)


def _hour_of_commits(lake: Lake, tables: Registry, rows: Mapping[str, pa.Table], hour: str) -> None:
    log = EventLog(lake, run_id=f"aged-{hour}", hour=hour, strategy="full", attempt=1)
    versions = {}
    for table in tables:
        delta = DeltaTable(lake.path(table.name))
        if isinstance(table, Feed):  # a merge: some rows move from the files that had them to a new one
            (key,) = table.keys
            some = rows[table.name].slice(0, 20)
            ledger = CommitProperties(app_transactions=[Transaction(LEDGER, hour_number(hour))])
            merge = delta.merge(some, f"t.{key} = s.{key}", "s", "t", commit_properties=ledger)
            merge.when_matched_update_all().execute()
        else:
            write_deltalake(delta, rows[table.name], mode="overwrite")
        versions[table.name] = delta.version()
        log.add("refresh", table.layer, table.name)
        if table.layer == "gold":
            log.flush()  # about as many commits as the steps of an hour make
    log.flush()
    last = releases.latest(lake)
    releases.publish(
        lake, after=last, hour=hour, run_id=f"aged-{hour}", strategy="full", contents=releases.Contents(versions)
    )


def sizes(lake: Lake) -> str:
    """Data files, files of logs and their size, all over the lake."""
    files = [file for file in Path(lake.root).rglob("*") if file.is_file()]
    logs = [file for file in files if "_delta_log" in file.parts]
    data = [file for file in files if file.suffix == ".parquet" and file not in logs]
    megabytes = sum(file.stat().st_size for file in logs) / 1e6
    return f"{len(data):,} data files, {len(logs):,} files of logs, {megabytes:.1f} MB of logs"


def compare_ages(plain: Settings, hours: int, rounds: int) -> None:
    """Age two lakes, refresh copies of them in turns, and print the ratio."""
    with tempfile.TemporaryDirectory(prefix="aging-") as folder:
        root = Path(folder)
        generate(root / "source", days=2, hours=1, scale=0.05, seed=0)

        def at(name: str) -> Settings:
            return plain.replace(lake=str(root / name), source=str(root / "source"))

        spark = spark_session(plain)

        def driver(settings: Settings) -> Driver:
            driver = Driver(settings, report=lambda _: None)
            driver.use(spark)
            return driver

        operations.load(Run(at("young"), None, "load"), driver(at("young")))
        shutil.copytree(root / "young", root / "old")
        for name, passed in (("young", YOUNG), ("old", hours)):
            start = time.perf_counter()
            age(at(name), passed)
            print(f"{passed:,} hours in {time.perf_counter() - start:.0f} s: {sizes(Lake(at(name).lake))}", flush=True)
        ratios = []
        for number in range(1 + rounds):
            seconds = {}
            for name in ("young", "old"):
                shutil.copytree(root / name, root / f"{name}-{number}")
                settings = at(f"{name}-{number}")
                start = time.perf_counter()
                operations.refresh_hour(Run(settings, None, "timed"), driver(settings))
                seconds[name] = time.perf_counter() - start
            ratio = seconds["old"] / seconds["young"]
            ratios += [ratio] if number else []
            what = f"round {number}" if number else "warm-up"
            print(f"{what}: young {seconds['young']:.1f} s, old {seconds['old']:.1f} s, ratio {ratio:.2f}", flush=True)
        print(f"median ratio of {rounds} rounds: {statistics.median(ratios):.2f}")
