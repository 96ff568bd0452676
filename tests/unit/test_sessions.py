"""The sessions of a process are shared by the threads that refresh tables side by side."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from medallion.spark.sessions import Sessions


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


def test_small_job_session_is_started_once_when_threads_ask_at_the_same_time() -> None:
    spark: Any = SlowSpark()
    sessions = Sessions(spark)
    with ThreadPoolExecutor(4) as threads:
        small = list(threads.map(lambda _: sessions.small, range(4)))
    assert spark.started == [small[0]]
    assert set(small) == {small[0]}
    assert small[0].conf.get("spark.sql.shuffle.partitions") == "32"
    assert sessions.filewise is not small[0]
