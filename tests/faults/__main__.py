"""Many faults in one run: ``python -m tests.faults [--seed N] [--faults N] [--strategy S] [--source S] [--lake L]``.

Each strikes a lake that is its own, is followed by a plain re-run, and then every table is compared with an
undisturbed run, row by row, while a reader polls the published release. Exit code 1 when anything differs.
``python -m tests.faults.soak`` runs a week of hours in one go.
"""

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from medallion.cli.console import progress_bar
from medallion.loopback import go_past_proxies
from medallion.model.table import STRATEGIES
from medallion.settings import Settings
from medallion.spark.session import spark_session
from tests.faults.cluster import cluster_in, s3_server
from tests.faults.faults import Result, every_fault, suffer
from tests.faults.kafka import KAFKA, SOURCES, from_kafka
from tests.faults.part_faults import faults_of_parts
from tests.faults.world import World, make_world, state_of_small_inputs
from tests.part_of_shop import some_tables
from tests.shop import registry


def main() -> int:
    """Run them and report."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--seed", type=int, default=0, help="chooses the random ones, and which when not all")
    parser.add_argument("--faults", type=int, default=0, help="at most so many  [all]")
    parser.add_argument("--only", default="", metavar="PATTERN", help="those whose name has this regular expression")
    parser.add_argument("--strategy", choices=STRATEGIES, default="full", help="how hours are refreshed")
    parser.add_argument("--source", choices=SOURCES, default="files", help="kafka: several change files of an hour")
    parser.add_argument(
        "--lake", choices=("disk", "s3"), default="disk", help="s3: MEDALLION_S3_ENDPOINT, or one of our own"
    )
    parser.add_argument("--merge-on-read", default="8m", metavar="SIZE", help="1k: in every table where it pays  [8m]")
    parser.add_argument("--cluster", action="store_true", help="on a master and two workers, not in one JVM")
    parser.add_argument("--all-tables", action="store_true", help="the 22 tables, not the 10 that go every way")
    parser.add_argument("--report", type=Path, help="the results as JSON; one that is there is continued")
    given = parser.parse_args()
    go_past_proxies()
    os.environ["TZ"] = "UTC"
    time.tzset()
    tables = registry()
    if not given.all_tables:
        tables = some_tables("gold_order_status_summary")
    if given.source == KAFKA:
        tables = from_kafka(tables)
    with ExitStack() as stack:
        stack.enter_context(state_of_small_inputs())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-"))
        bucket = stack.enter_context(s3_server()) if given.lake == "s3" else ""
        master = "local[2]"
        if given.cluster:
            master = stack.enter_context(cluster_in(Path(folder, "cluster"), cores=2, memory="2g")).master
            os.environ |= {"MEDALLION_EXECUTOR_MEMORY": "600m", "MEDALLION_MAX_CORES": "2"}  # for two drivers at once
        os.environ |= {"MEDALLION_SPARK_MASTER": master, "MEDALLION_LAKE": bucket or str(Path(folder, "none"))}
        spark = spark_session(Settings.from_environment().replace(driver_memory="2g"), "faults")
        advance = stack.enter_context(progress_bar())
        world = make_world(Path(folder, "world"), spark, tables, bucket=bucket, merge_on_read=given.merge_on_read)
        numbers, last = count(), list[World]()

        def fresh(since: str | None) -> World:
            while last:
                last.pop().remove()
            # In a bucket each under a name of its own: who reads there keeps what it has read.
            name = f"scratch-{next(numbers)}" if bucket else "scratch"
            last.append(world.copy(Path(folder, name), since, given.strategy))
            return last[-1]

        every = faults_of_parts if given.source == KAFKA else every_fault
        faults = [fault for fault in every(fresh, given.seed) if re.search(given.only, fault.name)]
        if given.faults:
            faults = random.Random(given.seed).sample(faults, min(given.faults, len(faults)))
        results = json.loads(given.report.read_text()) if given.report and given.report.exists() else []
        done = {result["fault"] for result in results}
        for number, fault in enumerate(faults):
            advance(fault.name, number, len(faults))
            if fault.name in done:
                continue
            results.append(told(suffer(fault, fresh(fault.since))))
            if bad := [*results[-1]["differing"], *results[-1]["torn"]]:
                print(f"seed {given.seed}: {fault.name} ({results[-1]['struck']}): {'; '.join(bad)}", file=sys.stderr)
            if given.report:
                given.report.write_text(json.dumps(results, indent=1))
    print(summary(results))
    return int(any(result["differing"] or result["torn"] for result in results))


def told(result: Result) -> dict[str, Any]:
    """One result as plain values."""
    values = {name: value for name, value in vars(result).items() if name != "fault"}
    return {"fault": result.fault.name, "ids": result.fault.ids, **values}


def summary(results: list[dict[str, Any]]) -> str:
    """A Markdown table: by kind of fault how many, differing tables, torn reads, and seconds to recover."""
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        kinds[result["ids"]].append(result)
    lines = ["| ids | faults | tables that differ | torn reads | of reads | seconds to recover, median and most |"]
    lines += ["|---|---|---|---|---|---|"]
    for ids, group in [*kinds.items(), ("all", results)]:
        differing, torn = (sum(len(result[kind]) for result in group) for kind in ("differing", "torn"))
        seconds = sorted(result["seconds_to_recover"] for result in group)
        figures = f"{len(group):,} | {differing:,} | {torn:,} | {sum(result['reads'] for result in group):,}"
        lines.append(f"| {ids} | {figures} | {seconds[len(seconds) // 2]:.1f}, {seconds[-1]:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
