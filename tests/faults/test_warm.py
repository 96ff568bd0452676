"""A warm Spark: processes that attach to it give the same rows, whatever becomes of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.errors import MedallionError
from medallion.ops import event_log
from medallion.ops.writer_lock import current_writer
from medallion.settings import Settings
from medallion.spark import session
from medallion.spark.session import TOKEN_VARIABLE
from tests.faults.faults import FEW, start
from tests.faults.world import HOURS, World, differing
from tests.warm_spark import Warm, warm_spark

H0, H1, H2 = HOURS


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with warm_spark() as made:
        yield made


def refresh(world: World, hour: str, warm: Warm) -> None:
    process = start(world, hour, **warm.attached)
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 0, told


def test_an_hour_on_a_warm_spark_has_the_same_rows(world: World, warm: Warm) -> None:
    warm.jvm()
    world.strategy = "incremental"
    refresh(world, H0, warm)
    assert differing(world, H0) == []
    (row,) = event_log.read(world.lake, hour=H0, event_type="session")
    assert row.details["attached_to"] == warm.attached["MEDALLION_SPARK_CONNECT"]
    steps = [row for row in event_log.read(world.lake, hour=H0, event_type="refresh") if row.table_name is None]
    assert all(0 < row.cpu_seconds < 600 for row in steps), "the seconds of these steps, not of the server's life"


COPY_OF_AN_EMPTY_TABLE = """
import sys
from medallion.settings import Settings
from medallion.spark.delta_reads import read_table
from medallion.spark.session import spark_session
from medallion.storage.lake import Lake, state_of
source, target = sys.argv[1:]
spark = spark_session(Settings.from_environment())
rows = read_table(spark, source, state_of(Lake(source).opened(source)))
rows.write.format("delta").save(target)
"""


def test_an_empty_table_that_a_warm_spark_reads_is_written_with_types_that_others_can_read(
    warm: Warm, tmp_path: Path
) -> None:
    warm.jvm()
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    schema = pa.schema([("region", pa.string()), ("regions", pa.list_(pa.string())), ("n", pa.int64())])
    write_deltalake(source, schema.empty_table())
    subprocess.run(
        [sys.executable, "-c", COPY_OF_AN_EMPTY_TABLE, source, target], env=os.environ | warm.attached, check=True
    )
    assert DeltaTable(target).schema().to_json() == DeltaTable(source).schema().to_json()


SESSIONS_OF_A_PROCESS = """
import os
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from medallion.settings import Settings
from medallion.spark.session import spark_session
from medallion.spark.sessions import Sessions
sessions = Sessions(spark_session(Settings.from_environment()))

def answers(session_id):
    remote = f"{os.environ['MEDALLION_SPARK_CONNECT']}/;session_id={session_id}"
    try:
        return bool(SparkSession.builder.remote(remote).create().version)
    except PySparkException as error:
        assert "SESSION_CLOSED" in str(error), error
        return False

first = sessions.for_table("bronze_orders", {"spark.sql.shuffle.partitions": "3"})
again = sessions.for_table("bronze_orders", {"spark.sql.shuffle.partitions": "4"})
assert again is first and again.conf.get("spark.sql.shuffle.partitions") == "4"
assert sessions.small.range(2).count() == again.range(2).count() == 2
ids = [session.session_id for session in (again, sessions.small, sessions.full)]
assert all(map(answers, ids))
sessions.stop()
assert not any(map(answers, ids)), "a warm Spark keeps none of them"
os._exit(0)  # those that asked are still connected, and gRPC would wait for them
"""


def test_sessions_of_a_process_end_on_a_warm_spark_when_the_process_stops_them(warm: Warm) -> None:
    warm.jvm()
    subprocess.run(
        [sys.executable, "-c", SESSIONS_OF_A_PROCESS], env=os.environ | warm.attached, check=True, timeout=240
    )


def test_warm_spark_is_restarted_and_the_hour_retried_when_it_dies_at_work(world: World, warm: Warm) -> None:
    jvm = warm.jvm()
    process = start(world, H0, **warm.attached)
    log = Path(world.lake.path("silver_orders_enriched"), "_delta_log")
    before = len(list(log.iterdir()))
    while process.poll() is None and len(list(log.iterdir())) == before:
        time.sleep(0.01)
    jvm.kill()
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 1 and "Traceback" not in told, told
    assert warm.jvm().pid != jvm.pid
    refresh(world, H0, warm)
    assert differing(world, H0) == []


@pytest.mark.long
def test_what_a_killed_step_left_running_there_is_ended_before_the_next(world: World, warm: Warm) -> None:
    jvm = warm.jvm()
    process = start(world, H0, **warm.attached)
    while (writer := current_writer(world.lake)) is None or jvm.pid not in writer.processes:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    refresh(world, H0, warm)
    assert not jvm.is_running(), "it might have committed after the next had begun"
    assert differing(world, H0) == []


# A refresh in a process to which every JVM seems to be short of something.
SHORT = f"from medallion.spark import jvm_usage; jvm_usage.MAX_SHARE = 0.0; {FEW}"


@pytest.mark.long
def test_warm_spark_that_is_short_of_something_is_replaced_before_the_hour_and_its_event_says_why(
    world: World, warm: Warm
) -> None:
    before = warm.jvm()
    process = start(world, H0, script=SHORT, **warm.attached)
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 0, told
    assert not before.is_running() and warm.jvm().is_running()
    (row,) = event_log.read(world.lake, hour=H0, event_type="session")
    assert row.status == "warned" and "the JVM before this one was short of code cache" in row.details["note"]
    assert differing(world, H0) == []


@pytest.mark.long
def test_range_of_hours_goes_on_in_another_jvm_when_the_first_is_short_of_something(world: World) -> None:
    process = start(world, H0, until=H1, script=SHORT)
    told, _ = process.communicate(timeout=400)
    assert process.returncode == 0, told
    first, second = event_log.read(world.lake, event_type="session")
    assert (first.status, second.status) == ("succeeded", "warned")
    assert "was short of code cache" in second.details["note"] and "of 512 MB" in second.details["note"]
    steps = [row for row in event_log.read(world.lake, event_type="refresh") if row.table_name is None]
    assert all(row.details["jvm"]["heap"]["used"] > 0 for row in steps)
    assert differing(world, H1) == []


def test_attaching_fails_in_one_line_with_another_secret(world: World, warm: Warm) -> None:
    warm.jvm()
    process = start(world, H0, **(warm.attached | {TOKEN_VARIABLE: "another"}))
    told, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    assert f"is {TOKEN_VARIABLE} the one that it was started with?" in told.splitlines()[-1]


def test_where_none_answers_the_error_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CONNECT_TIMEOUT_SECONDS", 0)
    with pytest.raises(
        MedallionError, match="no Spark answers at sc://localhost:1 .*: medallion spark-server starts one"
    ):
        session.spark_session(Settings(spark_connect="sc://localhost:1"))
