"""Full refresh against the naive one: same Bronze, same queries, same session settings otherwise, taken in turns.

Run it as ``python -m bench.full_vs_naive [ROUNDS]`` against a loaded lake (MEDALLION_LAKE); it writes to a scratch copy
of Silver and Gold and leaves the lake as it was. Both sides are warmed up by a first round that is not counted.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.naive import SETTINGS, refresh_naive
from spark_jobs.core.lake import Lake
from spark_jobs.core.refresh import refresh_full, side_by_side
from spark_jobs.core.registry import registry
from spark_jobs.core.session import spark_session
from spark_jobs.core.settings import Settings


def main(rounds: int) -> None:
    """Print the seconds of each round and the median ratio of full to naive."""
    settings, tables = Settings.from_environment(), registry()
    spark = spark_session(settings)
    plain = spark.newSession()
    for key, value in SETTINGS.items():
        plain.conf.set(key, value)
    with tempfile.TemporaryDirectory(dir=Path(settings.lake).parent) as scratch:
        full_lake, naive_lake = Lake(f"{scratch}/full"), Lake(f"{scratch}/naive")
        shutil.copytree(Lake(settings.lake).root + "/bronze", full_lake.root + "/bronze")
        ratios = []
        for number in range(rounds + 1):
            start = time.perf_counter()
            for layer in ("silver", "gold"):
                queries = tables.queries(layer)
                side_by_side(spark, queries, lambda t: refresh_full(spark, full_lake, t, hour=None, run_id="bench"))
            full = time.perf_counter() - start
            start = time.perf_counter()
            refresh_naive(plain, full_lake, naive_lake, tables)
            naive = time.perf_counter() - start
            what = f"round {number}" if number else "warm-up"
            print(f"{what}: full {full:.1f} s, naive {naive:.1f} s, ratio {full / naive:.2f}", flush=True)
            ratios += [full / naive] if number else []
    print(f"median ratio of {rounds} rounds: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
