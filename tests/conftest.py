"""What tests share: one Spark session for all that need one, and a bucket for a lake behind an S3 server over HTTP."""

import os
import random
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from medallion.loopback import go_past_proxies
from tests import jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

go_past_proxies()
os.environ.setdefault("SPARK_SUBMIT_OPTS", jvm.TEST_JVM_OPTIONS)


def pytest_addoption(parser: pytest.Parser) -> None:
    """--shuffle SEED: no test may need another one before it."""
    parser.addoption("--shuffle", metavar="SEED", help="Run the files in a random order, the same for one SEED.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle whole files: their fixtures are made once."""
    if (seed := config.getoption("--shuffle")) is not None:
        files = [list(tests) for _, tests in groupby(sorted(items, key=lambda item: item.path), lambda item: item.path)]
        random.Random(seed).shuffle(files)
        items[:] = [item for tests in files for item in tests]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give a test a new session where an earlier one has ended the JVM of the one that they share."""
    if "spark" in getattr(item, "fixturenames", ()):
        jvm.renew_if_ended(item)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker tells of its JVMs."""
    jvm.take_output(node.config, getattr(node, "workeroutput", {}))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail when a JVM was short of anything: on the next machine it ends."""
    if hasattr(session.config, "workeroutput"):  # of a worker: whoever started it decides
        session.config.workeroutput["jvm"] = jvm.as_output(session.config)
    elif jvm.shortage_of_suite(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how full the fullest JVM was, and which sessions had to be replaced."""
    lines = list(jvm.summary_of_suite(config))
    if lines:
        terminalreporter.section("Spark's JVMs at their end")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> "Iterator[SparkSession]":
    """The project's own session on two cores, in UTC on both sides, without what a handful of rows does not need."""
    from medallion.settings import Settings
    from medallion.spark import own_jvm
    from medallion.spark.session import spark_session

    os.environ["TZ"] = "UTC"
    time.tzset()
    session = spark_session(Settings.from_environment().replace(spark_master="local[2]", driver_memory="2g"), "tests")
    session.conf.set("spark.sql.adaptive.enabled", False)
    session.conf.set("spark.sql.shuffle.partitions", 2)
    yield session
    if not own_jvm.end_of_jvm():
        jvm.record_usage(request.config, int(session._jvm.java.lang.ProcessHandle.current().pid()))
        session.stop()
    own_jvm.end_jvm()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server."""
    from tests.s3_server import run_s3_server

    with run_s3_server() as address:
        yield address


@pytest.fixture
def lake_bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The empty bucket ``lakes``, to which the environment leads."""
    import boto3

    for name, value in {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "a secret",
        "MEDALLION_S3_ENDPOINT": s3_server,
        "MEDALLION_S3_REGION": "us-east-1",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }.items():
        monkeypatch.setenv(name, value)
    bucket = boto3.resource("s3", endpoint_url=s3_server, region_name="us-east-1").Bucket("lakes")
    bucket.create()
    bucket.objects.all().delete()
    return bucket
