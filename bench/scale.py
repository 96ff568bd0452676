"""What more data costs: the same hours of shops of several sizes, with what Spark shuffled, spilled and held.

Run it as ``medallion bench scale --days 30 --work FOLDER 1 10``: for each size a source is generated and loaded, and
hours are refreshed, first in full, then incrementally, all by one driver in a process of its own. Prints a line of JSON
for each hour and layer. Memory is the most that was held at any time: of the JVM, which with a local master is driver
and executor in one, its heap and its process; of Python its process. On a cluster (MEDALLION_SPARK_MASTER), the heap of
the driver and of the executor that held most.
"""

import json
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

from demo.generate import generate
from medallion.errors import MedallionError
from medallion.ops import event_log, releases
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver, open_driver
from medallion.pipeline.run import Run
from medallion.project import find_project
from medallion.settings import Settings

FULL, INCREMENTAL = 2, 4  # hours of each: the first of them warms up, and the first incremental one makes its sums


class Stages:
    """What the stages of a session have done since they were last asked, in bytes."""

    def __init__(self, spark: Any) -> None:
        self._gateway, self._jvm = spark.sparkContext._gateway, spark._jvm
        self._store = spark._jsc.sc().statusStore()
        self._seen: set[tuple[int, int]] = set()

    def since(self) -> dict[str, int]:
        """shuffled: written for other tasks; spilled: to disk, for want of memory."""
        none = self._jvm.java.util.ArrayList()
        quantiles = self._gateway.new_array(self._jvm.double, 0)
        stages = self._store.stageList(none, False, False, quantiles, none)
        written = {"shuffled": 0, "spilled": 0}
        for place in range(stages.size()):
            stage = stages.apply(place)
            if (key := (stage.stageId(), stage.attemptId())) not in self._seen:
                self._seen.add(key)
                written["shuffled"] += stage.shuffleWriteBytes()
                written["spilled"] += stage.diskBytesSpilled()
        return written


def memory(spark: Any) -> dict[str, float]:
    """The most that each process held, in MB."""
    jvm = spark._jvm
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    heap = sum(pool.getPeakUsage().getUsed() for pool in pools if str(pool.getType().name()) == "HEAP")
    process = int(jvm.java.lang.ProcessHandle.current().pid())
    executors = spark._jsc.sc().statusStore().executorList(True)
    held = {"driver_heap": heap, "driver_process": _peak(process), "python_process": _peak(psutil.Process().pid)}
    for place in range(executors.size()):
        peak = executors.apply(place).peakMemoryMetrics()
        if executors.apply(place).id() != "driver" and peak.isDefined():
            held["executor_heap"] = max(held.get("executor_heap", 0), peak.get().getMetricValue("JVMHeapMemory"))
    return {name: round(size / 1e6) for name, size in held.items()}


def _peak(pid: int) -> int:
    peak_line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak_line.split()[1]) * 1024


def measure(plain: Settings, scale: float, days: int, work: Path) -> None:
    """One size: print a line of JSON for each hour and layer, then one of what it held."""
    settings = plain.replace(lake=str(work / "lake"), source=str(work / "source"))
    with open_driver(settings, report=lambda _: None) as driver:
        _measure_hours(driver, scale, days)


def _measure_hours(driver: Driver, scale: float, days: int) -> None:
    settings, lake = driver.settings, driver.lake
    stages: Stages | None = None

    def print_steps(run_id: str, hour: str, strategy: str, began: float) -> None:
        nonlocal stages
        with driver.recording(Run(settings, None, "scale"), "scale") as log:
            stages = stages or Stages(driver.spark(log))
        rows = [row for row in event_log.read(lake, run_id=run_id) if row.event_type in ("apply", "refresh", "check")]
        for row in rows:
            if row.table_name is None:
                step = row.layer if row.event_type == "refresh" else f"{row.event_type} {row.layer}"
                seconds = {"seconds": round(row.seconds, 1), "cpu_seconds": round(row.cpu_seconds or 0, 1)}
                line = {"scale": scale, "hour": hour, "strategy": strategy, "step": step} | seconds
                print(json.dumps(line | {"rows": row.rows_out}), flush=True)
        whole = {"seconds": round(time.perf_counter() - began, 1), **stages.since()}
        print(json.dumps({"scale": scale, "hour": hour, "strategy": strategy, "step": "all"} | whole), flush=True)

    began = time.perf_counter()
    generate(Path(settings.source), days=days, hours=FULL + INCREMENTAL, scale=scale, seed=0)
    print(json.dumps({"scale": scale, "step": "generate", "seconds": round(time.perf_counter() - began, 1)}))
    began = time.perf_counter()
    operations.load(Run(settings, None, "load"), driver)
    print_steps("load", "snapshot", "full", began)
    for number in range(FULL + INCREMENTAL):
        strategy, began = "full" if number < FULL else "incremental", time.perf_counter()
        outcome = operations.refresh_hour(Run(settings, None, f"hour-{number}", strategy=strategy), driver)
        print_steps(f"hour-{number}", str(outcome.hour), strategy, began)
    with driver.recording(Run(settings, None, "scale"), "scale") as log:
        held = memory(driver.spark(log))
    release = releases.require_release(lake, None)
    states = [lake.state(table.name, release.versions[table.name]) for table in find_project().registry()]
    held |= {"rows": sum(s.rows for s in states if s), "lake_megabytes": round(sum(s.bytes for s in states if s) / 1e6)}
    print(json.dumps({"scale": scale, "step": "held"} | held), flush=True)


def measure_sizes(settings: Settings, scales: Sequence[float], days: int, work: Path) -> None:
    """Measure each size in a process of its own, so that its memory is its own.

    Raises MedallionError when one of them fails.
    """
    for scale in scales:
        folder = work / f"{scale:g}"
        folder.mkdir(parents=True)
        process = get_context("spawn").Process(target=measure, args=(settings, scale, days, folder))
        process.start()
        process.join()
        if process.exitcode:
            raise MedallionError(f"scale {scale:g} ended with exit code {process.exitcode}: see what it printed above")
