"""One Spark session for every test that needs one, and which tests stay together where two run at a time."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests share what is dear to set up, and those of faults a world."""
    for item in items:
        together = item.path.parent if item.path.parent.name == "faults" else item.path
        item.add_marker(pytest.mark.xdist_group(str(together)))


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """The project's own session on two cores, in UTC on both sides, without what a handful of rows does not need."""
    from spark_jobs.core.session import spark_session
    from spark_jobs.core.settings import Settings

    os.environ["TZ"] = "UTC"
    time.tzset()
    session = spark_session(replace(Settings.from_environment(), spark_master="local[2]", driver_memory="2g"), "tests")
    session.conf.set("spark.sql.adaptive.enabled", False)
    session.conf.set("spark.sql.shuffle.partitions", 2)
    yield session
    session.stop()
