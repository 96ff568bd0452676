"""How much memory an hour takes: decoding does not grow with the file, and applying stays far below rows in Python."""

import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import json, resource, sys
from pathlib import Path

from deltalake import DeltaTable
import pyarrow.parquet, pyarrow.dataset, pyarrow.compute

from medallion.ingest import apply, arrow_merge, landing, ledger
from medallion.ingest.schema_evolution import arrow_schema
from medallion.ingest.source import digest
from medallion.model.registry import registry
from medallion.storage.lake import Lake

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

what, lines, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
feed, lake, hour = registry()["bronze_orders"], Lake(folder), "2025-11-30T00"
DeltaTable.create(lake.path(feed.name), arrow_schema(feed.columns))

def land(hour, lines):
    file = lake.landing / "orders" / f"{hour}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    moment = "2025-11-30T00:00:00Z"
    with file.open("w") as stream:
        for n in range(lines):
            row = {"order_id": n // 2, "user_id": n, "order_status": "pending", "order_total": "12.50"}
            row |= {"payment_method": "card", "created_at": moment, "updated_at": moment, "ingested_at": moment}
            if what == "quarantine":
                row["order_id"] = None
            stream.write(json.dumps({"insert": row}) + "\\n")
    ledger.write_manifest(lake, ledger.Manifest(hour, "/source", {"orders": digest(file.open("rb"))}))

def step(hour, lines):
    land(hour, lines)
    decoded = landing.decode_hour(lake, (feed,), hour, 1.0)
    if what == "apply":
        apply.apply_feed(None, lake, feed, hour, decoded[feed.name])

step(hour, 1_000)
before = peak()
step("2025-11-30T01", lines)
print(peak() - before)
"""


def peak_bytes(what: str, lines: int, folder: Path) -> int:
    """The memory that an hour of so many lines takes beyond what an hour of 1,000 takes, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, what, str(lines), str(folder)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_decoding_takes_no_more_memory_for_a_file_eight_times_as_long(tmp_path: Path) -> None:
    small, large = (peak_bytes("decode", lines, tmp_path / str(lines)) for lines in (25_000, 200_000))
    assert large < 1.5 * small + (16 << 20)


def test_applying_takes_a_few_hundred_bytes_a_line(tmp_path: Path) -> None:
    lines = 200_000
    assert peak_bytes("apply", lines, tmp_path) / lines < 900  # rows in Python took more than 1,700


def test_rejected_lines_are_held_up_to_a_bound(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failure:
        peak_bytes("quarantine", 120_000, tmp_path)
    assert "more than 64 MB of bad lines" in failure.value.stderr
