"""A project with hundreds of tables in one Spark: ``python -m tests.many_tables --tables 300 --hours 2``.

It has the shop's own tables many times over, each copy with code of its own. After the load and after each hour it
prints how full the JVM is, and ends with an error when that is more than MAX_SHARE of a limit.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from medallion.demo.generate import generate
from medallion.hours import hour_range
from medallion.model.registry import Registry, registry
from medallion.model.table import Table
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.settings import Settings
from medallion.spark.jvm_usage import Usage, jvm_usage, shortage, shown
from tests.jvm import MAX_SHARE

FIRST = "2025-11-30T00"


def many_tables(count: int) -> Registry:
    """The shop's tables, and copies of those that are computed until there are ``count`` tables."""
    shop = registry()
    tables = dict(shop.tables)
    for table in _copies(shop):
        if len(tables) >= count:
            break
        tables[table.name] = table
    return Registry(tables)


def _copies(shop: Registry) -> Iterator[Table]:
    """One copy of each computed table after another, without end. A copy reads copies, and has a column of its own."""
    computed = [table for table in shop if isinstance(table, Table)]
    number = 0
    while True:
        number += 1
        for table in computed:
            query = table.query
            for other in computed:
                query = query.replace(f"{{{other.name}}}", f"{{{other.name}_{number}}}")
            own = f"SELECT *, {number} + LENGTH('{table.name}') AS copy_{number} FROM ({query})"
            yield replace(table, name=f"{table.name}_{number}", query=own, incremental=None, expect=(), drops=())


def run(count: int, hours: int, folder: Path, master: str) -> dict[str, Usage]:
    """Load, and refresh ``hours`` in full, in one JVM; return its figures at the end."""
    last = f"{FIRST[:11]}{hours - 1:02}" if hours else FIRST
    generate(folder / "source", days=2, hours=max(hours, 1), scale=0.02, seed=1)
    settings = Settings(
        lake=str(folder / "lake"), source=str(folder / "source"), spark_master=master, max_bad_lines=0.1
    )
    driver = Driver(settings, report=lambda _: None)
    driver.tables = many_tables(count)
    usage: dict[str, Usage] = {}
    steps: list[str | None] = [None, *(hour_range(FIRST, last) if hours else ())]
    try:
        for hour in steps:
            began = time.monotonic()
            if hour is None:
                operations.load(Run(settings, None, "load"), driver)
            else:
                operations.refresh_hour(Run(settings, hour, hour), driver)
            usage = jvm_usage(driver.cpu.process or 0)
            figures = ", ".join(f"{name.replace('_', ' ')} {shown(name, value)}" for name, value in usage.items())
            print(f"{hour or 'load'}: {len(driver.tables.tables)} tables, {time.monotonic() - began:.0f} s: {figures}")
            sys.stdout.flush()
    finally:
        driver.stop()
    return usage


def main() -> None:
    """Run it, and say how full the JVM got."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--hours", type=int, default=2)
    parser.add_argument("--master", default="local[2]")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        usage = run(asked.tables, asked.hours, Path(folder), asked.master)
    if short := shortage(usage, MAX_SHARE):
        sys.exit(f"more than {MAX_SHARE:.0%} of a limit is in use: {short}")


if __name__ == "__main__":
    main()
