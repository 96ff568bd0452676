"""What tests share: one Spark session for all that need one, and a bucket for a lake behind an S3 server over HTTP."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests are over before the JIT's second compiler pays off: without it a JVM needs half the CPU time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """The project's own session on two cores, in UTC on both sides, without what a handful of rows does not need."""
    from medallion.settings import Settings
    from medallion.spark.session import spark_session

    os.environ["TZ"] = "UTC"
    time.tzset()
    session = spark_session(Settings.from_environment().replace(spark_master="local[2]", driver_memory="2g"), "tests")
    session.conf.set("spark.sql.adaptive.enabled", False)
    session.conf.set("spark.sql.shuffle.partitions", 2)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


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
