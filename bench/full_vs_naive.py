"""Full refresh against the naive one: same Bronze, same queries, a driver each, taken in turns.

Run it as ``python -m bench.full_vs_naive [ROUNDS]`` against a loaded lake (MEDALLION_LAKE); both write to a scratch
lake of their own and leave that one as it was. Each side has a session of its own, because some of what tells them
apart holds for a whole JVM. The first three rounds warm up (the first is the cold one) and are not counted.
"""

import shutil
import statistics
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from bench.naive import SETTINGS, refresh_naive
from spark_jobs.core.lake import Lake
from spark_jobs.core.refresh import refresh_full, side_by_side
from spark_jobs.core.registry import registry
from spark_jobs.core.session import CpuClock, needed_conf, spark_session
from spark_jobs.core.settings import Settings

WARM_UP = 3


def driver(side: str, settings: Settings, bronze: Lake, target: Lake, orders: Connection) -> None:
    """Refresh ``target`` each time it is told to, and answer with wall and CPU seconds."""
    conf = {**needed_conf(settings, settings.spark_master), **SETTINGS} if side == "naive" else None
    spark, tables, cpu = spark_session(settings, conf=conf), registry(), CpuClock()
    cpu.watch(spark)
    while orders.recv():
        start, used = time.perf_counter(), cpu()
        if side == "naive":
            refresh_naive(spark, bronze, target, tables)
        else:
            for layer in ("silver", "gold"):
                queries = tables.queries(layer)
                side_by_side(spark, queries, lambda t: refresh_full(spark, target, t, hour=None, run_id="bench"))
        orders.send((time.perf_counter() - start, cpu() - used))


def main(rounds: int) -> None:
    """Print wall and CPU seconds of each round, and the median ratio of full to naive."""
    settings = Settings.from_environment()
    processes, sides = get_context("spawn"), {}
    with tempfile.TemporaryDirectory(dir=Path(settings.lake).parent) as scratch:
        bronze = Lake(f"{scratch}/full")
        shutil.copytree(Lake(settings.lake).root + "/bronze", bronze.root + "/bronze")
        for side in ("full", "naive"):
            sides[side], orders = processes.Pipe()
            arguments = (side, settings, bronze, Lake(f"{scratch}/{side}"), orders)
            processes.Process(target=driver, args=arguments, daemon=True).start()
        ratios = []
        for number in range(WARM_UP + rounds):
            seconds = {}
            for side, orders in sides.items():
                orders.send(True)
                seconds[side] = orders.recv()
            ratio = seconds["full"][0] / seconds["naive"][0]
            counted = number >= WARM_UP
            ratios += [ratio] if counted else []
            figures = ", ".join(f"{side} {wall:.1f} s ({cpu:.0f} CPU-s)" for side, (wall, cpu) in seconds.items())
            what = f"round {number - WARM_UP + 1}" if counted else f"warm-up {number + 1}"
            print(f"{what}: {figures}, ratio {ratio:.2f}", flush=True)
        for orders in sides.values():
            orders.send(False)
    print(f"median ratio of {rounds} rounds: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
