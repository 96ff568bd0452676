"""The JVM that this process starts for its sessions: its start, its last output lines, and its end."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError

if TYPE_CHECKING:
    from subprocess import Popen

WORDS = 20  # number of the last output lines of a JVM that are kept
_SHUTDOWN_SECONDS = 60.0
# Spark requests an incubator module of Java at each start; no reader can do anything about the warning.
_NOISE = ("WARNING: Using incubator modules:",)
_TELLING = ("Exception", "rror", "ould not", "annot", "nvalid", "nrecognized", "failed")


class Words:
    """Output of a JVM: buffered until ``pass_on``, then forwarded to standard error; the last lines are kept."""

    def __init__(self) -> None:
        self._last: deque[str] = deque(maxlen=WORDS)
        self._held: list[str] | None = []
        self._lock = Lock()
        self._source, self.sink = os.pipe()
        self._reader = Thread(target=self._read, name="words of the JVM", daemon=True)
        self._reader.start()

    def pass_on(self) -> None:
        """Write the buffered output to standard error, and forward all output from now on."""
        with self._lock:
            held, self._held = self._held or [], None
        for line in held:
            _to_standard_error(line)

    def last(self) -> list[str]:
        """Return the last lines, oldest first."""
        self._reader.join(timeout=1)  # the last lines of a JVM that has exited may still be in the pipe
        with self._lock:
            return list(self._last)

    def _read(self) -> None:
        with open(self._source, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(_NOISE):
                    continue
                with self._lock:
                    self._last.append(line.rstrip())
                    if self._held is not None:
                        self._held.append(line)
                        continue
                _to_standard_error(line)


class JvmDidNotStart(MedallionError):
    """Spark's JVM exited before it could be used. words: its last output lines."""

    def __init__(self, message: str, words: list[str]) -> None:
        super().__init__(message)
        self.words = words


_words: Words | None = None  # of the JVM of this process


def start_jvm(conf: Mapping[str, str]) -> None:
    """Start the JVM of this process with the settings ``conf``, unless it already runs.

    Raises JvmDidNotStart, with the last output lines, if the JVM exits at once.
    """
    global _words
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    words, failure = Words(), None
    settings = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    try:
        launch: Callable[..., Any] = launch_gateway  # untyped
        gateway = launch(settings, {"stdout": words.sink, "stderr": words.sink})
    except PySparkRuntimeError as error:
        failure = error
    finally:
        os.close(words.sink)  # the JVM holds its own copy, so the pipe ends when the JVM exits
    if failure is not None:
        lines = words.last()
        raise JvmDidNotStart(telling_line(lines) or str(failure), lines) from failure
    _words = words
    SparkContext._ensure_initialized(gateway=gateway)
    words.pass_on()


def has_own_jvm() -> bool:
    """Return whether this process started its JVM itself, instead of getting one from spark-submit."""
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None) is not None


def end_jvm() -> None:
    """Stop the JVM that this process has started, if any, with all its sessions; the next session starts another."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if not has_own_jvm():
        return
    gateway: Any = SparkContext._gateway
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    gateway.proc.stdin.close()  # Spark exits when its standard input is closed
    try:
        gateway.proc.wait(_SHUTDOWN_SECONDS)
    except TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def end_of_jvm(patience: float = 0.0) -> str | None:
    """Describe in one line how the JVM of this process exited, with its most telling output; None while it runs.

    patience: seconds to wait for its exit.
    """
    from pyspark import SparkContext

    process: Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    try:
        code = process.wait(patience)
    except TimeoutExpired:
        return None
    lines = [] if _words is None else _words.last()
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}"
    report = Path(f"hs_err_pid{process.pid}.log")
    where = f" (see {report.absolute()})" if report.exists() else ""
    return f"Spark's JVM, process {process.pid}, {how}{where}: {telling_line(lines) or 'it said nothing'}"


def telling_line(lines: Iterable[str]) -> str:
    """Return the line that best explains why a JVM exited: the last cause, else the first error, else the last line."""
    messages = [line.strip() for line in lines if line.strip() and not line.startswith("\tat ")]
    causes = [line for line in messages if line.startswith("Caused by:")]
    errors = [line for line in messages if any(word in line for word in _TELLING)]
    return (causes[-1:] or errors[:1] or messages[-1:] or [""])[0]


def with_words(error: MedallionError, lines: Iterable[str]) -> MedallionError:
    """Return ``error`` with ``lines`` as notes, which are shown below its message."""
    for line in lines:
        error.add_note(f"  {line}")
    return error


def _to_standard_error(line: str) -> None:
    with suppress(OSError):
        os.write(2, line.encode())
