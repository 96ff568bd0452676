"""A running Feldera, over its HTTP interface: start a pipeline, push changes, wait for them, read views.

Source: the OpenAPI description and the Python client of Feldera 0.337. What the manager passes on to a pipeline it
waits 10 seconds for, 30 for pushed changes, and then answers 503: such a call is made again, after a growing pause.
"""

import json
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from bench.feldera.api import BUSY, Api, message
from medallion.errors import MedallionError
from medallion.settings import FELDERA_REQUEST_BYTES, Settings

if TYPE_CHECKING:
    import pyarrow as pa

PIPELINE = "medallion_bench"
REQUEST_RECORDS = 50_000  # half of the buffer of an input
_COMPILING = {"Pending", "CompilingSql", "SqlCompiled", "CompilingRust"}
_LONGEST_SECONDS = 3600.0  # for a program to compile, for an hour to be computed
_POLL_SECONDS, _TOKEN_POLL_SECONDS = 0.25, 0.01
_ENDING_SECONDS = 10.0  # in which the manager notes why a pipeline has ended; it takes about one
QUERY_ATTEMPTS = 5  # of a query that gets no answer from a pipeline that answers other calls


@dataclass(frozen=True)
class Usage:
    """What the service reports of its process: memory and storage in bytes, CPU seconds since it started."""

    memory_bytes: int | None
    storage_bytes: int | None
    cpu_seconds: float | None

    def cpu_since(self, before: "Usage") -> float | None:
        """Return the CPU seconds since ``before``, None where the service does not report them."""
        if self.cpu_seconds is None or before.cpu_seconds is None:
            return None
        return self.cpu_seconds - before.cpu_seconds


@dataclass(frozen=True)
class Service(Api):
    """A running Feldera.

    Args:
        request_bytes: The largest request.
    """

    request_bytes: int = FELDERA_REQUEST_BYTES

    @classmethod
    def of(cls, settings: Settings, url: str) -> "Service":
        """Return the service at ``url``, with the key and the largest request that ``settings`` name."""
        return cls(url, settings.feldera_key, request_bytes=settings.feldera_request_bytes)

    # --- the pipeline's life ---------------------------------------------------------------------------------------

    def compile(self, sql: str, workers: int) -> bool:
        """Replace the pipeline by an empty one of ``sql``, and wait until it is compiled.

        Returns:
            Whether it was compiled now: a program that the pipeline had before is not compiled again.

        Raises:
            MedallionError: It does not compile; the message has the compiler's errors, without its warnings.
        """
        if self._pipeline() is not None:
            self.stop()
            self.call("POST", _path("dismiss_error"))  # that of a former run
            self.call("POST", _path("clear"))
            self._until("cleared", lambda now: now["storage_status"] == "Cleared")
        body = {
            "name": PIPELINE,
            "description": "made by medallion bench",
            "runtime_config": {"workers": workers},
            "program_config": {"profile": "optimized"},
            "program_code": sql,
        }
        self.call("PUT", _path(), json.dumps(body).encode())
        seen: set[str] = set()

        def is_compiled(now: Mapping[str, Any]) -> bool:
            seen.add(now["program_status"])
            if now["program_status"] not in {*_COMPILING, "Success"}:
                whole = self.call("GET", _path())
                reason = f"{now['program_status']}: {_compile_errors(whole.get('program_error') or {})}"
                raise MedallionError(f"the program was not compiled by Feldera at {self.url}: {reason}")
            return bool(now["program_status"] == "Success")

        self._until("compiled", is_compiled)
        return bool(seen & _COMPILING)

    def start(self) -> None:
        """Start the compiled pipeline, and wait until it runs."""
        self.call("POST", _path("start?initial=running&dismiss_error=false"))

        def is_running(now: Mapping[str, Any]) -> bool:
            if now["deployment_status"] == "Stopped" and now["deployment_desired_status"] == "Stopped":
                self._raise_if_ended(now)
            return bool(now["deployment_status"] == "Running")

        self._until("started", is_running)

    def stop(self) -> None:
        """Stop the pipeline, and wait until it is."""
        self.call("POST", _path("stop?force=true"))
        self._until("stopped", lambda now: now["deployment_status"] == "Stopped")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Compute what is pushed in the block at its end, as one change: for a snapshot, which is large."""
        transaction_id = self.call("POST", _path("start_transaction"), repeatable=False)["transaction_id"]
        yield
        self.call("POST", _path("commit_transaction"), repeatable=False)
        self._until_true(
            "committed", lambda: self.call("GET", _path("stats"))["global_metrics"]["transaction_id"] != transaction_id
        )

    def usage(self) -> Usage:
        """Return what the pipeline uses now."""
        metrics = self.call("GET", _path("stats"))["global_metrics"]
        cpu = metrics.get("cpu_msecs")
        return Usage(metrics.get("rss_bytes"), metrics.get("storage_bytes"), None if cpu is None else cpu / 1000)

    # --- changes and views -----------------------------------------------------------------------------------------

    def push(self, changes: Mapping[str, Iterable[bytes]]) -> list[str]:
        """Push change lines, tables side by side, the lines of each in order; return a token for each request.

        A request that the service did not take in whole is sent again: changes by key, in order, are safe to repeat.
        """
        if not changes:
            return []
        with ThreadPoolExecutor(len(changes), thread_name_prefix="push") as threads:
            pushed = [threads.submit(self._push_table, table, lines) for table, lines in changes.items()]
            return [token for future in pushed for token in future.result()]

    def _push_table(self, table: str, lines: Iterable[bytes]) -> list[str]:
        path = _path(f"ingress/{table}?format=json&update_format=insert_delete&array=false")
        return [str(self.call("POST", path, chunk)["token"]) for chunk in chunks(lines, self.request_bytes)]

    def wait(self, tokens: Iterable[str]) -> None:
        """Wait until everything behind these tokens is in every view.

        Raises:
            MedallionError: It is not after an hour, or the pipeline ended.
        """
        for token in tokens:
            path = _path(f"completion_status?token={urllib.parse.quote(token, safe='')}")
            self._until_true("finished with an hour", partial(self._complete, path), _TOKEN_POLL_SECONDS)

    def _complete(self, path: str) -> bool:
        return bool(self.call("GET", path)["status"] == "complete")

    def rows(self, view: str, into: Path) -> "pa.Table":
        """Return the rows of a materialized view: decimals exact, timestamps in UTC.

        Args:
            view: Its name.
            into: A file that takes the answer meanwhile.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        query = urllib.parse.urlencode({"sql": f"SELECT * FROM {view}", "format": "parquet"})  # noqa: S608 (declared)
        path = _path(f"query?{query}")
        try:
            for attempt in range(1, QUERY_ATTEMPTS + 1):
                if (said := self._download(path, into)) is None:
                    break
                self.check_while_busy(path)
                self.usage()  # answers once the pipeline does, or raises: what is still unanswered then is the query
                if attempt == QUERY_ATTEMPTS:
                    raise MedallionError(
                        f"Feldera at {self.url} could not read {view}: {said}, {attempt} times, while the pipeline"
                        " answers other calls: the query fails as it runs, or takes longer than the manager waits; the"
                        f" log of the pipeline {PIPELINE} says which"
                    )
                time.sleep(self.pause_seconds * attempt)
            if not into.stat().st_size:
                raise MedallionError(
                    f"Feldera at {self.url} could not read {view}: the query failed as it ran, as its answer has no"
                    f" bytes; the log of the pipeline {PIPELINE} says why"
                )
            table = pq.read_table(into)
        except (httpx.TransportError, pa.ArrowInvalid, OSError) as failed:
            start = into.read_bytes()[:200].decode(errors="replace") if into.exists() else ""
            said = (
                " ".join(start.split())
                if start and not start.startswith("PAR1")
                else f"the answer broke off: {type(failed).__name__}"
            )
            raise MedallionError(f"Feldera at {self.url} could not read {view}: {said}") from None
        finally:
            into.unlink(missing_ok=True)
        return table.cast(pa.schema([_in_utc(field) for field in table.schema]))

    def _download(self, path: str, into: Path) -> str | None:
        """Write an answer to a file; return what the service says instead where it is busy, or seems to be."""
        try:
            with closing(self.stream(path)) as answer, into.open("wb") as file:
                for part in answer.iter_bytes():
                    file.write(part)
        except httpx.HTTPStatusError as refused:
            said = f"{refused.response.status_code} {message(refused.response.content)}"
            if refused.response.status_code in BUSY:
                return said
            raise MedallionError(f"Feldera at {self.url}: GET {path.partition('?')[0]}: {said}") from None
        return None

    # --- the state of the pipeline ---------------------------------------------------------------------------------

    def check_while_busy(self, path: str) -> None:
        """Raise MedallionError where a call gets no answer because the pipeline ended."""
        if path.startswith(f"{_path()}/") and (now := self._pipeline()) is not None:
            self._raise_if_ended(now)

    def explain_failure(self, path: str) -> None:
        """Raise MedallionError with the error by which the pipeline ended, which its state shows a moment later."""
        deadline = time.monotonic() + min(_ENDING_SECONDS, self.patience_seconds)
        while path.startswith(f"{_path()}/") and time.monotonic() < deadline:
            self.check_while_busy(path)
            time.sleep(min(_POLL_SECONDS, self.pause_seconds))

    def _pipeline(self) -> Mapping[str, Any] | None:
        """Return the state of our pipeline, None where there is none."""
        pipelines = self.call("GET", "pipelines?selector=status")
        return next((pipeline for pipeline in pipelines if pipeline["name"] == PIPELINE), None)

    def _raise_if_ended(self, now: Mapping[str, Any]) -> None:
        """Raises MedallionError where the pipeline ended by an error, as by one of its program at run time."""
        if error := now.get("deployment_error"):
            said = error.get("message") if isinstance(error, dict) else error
            raise MedallionError(f"the pipeline ended in Feldera at {self.url}: {' '.join(str(said).split())[:600]}")

    def _until(self, what: str, reached: Callable[[Mapping[str, Any]], bool]) -> None:
        self._until_true(what, lambda: reached(self.call("GET", f"{_path()}?selector=status")))

    def _until_true(self, what: str, reached: Callable[[], bool], pause: float = _POLL_SECONDS) -> None:
        deadline, pause = time.monotonic() + _LONGEST_SECONDS, min(pause, self.pause_seconds)
        while not reached():
            if time.monotonic() > deadline:
                raise MedallionError(f"Feldera at {self.url} has not {what} in an hour")
            time.sleep(pause)


def chunks(lines: Iterable[bytes], most_bytes: int, most_records: int = REQUEST_RECORDS) -> Iterator[bytes]:
    """Yield whole lines together, up to so many bytes and records."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        line = line if line.endswith(b"\n") else line + b"\n"
        if held and (size + len(line) > most_bytes or len(held) == most_records):
            yield b"".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line)
    if held:
        yield b"".join(held)


def _path(rest: str = "") -> str:
    return f"pipelines/{PIPELINE}" + (f"/{rest}" if rest else "")


def _in_utc(field: "pa.Field") -> "pa.Field":
    """A TIMESTAMP has no zone there; all of ours are in UTC."""
    import pyarrow as pa

    return field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field


def _compile_errors(program_error: Mapping[str, Any]) -> str:
    """Return the errors of a compilation, which the service lists after its warnings."""
    messages = (program_error.get("sql_compilation") or {}).get("messages") or []
    errors = [
        f"line {message['start_line_number']}: {message['error_type']}: {message['message']}"
        for message in messages
        if not message.get("warning")
    ]
    errors += [str(program_error["system_error"])] if program_error.get("system_error") else []
    rust = program_error.get("rust_compilation") or {}
    if not errors and rust.get("exit_code"):
        errors.append(str(rust.get("stderr"))[-400:])
    return " ".join("; ".join(errors).split())[:600] or "no reason given"
