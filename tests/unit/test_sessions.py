"""The sessions of a process are shared by the threads that refresh tables side by side."""

import ast
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from medallion.spark.sessions import Sessions
from tests.shop import PROJECT


class SlowSpark:
    """A session of a Spark in this process. To start another takes it a moment, in which every thread asks for one."""

    _jvm = None

    def __init__(self) -> None:
        self.started: list[SlowSpark] = []
        self.conf = Settings({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "64"})

    def newSession(self) -> "SlowSpark":
        session = SlowSpark()
        self.started.append(session)
        time.sleep(0.1)
        return session


class Settings(dict[str, Any]):
    """A session's settings."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        self.pop(name, None)


def test_small_job_session_is_started_once_when_threads_ask_at_the_same_time() -> None:
    spark: Any = SlowSpark()
    sessions = Sessions(spark)
    with ThreadPoolExecutor(4) as threads:
        small = list(threads.map(lambda _: sessions.small, range(4)))
    assert spark.started == [small[0]]
    assert set(small) == {small[0]}
    assert small[0].conf.get("spark.sql.shuffle.partitions") == "32"
    assert sessions.filewise is not small[0]


def test_sessions_are_as_many_as_tables_however_many_hours_a_process_refreshes() -> None:
    spark: Any = SlowSpark()
    sessions = Sessions(spark)
    for hour in ("1", "2", "3"):
        for table in ("bronze_orders", "bronze_customers"):
            session = sessions.for_table(table, {"hour": hour, "merge": "yes"})
            assert session.conf.get("hour") == hour
    assert len(spark.started) == 2


def test_session_of_a_table_forgets_the_settings_of_its_last_job() -> None:
    spark: Any = SlowSpark()
    sessions = Sessions(spark)
    sessions.for_table("bronze_orders", {"hour": "1"})
    assert "hour" not in sessions.for_table("bronze_orders", {"metadata": "{}"}).conf  # type: ignore[operator]


def test_drivers_are_opened_by_who_closes_them_in_all_of_the_package() -> None:
    openers = {
        str(file.relative_to(PROJECT))
        for package in ("medallion", "spark_jobs", "dags", "plugins", "scripts")
        for file in (PROJECT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Driver"
    }
    assert openers == {"medallion/pipeline/driver.py"}, "medallion.pipeline.driver.open_driver stops its sessions"
