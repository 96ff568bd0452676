"""Hundreds of tables in one Spark: ``python -m tests.many_tables --tables 300 --rounds 2``.

The shop's computed tables many times over, each copy with a column and so with code of its own, are computed and
written in one session, round after round. It prints how full the JVM is, and ends with an error when a figure is above
MAX_SHARE of its limit.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from demo.generate import generate
from medallion.model.table import Table
from medallion.settings import Settings
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.spark.jvm import jvm_of
from medallion.spark.jvm_usage import jvm_usage, shortage, shown
from medallion.spark.session import spark_session
from tests.jvm import MAX_SHARE
from tests.shop import registry

EVERY = 25  # tables between two lines of figures


def copies() -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Name, inputs and query of one copy of each computed table after another, without end; a copy reads copies."""
    computed = [table for table in registry() if isinstance(table, Table)]
    number = 0
    while True:
        number += 1
        for table in computed:
            query, own = table.query, {other.name: f"{other.name}_{number}" for other in computed}
            for name, copy in own.items():
                query = query.replace(f"{{{name}}}", f"{{{copy}}}")
            inputs = tuple(own.get(name, name) for name in table.inputs)
            yield (
                own[table.name],
                inputs,
                f"SELECT *, {number} + LENGTH('{table.name}') AS copy_{number} FROM ({query})",
            )


def compute(spark: Any, folder: Path, name: str, inputs: tuple[str, ...], query: str) -> None:
    """Recompute one table from its inputs, as a full refresh does."""
    sources = {source: folder / "snapshot" / source for source in inputs}
    places = {source: place if place.exists() else folder / "lake" / source for source, place in sources.items()}
    frames = {source: spark.read.format("delta").load(str(place)) for source, place in places.items()}
    rows = spark.sql(query, **frames).coalesce(1)
    rows.write.format("delta").mode("overwrite").options(**TABLE_PROPERTIES).save(str(folder / "lake" / name))


def main() -> None:
    """Run it, and say how full the JVM got."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    settings, began = Settings(spark_master="local[2]", driver_memory="2g"), time.monotonic()
    with TemporaryDirectory() as root:
        folder = Path(root)
        generate(folder, days=2, hours=1, scale=0.02, seed=1)
        spark = spark_session(settings, "many tables")
        for number in range(asked.rounds):
            for count, table in enumerate(islice(copies(), asked.tables), start=1):
                compute(spark, folder, *table)
                if count % EVERY == 0 or count == asked.tables:
                    usage = jvm_usage(jvm_of(spark))
                    figures = ", ".join(
                        f"{name.replace('_', ' ')} {shown(name, value)}" for name, value in usage.items()
                    )
                    print(
                        f"round {number + 1}, {count} tables, {time.monotonic() - began:.0f} s: {figures}", flush=True
                    )
        spark.stop()
    if short := shortage(usage, MAX_SHARE):
        sys.exit(f"more than {MAX_SHARE:.0%} of a limit is in use: {short}")


if __name__ == "__main__":
    main()
