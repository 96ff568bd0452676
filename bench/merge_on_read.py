"""What a change of scattered rows costs, with files rewritten and with rows marked as deleted.

    python -m bench.merge_on_read

One table as an hour's upsert finds it: orders clustered by key, in files of 20,000 rows. Each commit replaces orders
that lie all over it. Prints CPU seconds of this process, all its threads, and bytes written; then what reading costs.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from medallion.refresh.commits import ROWS_PER_FILE
from medallion.storage.delta_writes import bytes_written, properties, replace_rows, rows_with_keys
from medallion.storage.duckdb_views import TableAt, open_views
from medallion.storage.lake import state_of
from medallion.storage.merge_on_read import FileLayout
from medallion.storage.purge import purge

ORDERS, CHANGED, COMMITS = 650_000, 958, 12
SCHEMA = pa.schema(
    [
        *(("order_id", pa.int64()), ("user_id", pa.int64()), ("order_status", pa.string())),
        *(("order_total", pa.decimal128(12, 2)), ("created_at", pa.timestamp("us", "UTC")), ("note", pa.string())),
    ]
)


def main() -> None:
    """Measure both ways on equal tables, compare their rows, and print the figures."""
    figures: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    with TemporaryDirectory(prefix="merge-on-read-") as scratch:
        for name, marks_from in (("rewritten", None), ("marked", 1 << 20)):
            folder = Path(scratch, name)
            _make(folder)
            figures[name] = _measure(folder, marks_from)
            rows[name] = _checksum(folder)
        assert rows["rewritten"] == rows["marked"], "the same rows in both ways"
    json.dump(figures, sys.stdout, indent=1)


def _make(folder: Path) -> None:
    chance = np.random.default_rng(0)
    for start in range(0, ORDERS, ROWS_PER_FILE):
        part = _orders(chance, range(start, min(ORDERS, start + ROWS_PER_FILE)))
        write_deltalake(str(folder), part, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


def _orders(chance: np.random.Generator, keys: Sequence[int]) -> pa.Table:
    count = len(keys)
    totals = pa.array(chance.integers(10**6, size=count)).cast(pa.decimal128(21, 2))
    columns = {
        "order_id": pa.array(keys, pa.int64()),
        "user_id": chance.integers(100_000, size=count),
        "order_status": chance.choice(["placed", "shipped", "delivered", "cancelled"], count),
        "order_total": totals.cast(pa.decimal128(12, 2)),
        "created_at": pa.array(chance.integers(10**12, size=count)).cast(SCHEMA.field("created_at").type),
        "note": [f"{number:x}" for number in chance.integers(10**9, size=count)],
    }
    return pa.table(columns, schema=SCHEMA)


def _measure(folder: Path, marks_from: int | None) -> dict[str, Any]:
    chance, commits = np.random.default_rng(1), []
    figures: dict[str, Any] = {"read_before": _cpu(lambda: _checksum(folder))}
    for _ in range(COMMITS):
        keys = sorted(chance.choice(ORDERS, CHANGED, replace=False).tolist())
        rows, delta = _orders(chance, keys), DeltaTable(str(folder))
        layout = FileLayout(folder, 1 << 20, marks_from)
        commit = properties("{}", upon=delta)
        seconds = _cpu(lambda: replace_rows(delta, rows, "order_id", keys, commit, layout))  # noqa: B023 (at once)
        entry = folder / "_delta_log" / f"{delta.version():020}.json"
        commits.append((seconds, bytes_written(folder, delta.version()), entry.stat().st_size))
    figures["cpu_per_commit"] = sorted(seconds for seconds, *_ in commits)[COMMITS // 2]
    figures["megabytes_per_commit"] = round(sum(size for _, size, _ in commits) / COMMITS / 1e6, 3)
    figures["log_megabytes_per_commit"] = round(sum(size for *_, size in commits) / COMMITS / 1e6, 3)
    delta = DeltaTable(str(folder))
    figures["files"] = state_of(delta).files
    figures["read_after"] = _cpu(lambda: _checksum(folder))
    few = pa.table({"order_id": chance.choice(ORDERS, CHANGED, replace=False)})
    figures["read_by_key_after"] = _cpu(lambda: rows_with_keys(delta, folder, few, SCHEMA.names))
    figures["purge"] = _cpu(lambda: purge(delta, folder, "{}", least_share=0.0))
    return figures


def _cpu(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return round(time.process_time() - started, 3)


def _checksum(folder: Path) -> Any:
    with open_views({"t": TableAt(folder)}) as views:
        assert not views.errors, views.errors
        columns = ", ".join(SCHEMA.names)
        query = f"SELECT COUNT(*), SUM(order_total), BIT_XOR(HASH({columns})) FROM t"  # noqa: S608
        return views.connection.execute(query).fetchall()


if __name__ == "__main__":
    main()
