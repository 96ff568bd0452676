"""The session for small jobs is shared by the threads that refresh tables side by side."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from medallion.spark.small_jobs import small_job_session


class SlowSpark:
    """A session that takes a moment to start another: long enough for every thread to ask for one."""

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
    with ThreadPoolExecutor(4) as threads:
        sessions = list(threads.map(lambda _: small_job_session(spark), range(4)))
    assert spark.started == [sessions[0]]
    assert set(sessions) == {sessions[0]}
    assert sessions[0].conf.get("spark.sql.shuffle.partitions") == "32"
