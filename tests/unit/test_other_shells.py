"""Another shell on the same lake: its time zone, locale, umask and user change nothing of what an hour does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from medallion.ingest.schema_evolution import arrow_schema
from medallion.ops import releases
from medallion.ops.lake_tables import TableRecord, write_record
from medallion.spark.configuration import TABLE_PROPERTIES
from medallion.storage.lake import Lake
from tests.shop import registry

pytestmark = pytest.mark.slow

HOURS = ("2025-03-30T00", "2025-03-30T01", "2025-03-30T02")  # clocks go forward in Europe, and back in none
SHELLS = {
    "plain": {},
    "zone": {"TZ": "America/New_York", "MEDALLION_EXTRAS": "true"},
    "zone with daylight saving in the hour": {"TZ": "Europe/Berlin"},
    "locale": {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
    "bare locale": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "user": {"USER": "somebody", "LOGNAME": "somebody", "HOME": "/nonexistent"},
}
_STEP = """
import os, sys
os.umask(int(sys.argv[2], 8))
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.pipeline.steps import run_step
from medallion.settings import Settings

settings = Settings.from_environment()
driver = Driver(settings)
assert "silver_orders_enriched" in driver.tables.tables and "bronze_orders_log" not in driver.tables.tables
for step in ("land", "apply"):
    run_step(step, Run(settings, sys.argv[1], "a run"), driver)
"""


def change_files(source: Path) -> None:
    """Three hours of orders and products, whose texts are of many letters."""
    for number, hour in enumerate(HOURS):
        for topic in ("orders", "products"):
            file = source / "cdc" / topic / f"{hour}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            moment = f"{hour}:30:00"
            order = {"order_id": number, "order_status": "ışİ é 😀", "order_total": "1.50", "created_at": moment}
            product = {"product_id": number, "product_name": "Ölkanne I", "updated_at": f"{hour}:30:00+02:00"}
            rows = {
                "orders": order | {"updated_at": f"{moment}Z", "ingested_at": moment.replace("T", " ")},
                "products": product,
            }
            line = json.dumps({"insert": rows[topic]}, ensure_ascii=False) + "\n"
            file.write_text(line + '{"insert": {}}\n', encoding="utf-8")


def applied(root: Path, shells: list[str], umasks: list[str]) -> dict[str, list[str]]:
    """The rows of Bronze and of quarantine once each hour was applied from a shell of its own."""
    lake, source = Lake(str(root / "lake")), root / "source"
    change_files(source)
    for feed in registry().feeds:
        DeltaTable.create(lake.path(feed.name), arrow_schema(feed.columns), configuration=TABLE_PROPERTIES)
    write_record(lake, TableRecord(extras=False))
    contents = releases.Contents({feed.name: 0 for feed in registry().feeds})
    releases.publish(lake, after=None, hour=None, run_id="load", strategy="full", contents=contents)
    own = {"MEDALLION_LAKE": lake.root, "MEDALLION_SOURCE": str(source), "MEDALLION_MAX_BAD_LINES": "1"}
    base = {name: value for name, value in os.environ.items() if not name.startswith("MEDALLION_")}
    for hour, shell, umask in zip(HOURS, shells, umasks, strict=True):
        environment = base | {"XDG_STATE_HOME": str(root / "state")} | SHELLS[shell] | own
        command = [sys.executable, "-c", _STEP, hour, umask]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, encoding="utf-8")
        assert done.returncode == 0, done.stderr[-2_000:]
        newest = releases.require_release(lake, None)  # an hour that readers do not have holds up the next
        releases.publish(lake, after=newest, hour=hour, run_id="a run", strategy="full", contents=contents)
    tables = {feed.name: lake.path(feed.name) for feed in registry().feeds}
    tables |= {f"rejected {topic}": lake.quarantine(topic) for topic in ("orders", "products")}
    return {name: sorted(map(str, DeltaTable(path).to_pyarrow_table().to_pylist())) for name, path in tables.items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What a plain shell makes of all hours."""
    return applied(tmp_path_factory.mktemp("plain"), ["plain"] * 3, ["022"] * 3)


@pytest.mark.parametrize(
    ("shells", "umasks"),
    [
        (["zone", "zone with daylight saving in the hour", "plain"], ["022", "077", "002"]),
        (["bare locale", "user", "locale"], ["077", "022", "077"]),
    ],
)
def test_hours_from_other_shells_have_the_same_rows(
    tmp_path: Path, expected: dict[str, list[str]], shells: list[str], umasks: list[str]
) -> None:
    assert [len(expected[name]) for name in ("bronze_orders", "bronze_products", "rejected orders")] == [3, 3, 3]
    assert applied(tmp_path, shells, umasks) == expected
