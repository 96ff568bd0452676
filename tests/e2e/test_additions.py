"""A table, a feed, a dimension and a layer are added to a copy of the project, refreshed in both ways, and removed."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.shop import PROJECT
from tests.warm_spark import Warm, warm_spark

PARTS = (
    *("medallion.toml", "refresh.lock", "spark_jobs", "expectations", "demo", "dags", "plugins"),
    *("medallion", "bench", "pyproject.toml"),
)
H0, H1, H2, H3 = (f"2025-11-30T{hour:02}" for hour in range(4))
# Whole modules begin with their docstring; other examples on the page are pieces of one.
EXAMPLE = re.findall(r'```python\n(""".*?)```', (PROJECT / "docs/how-to/add-a-table.md").read_text(), re.S)
ADDED = {
    "spark_jobs/gold/orders_by_country.py": EXAMPLE[0],
    "spark_jobs/bronze/payments.py": EXAMPLE[1],
    "spark_jobs/bronze/payments_log.py": EXAMPLE[2],
    "spark_jobs/silver/payments_history.py": EXAMPLE[3],
    "spark_jobs/diamond/__init__.py": "",
    "spark_jobs/diamond/payments_by_state.py": EXAMPLE[4],
}
TABLES = ("gold_orders_by_country", "bronze_payments", "silver_payments_history", "diamond_payments_by_state")


@dataclass(frozen=True)
class Project:
    """A copy of the project, with a lake and a source of its own, and the Spark that its commands attach to."""

    root: Path
    warm: Warm

    def run(self, *words: str) -> str:
        """Run a command of the copy, and return what it printed. Fails with what it said."""
        environment = os.environ | {
            "PYTHONPATH": str(self.root),
            "MEDALLION_JARS": str(PROJECT / ".jars"),
            "MEDALLION_LAKE": str(self.root / "lake"),
            "MEDALLION_SOURCE": str(self.root / "source"),
            **self.warm.attached,
        }
        command = [sys.executable, "-m", "medallion", *words]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def rows(self, query: str) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = json.loads(self.run("query", query, "--format", "json"))
        return rows

    def deliver(self, hour: str, *lines: Mapping[str, object]) -> None:
        """Have the source deliver a change file of payments."""
        file = self.root / "source" / "cdc" / "payments" / f"{hour}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    root = tmp_path_factory.mktemp("project")
    for part in PARTS:
        copy = shutil.copytree if (PROJECT / part).is_dir() else shutil.copy2
        copy(PROJECT / part, root / part)
    for name, text in ADDED.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    declared = root / "medallion.toml"
    declared.write_text(declared.read_text().replace('"platinum"]', '"platinum", "diamond"]', 1))
    with warm_spark() as warm:
        warm.jvm()
        yield Project(root, warm)


def payment(state: str, moment: str) -> dict[str, object]:
    return {"payment_id": 1, "order_id": 7, "state": state, "updated_at": moment}


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_additions_are_refreshed_in_both_ways_and_can_be_removed(project: Project) -> None:
    assert "bronze_payments" in project.run(
        "source", "generate", "source", "--days", "2", "--hours", "4", "--scale", "0.05"
    )
    first, then = payment("open", f"{H0}:10:00"), payment("paid", f"{H1}:20:00")
    project.deliver(H0, {"insert": first})
    project.deliver(H1, {"delete": first}, {"insert": then})
    project.run("load")
    project.run("refresh", "--hour", H0, "--strategy", "full")
    assert project.rows("SELECT state, payments FROM diamond_payments_by_state") == [{"state": "open", "payments": 1}]
    project.run("refresh", "--hour", H1, "--strategy", "incremental")
    assert project.rows("SELECT state, payments FROM diamond_payments_by_state") == [{"state": "paid", "payments": 1}]
    history = project.rows("SELECT state, __END_AT IS NULL AS holds FROM silver_payments_history ORDER BY __START_AT")
    assert history == [{"state": "open", "holds": False}, {"state": "paid", "holds": True}]
    counted = project.rows("SELECT SUM(order_count) AS orders FROM gold_orders_by_country")
    assert counted == project.rows("SELECT COUNT(*) AS orders FROM silver_orders_enriched")
    status = {row["table"]: row for row in json.loads(project.run("tables", "--format", "json"))}
    assert {status[name]["hour"] for name in TABLES} == {H1}

    for name in ADDED:
        (project.root / name).unlink()
    for name in (*TABLES, "bronze_payments_log"):
        project.run("tables", "--drop", name)
    project.run("refresh", "--hour", H2, "--strategy", "incremental")
    published = json.loads(project.run("release", "show", "--format", "json"))
    assert not {row["table"] for row in published} & {*TABLES, "bronze_payments_log"}
    assert {row["table"] for row in published} >= {"gold_inventory_risk", "bronze_orders"}
