"""Another account looks at a lake that is not its own: it sees what it may, and one line where it may not."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from medallion.ops.event_log import EventLog
from tests.shop import PROJECT
from tests.unit.small_lake import H0, Shop

# Root may read and write everything: without these two capabilities it is an account like any other.
LIKE_ANY_OTHER = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)
PREFIX = LIKE_ANY_OTHER if os.geteuid() == 0 else ()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PREFIX != () and shutil.which("setpriv") is None, reason="root needs setpriv for this"),
]


def medallion(shop: Shop, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as an account that has no other rights than the lake's files give."""
    return subprocess.run(
        [*PREFIX, sys.executable, "-c", "from medallion.cli.main import main; main()", *command],
        capture_output=True,
        text=True,
        cwd=PROJECT,
        env=os.environ | {"MEDALLION_LAKE": shop.settings.lake},
    )


@pytest.fixture
def let_go(shop: Shop) -> Iterator[None]:
    """Give the rights back, so that the folder can be removed."""
    yield
    for folder, _, _ in os.walk(shop.root, onerror=None):
        Path(folder).chmod(0o755)


def read_only(lake: str) -> None:
    for path in (Path(lake), *Path(lake).rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def test_status_needs_no_right_to_write(shop: Shop, let_go: None) -> None:
    shop.put(H0, {1: "a"})
    shop.refresh()
    read_only(shop.settings.lake)
    (Path(shop.settings.lake) / "ops" / "writer.lock").chmod(0)
    done = medallion(shop, "status")
    assert (done.returncode, done.stderr) == (0, "")
    assert "release 2" in done.stdout


@pytest.mark.parametrize(
    "hidden", ["ops/event_log.*.waiting", "ops/releases/_delta_log", "ops", "bronze/orders/_delta_log"]
)
def test_status_is_one_line_when_a_part_of_the_lake_cannot_be_read(shop: Shop, let_go: None, hidden: str) -> None:
    log = EventLog(shop.lake, run_id="r", hour=H0, strategy="full", attempt=1)
    log.add("land", "bronze", None)
    log.write_waiting()
    (place,) = Path(shop.settings.lake).glob(hidden)
    place.chmod(0)
    done = medallion(shop, "status")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("medallion: ")
    assert "denied" in line or "cannot be read" in line


@pytest.mark.parametrize(
    ("hidden", "rights"),
    [
        ("silver/orders", 0),
        ("silver/orders/_delta_log", 0o311),
        ("silver/orders/_delta_log", 0o644),
        ("silver/orders/_delta_log/00000000000000000000.json", 0),
    ],
)
def test_a_part_of_a_table_without_permission_is_named(shop: Shop, let_go: None, hidden: str, rights: int) -> None:
    place = Path(shop.settings.lake, hidden)
    place.chmod(rights)
    table = Path(shop.settings.lake, "silver", "orders")
    read = f"from pathlib import Path; from medallion.storage.lake import open_table; open_table(Path({str(table)!r}))"
    done = subprocess.run([*PREFIX, sys.executable, "-c", read], capture_output=True, text=True, cwd=PROJECT)
    reason = f"{table} cannot be read: this account has no permission to read {place}"
    assert done.stderr.splitlines()[-1] == f"medallion.errors.MedallionError: {reason}"
