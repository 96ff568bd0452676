"""How much memory an hour takes: decoding does not grow with the file, and applying stays far below rows in Python."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_SCRIPT = """
import json, resource, sys
from pathlib import Path

from deltalake import DeltaTable
import pyarrow.parquet, pyarrow.dataset, pyarrow.compute

from medallion.ingest import apply, arrow_merge, landing, ledger
from medallion.ingest.schema_evolution import arrow_schema
from medallion.ingest.source import digest
from tests.shop import registry
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


_READ = """
import os, resource, sys
import pyarrow as pa
from deltalake import write_deltalake

import pyarrow.parquet, pyarrow.dataset, pyarrow.compute
from medallion.errors import UsageError
from medallion.ingest import quarantine
from medallion.ingest.decode import Decoded
from tests.shop import registry
from medallion.storage.change_feed import changes
from medallion.storage.changed_values import changed_values
from medallion.storage.lake import Lake

what, files, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
feed, lake = registry()["bronze_orders"], Lake(folder)
if what == "quarantine":
    for number in range(files):
        bad = [(line, f"reason {line}", "x" * 2_000) for line in range(4_000)]
        hour = f"2025-11-{1 + number // 24:02}T{number % 24:02}"
        quarantine.write_rejected(lake, feed, hour, "run", Decoded(rejected=bad))
else:
    write_deltalake(lake.path(feed.name), pa.table({"order_id": pa.array([], pa.int64())}))
    for number in range(files):
        rows = pa.table({"order_id": pa.array(range(number * 400_000, (number + 1) * 400_000), pa.int64())})
        write_deltalake(lake.path(feed.name), rows, mode="append")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if what == "quarantine":
    print(len(quarantine.count_rejected(lake, feed)), file=sys.stderr)
    try:
        quarantine.read_rejected(lake, feed)
    except UsageError as refusal:
        print(refusal, file=sys.stderr)
else:
    found = changes(lake.folder(feed.name), 0, files)
    print(len(changed_values(lake.folder(feed.name), "order_id", found, 100_000)) > 100_000, file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, flush=True)
sys.stderr.flush()
os._exit(0)  # threads of Arrow may abort a process that ends while they are at work
"""


def peak_bytes_of_reading(what: str, files: int, folder: Path) -> tuple[int, list[str]]:
    """The memory that reading so many files takes, in a process of its own, and what came of it."""
    command = [sys.executable, "-c", _READ, what, str(files), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout), done.stderr.splitlines()


def test_reading_quarantine_takes_no_more_memory_when_it_grows(tmp_path: Path) -> None:
    few, _ = peak_bytes_of_reading("quarantine", 20, tmp_path / "few")
    many, (groups, refusal) = peak_bytes_of_reading("quarantine", 40, tmp_path / "many")
    assert many < few + (64 << 20)
    assert int(groups) == 40 * 21, "of an hour twenty reasons, and the others as one"
    assert refusal.endswith("give --hour; medallion quarantine list counts them by hour")


def test_changed_values_take_no_more_memory_for_a_change_eight_times_as_large(tmp_path: Path) -> None:
    few, said = peak_bytes_of_reading("changes", 2, tmp_path / "few")
    many, _ = peak_bytes_of_reading("changes", 16, tmp_path / "many")
    assert said == ["True"], "more than are wanted"
    assert many < few + (16 << 20)
