"""One Spark session for every test that needs one."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
