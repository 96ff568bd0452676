"""A lake in a bucket, over HTTP: the rows that it has on a disk, a kill in between, every reader."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner

from demo.generate import generate
from medallion.checks.docs_queue import build_data_docs
from medallion.cli.main import cli
from medallion.inspect.lake_difference import differing
from medallion.ops import event_log, releases
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.pipeline.run import Run
from medallion.settings import Settings
from medallion.spark.configuration import needed_conf
from medallion.storage import files
from medallion.storage.lake import Lake
from medallion.ui.reports import report_file, report_of_task, reports_page
from tests.part_of_shop import part_of_shop, some_tables
from tests.s3_server import run_s3_server

pytestmark = pytest.mark.long

H0, H1 = "2025-11-30T00", "2025-11-30T01"
LAKE = "s3a://lakes/a/shop"
BAD = '{"insert": {"order_id": "not a number"}}'

TABLES = "gold_order_status_summary", "gold_cancellation_impact"
LAST = "gold_order_status_summary"
# Loads the lake and refreshes its first hour; of the next one, this process sees half of Gold.
KILLED = f"""
import os, signal
from medallion.pipeline import operations
from medallion.pipeline.driver import Driver
from medallion.refresh.strategies import ENGINE_STRATEGIES
from medallion.pipeline.run import Run
from medallion.settings import Settings

settings = Settings.from_environment()
driver = Driver(settings)
operations.load(Run(settings, None, "load"), driver)
operations.refresh_hour(Run(settings, "{H0}", "first"), driver)

def killed(run, table):
    if table.name == "{LAST}":
        os.kill(os.getpid(), signal.SIGKILL)
    return ENGINE_STRATEGIES["incremental"](run, table)

dying = Driver(settings, strategies={{"incremental": killed}})
dying.use(driver.spark(None))
operations.refresh_hour(Run(settings, "{H1}", "second", strategy="incremental"), dying)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What leads to an S3 server with a bucket, and to a source whose first hour has a bad line."""
    root = tmp_path_factory.mktemp("s3")
    generate(root / "source", days=1, hours=2, scale=0.01, seed=1)
    with (root / "source" / "cdc" / "orders" / f"{H0}.json").open("a") as file:
        file.write(f"{BAD}\n")
    project = part_of_shop(root / "project", *TABLES)
    made = {
        "MEDALLION_PROJECT": str(project.root),
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "a secret",
        "MEDALLION_LAKE": LAKE,
        "MEDALLION_SOURCE": str(root / "source"),
        "MEDALLION_S3_REGION": "us-east-1",
        "MEDALLION_SPARK_MASTER": "local[2]",
        "MEDALLION_DRIVER_MEMORY": "2g",
        "MEDALLION_MAX_BAD_LINES": "0.5",
        "XDG_STATE_HOME": str(root / "state"),
    }
    with run_s3_server() as address, pytest.MonkeyPatch.context() as patch:
        made["MEDALLION_S3_ENDPOINT"] = address
        for name, value in made.items():
            patch.setenv(name, value)
        boto3.client("s3", endpoint_url=address, region_name="us-east-1").create_bucket(Bucket="lakes")
        yield made


@pytest.fixture(scope="module")
def lake(environment: dict[str, str]) -> Lake:
    """Loaded, refreshed in full, then incrementally by a run that is killed, and once more."""
    killed = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    made = Lake.of(Settings.from_environment())
    assert releases.require_release(made, None).hour == H0, "half an hour is not published"
    again = subprocess.run(
        [str(Path(sys.executable).with_name("medallion")), "refresh", "--hour", H1, "--strategy", "incremental"],
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stderr
    return made


@pytest.fixture(scope="module")
def on_disk(spark: Any, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same hours on a disk, in full."""
    settings = Settings(
        lake=str(tmp_path_factory.mktemp("disk") / "lake"), source=environment["MEDALLION_SOURCE"], max_bad_lines=0.5
    )
    driver = Driver(settings, report=lambda _: None)
    driver.use(spark)
    operations.load(Run(settings, None, "load"), driver)
    for hour in (H0, H1):
        operations.refresh_hour(Run(settings, hour, f"refresh-{hour}"), driver)
    return driver.lake


def said(*command: str) -> str:
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_the_commands_that_need_no_spark_read_it(lake: Lake) -> None:
    status = json.loads(said("status", "--format", "json"))
    assert (status["lake"], status["release"]["hour"], status["writer"]) == (LAKE, H1, None)
    assert {table["check"] for table in status["tables"]} <= {"succeeded", "warned"}
    found = json.loads(said("query", "--format", "json", "SELECT SUM(order_count) AS n FROM gold_order_status_summary"))
    kept = lake.state("silver_orders_enriched")
    assert kept is not None and found[0]["n"] == kept.rows
    (line,) = json.loads(said("quarantine", "show", "orders", "--format", "json"))
    assert (line["raw"].strip(), line["hour"], line["file"]) == (BAD, H0, f"orders/{H0}.json")


def test_a_query_reads_the_lake_and_nothing_else_of_the_bucket(lake: Lake) -> None:
    place = lake.at("s3a://lakes/private.csv")
    files.write_text(place, "a secret")
    done = CliRunner().invoke(cli, ["query", f"SELECT * FROM read_text('{place}')"])
    assert "read_text() cannot be used" in str(done.exception)


def test_its_reports_are_pages(lake: Lake) -> None:
    assert H1 in reports_page(lake)
    found = report_of_task(lake, "first", "gold.check")
    assert found is not None and "gold" in found.read_text(encoding="utf-8")
    assert build_data_docs(lake.reports) is None
    assert report_file(lake, "gx/site/index.html") is not None
    assert report_file(lake, "../../ops/releases/_delta_log/00000000000000000000.json") is None


def is_whole(lake: Lake, release: releases.Release) -> bool:
    """Whether every table can still be read as the release has it."""
    return all(lake.is_whole(table, version) for table, version in release.versions.items())


def test_upkeep_leaves_what_releases_name(lake: Lake) -> None:
    *old, one, another = releases.read_all(lake)
    assert "old data files" in said("maintain", "--keep-hours", "0")
    assert old and not any(is_whole(lake, release) for release in old), "as they need files that nothing else names"
    assert is_whole(lake, one) and is_whole(lake, another)
    said("query", "SELECT COUNT(*) FROM silver_orders_enriched")


def test_spark_gets_the_jars_for_buckets_only_where_the_lake_is_in_one(tmp_path: Path) -> None:
    here, there = (needed_conf(Settings(lake=lake), "local[2]") for lake in (str(tmp_path), LAKE))
    assert "spark.jars" not in here and "hadoop-aws" in there["spark.jars"]
    assert not [name for name in here if "s3a" in name]
    assert there["spark.delta.logStore.s3a.impl"].endswith("S3SingleDriverLogStore")
    assert not any(os.environ.get(name, "-") in there.values() for name in ("AWS_SECRET_ACCESS_KEY",))


def test_every_table_has_the_rows_that_it_has_on_a_disk(lake: Lake, on_disk: Lake) -> None:
    tables = some_tables(*TABLES)
    assert differing(on_disk, lake, tables) == []
    for feed in tables.feeds:
        one, other = (at.state(feed.name) for at in (on_disk, lake))
        assert one is not None and other is not None and one.rows == other.rows
    assert {row.strategy for row in event_log.read(lake, hour=H1, event_type="refresh", status="succeeded")} == {
        "full",
        "incremental",
    }
