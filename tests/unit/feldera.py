"""A Feldera that answers as the real one does, as far as we ask: its HTTP interface, over an engine of DuckDB.

The real one cannot be had in a test. What is written here is taken from its public source, version 0.337: clearing and
starting take a while and refuse each other, an old error stays, good lines of a bad request are taken in, a full buffer
and a slow call end in 503, a transaction is computed at its end, a query that fails midway has answered 200.
"""

import io
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb

from tests.unit.feldera_engine import Engine, SqlError

BUFFER_RECORDS = 100_000
ONLY_WHOLE = {"program_error", "program_code", "runtime_config"}  # not in what selector=status gives
WARNING = {"start_line_number": 1, "warning": True, "error_type": "Unused column", "message": "event_id is not used"}


class Refused(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, code: str, message: str = "") -> None:
        super().__init__(message)
        self.status, self.body = status, {"message": message or code, "error_code": code, "details": {}}


class FakeFeldera:
    """One pipeline. What a service does by itself happens as its state is asked for, a bit each time.

    key: of the API. busy: how often calls of a name are still answered 503. stalled: how many pushes still find the
    engine at work, so that the buffer stands full. proxy_bytes: the largest request, where a proxy is in front.
    broken: views whose query fails as it runs, and how that shows: "unreachable" as 503, as mostly; "empty" as an
    answer without a byte; "midway" as one that breaks off. panicking: how often a pipeline that has panicked still
    looks as if it ran. push_seconds: how long a push takes.
    """

    def __init__(self) -> None:
        self.pipeline: dict[str, Any] | None = None
        self.engine: Engine | None = None
        self.key: str | None = None
        self.url = ""
        self.busy: Counter[str] = Counter()
        self.stalled, self.buffer_records, self.proxy_bytes = 0, BUFFER_RECORDS, None
        self.broken: dict[str, str] = {}
        self.panicking, self._panic = 2, ""
        self.push_seconds = 0.0
        self.requests: list[tuple[str, str]] = []
        self.pushes: list[tuple[str, int, int]] = []  # table, bytes, records
        self.at_once, self._under_way = 0, 0
        self.transaction, self._transactions, self._commits_in = 0, 0, 0
        self._tokens: dict[str, str] = {}  # token -> received, computing or complete
        self._ahead: dict[str, list[str]] = {}  # field -> the values it goes through
        self.lock = threading.RLock()

    # --- the life of the pipeline ------------------------------------------------------------------------------------

    def put(self, body: dict[str, Any]) -> dict[str, Any]:
        now = self.pipeline
        if now is not None:
            if now["deployment_status"] != "Stopped":
                raise Refused(400, "UpdateRestrictedToStopped", "Pipeline can only be updated while stopped")
            changed = now["runtime_config"].get("workers") != body.get("runtime_config", {}).get("workers")
            if now["storage_status"] != "Cleared" and changed:
                raise Refused(400, "EditRestrictedToClearedStorage", "not allowed: `runtime_config.workers`")
        compiled = now["program_code"] if now is not None and now["program_status"] == "Success" else None
        is_known = compiled == body["program_code"]
        self.pipeline = {
            "deployment_status": "Stopped",
            "deployment_desired_status": "Stopped",
            "deployment_error": None,
            "storage_status": "Cleared",
            **(now or {}),
            "runtime_config": {},
            **body,
            "program_status": "Success" if is_known else "Pending",
            "program_error": {"sql_compilation": {"exit_code": 0, "messages": [WARNING]}},
        }
        if is_known:  # it is not compiled again
            return self.pipeline
        try:
            self.engine, last = Engine(body["program_code"]), ["SqlCompiled", "CompilingRust", "Success"]
        except SqlError as error:
            found = {"start_line_number": 7, "warning": False, "error_type": "SQL error", "message": str(error)}
            self.pipeline["program_error"] = {"sql_compilation": {"exit_code": 1, "messages": [WARNING, found]}}
            last = ["SqlError"]
        self._ahead["program_status"] = ["CompilingSql", *last]
        return self.pipeline

    def show_state(self, whole: bool) -> dict[str, Any]:
        """The state, as it is when it is looked at; then it goes on."""
        assert self.pipeline is not None
        if self._panic:
            self.panicking -= 1
            if self.panicking < 0:
                self.end(RuntimeError(self._panic))
                self._panic = ""
        shown = {name: value for name, value in self.pipeline.items() if whole or name not in ONLY_WHOLE}
        for field, ahead in self._ahead.items():
            if ahead:
                self.pipeline[field] = ahead.pop(0)
                if (field, self.pipeline[field]) == ("storage_status", "Cleared") and self.engine:
                    self.engine.clear()
        return shown

    def act(self, what: str, asked: dict[str, list[str]]) -> None:
        now = self.pipeline
        assert now is not None
        stopped = now["deployment_status"] == "Stopped" and now["deployment_desired_status"] == "Stopped"
        match what:
            case "start":
                if now["storage_status"] == "Clearing":
                    raise Refused(400, "CannotStartWhileClearingStorage", "Cannot start while storage is being cleared")
                if "Error" in now["program_status"]:
                    raise Refused(400, "StartFailedDueToFailedCompilation")
                if now["deployment_error"] and asked.get("dismiss_error") == ["false"]:
                    raise Refused(400, "CannotStartWithUndismissedError")
                now |= {"deployment_error": None, "deployment_desired_status": "Running", "storage_status": "InUse"}
                self._ahead["deployment_status"] = ["Provisioning", "Initializing", "Running"]
            case "stop":
                now["deployment_desired_status"], self._ahead["deployment_status"] = "Stopped", []
                if now["deployment_status"] != "Stopped":
                    now["deployment_status"] = "Stopping"
                    self._ahead["deployment_status"] = ["Stopping", "Stopped"]
                self.transaction = 0
            case "clear":
                if not stopped:
                    raise Refused(400, "StorageStatusImmutableUnlessStopped", "storage can only be cleared if stopped")
                if now["storage_status"] != "Cleared":
                    now["storage_status"] = "Clearing"
                    self._ahead["storage_status"] = [*["Clearing"] * 8, "Cleared"]
            case "dismiss_error":
                if now["deployment_error"] and not stopped:
                    raise Refused(400, "DismissErrorRestrictedToFullyStopped")
                now["deployment_error"] = None

    def end(self, error: Exception) -> None:
        """The pipeline ends by an error at run time."""
        assert self.pipeline is not None
        self._ahead["deployment_status"] = []
        message = f"Fatal error from the pipeline: {error}"
        self.pipeline |= {"deployment_status": "Stopped", "deployment_desired_status": "Stopped"}
        self.pipeline["deployment_error"] = {"message": message, "error_code": "RuntimeError"}

    def running(self) -> Engine:
        if not self.pipeline or self.pipeline["deployment_status"] != "Running" or not self.engine:
            raise Refused(503, "PipelineInteractionNotDeployed", "Unable to interact with pipeline: not deployed")
        return self.engine

    # --- the running pipeline ----------------------------------------------------------------------------------------

    def push(self, table: str, body: bytes, asked: dict[str, list[str]]) -> dict[str, str]:
        with self.lock:
            engine = self.running()
            if table.lower() not in engine.columns:
                raise Refused(404, "UnknownInputStream", f"no table {table}")
            if self.proxy_bytes and len(body) > self.proxy_bytes:
                raise Refused(413, "", "Request Entity Too Large")
            if (asked.get("format"), asked.get("update_format")) != (["json"], ["insert_delete"]):
                raise Refused(400, "UnknownInputFormat")
            self._under_way += 1
            self.at_once = max(self.at_once, self._under_way)
        time.sleep(self.push_seconds)
        with self.lock:
            self._under_way -= 1
            lines = [line for line in body.splitlines() if line.strip()]
            if self.stalled and len(lines) > self.buffer_records:
                self.stalled -= 1
                engine.take(table.lower(), lines[: self.buffer_records])
                raise Refused(503, "PipelineInteractionUnreachable", "Timeout while waiting for response: 30 seconds")
            errors = engine.take(table.lower(), lines)
            if errors:
                raise Refused(400, "ParseErrors", f"Errors parsing input data ({len(errors)} errors): {errors[:3]}")
            self.pushes.append((table, len(body), len(lines)))
            token = f"{table}/{len(self.pushes)}+="
            self._tokens[token] = "received"
            return {"token": token}

    def completion(self, token: str) -> dict[str, str]:
        self.running()
        if token not in self._tokens:
            raise Refused(400, "InvalidCompletionToken", token)
        if not self.transaction:
            if self._tokens[token] == "computing":
                self.step()
            elif self._tokens[token] == "received":
                self._tokens[token] = "computing"
        return {"status": "complete" if self._tokens[token] == "complete" else "inprogress"}

    def step(self) -> None:
        try:
            self.running().step()
        except duckdb.Error as error:
            self._panic = str(error)  # which its state shows a moment later
            raise Refused(500, "RuntimeError", "a worker thread panicked") from None
        self._tokens = dict.fromkeys(self._tokens, "complete")

    def begin(self) -> dict[str, int]:
        self.running()
        if self.transaction:
            raise Refused(409, "TransactionInProgress")
        self._transactions += 1
        self.transaction = self._transactions
        return {"transaction_id": self.transaction}

    def commit(self) -> str:
        self.running()
        if not self.transaction:
            raise Refused(409, "NoTransactionInProgress")
        self._commits_in = 2
        return "Transaction commit initiated"

    def stats(self) -> dict[str, Any]:
        self.running()
        if self._commits_in:
            self._commits_in -= 1
            if not self._commits_in:
                self.transaction = 0
                self.step()
        metrics = {"transaction_id": self.transaction, "rss_bytes": 300 << 20, "storage_bytes": 119}
        return {"global_metrics": {**metrics, "cpu_msecs": 10 * len(self.requests)}, "inputs": [], "outputs": []}

    def rows(self, sql: str) -> "Any":
        return self.running().connection.execute(sql).to_arrow_table()


@contextmanager
def serving(fake: FakeFeldera) -> Iterator[FakeFeldera]:
    """The fake on a port of loopback, ``url``, while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def answer(self, status: int, body: Any = None) -> None:
            text = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def handle_it(self) -> None:
            url = urlsplit(self.path)
            words, asked = url.path.removeprefix("/v0/pipelines").strip("/").split("/"), parse_qs(url.query)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with fake.lock:
                fake.requests.append((self.command, url.path))
            try:
                if fake.key and self.headers.get("Authorization") != f"Bearer {fake.key}":
                    raise Refused(401, "Unauthorized", "who are you?")
                if fake.busy[words[-1]]:
                    fake.busy[words[-1]] -= 1
                    raise Refused(503, "PipelineInteractionUnreachable", "Timeout while waiting for response: 10 s")
                if words[1:2] == ["ingress"]:  # side by side
                    return self.answer(200, fake.push(words[2], body, asked))
                with fake.lock:
                    self.do(words, asked, body)
            except Refused as refused:
                self.answer(refused.status, refused.body)

        def do(self, words: list[str], asked: dict[str, list[str]], body: bytes) -> None:
            whole = asked.get("selector") != ["status"]
            if words == [""]:
                return self.answer(200, [fake.show_state(whole)] if fake.pipeline else [])
            match self.command, *words[1:]:
                case ["PUT"]:
                    self.answer(201, fake.put(json.loads(body)))
                case _ if fake.pipeline is None:
                    raise Refused(404, "UnknownPipelineName", f"Unknown pipeline name '{words[0]}'")
                case ["GET"]:
                    self.answer(200, fake.show_state(whole))
                case "POST", ("start" | "stop" | "clear" | "dismiss_error") as what:
                    fake.act(what, asked)
                    self.answer(202)
                case "POST", "start_transaction":
                    self.answer(200, fake.begin())
                case "POST", "commit_transaction":
                    self.answer(200, fake.commit())
                case "GET", "completion_status":
                    self.answer(200, fake.completion(asked["token"][0]))
                case "GET", "stats":
                    self.answer(200, fake.stats())
                case "GET", "query":
                    self.query(asked["sql"][0], asked.get("format", ["text"])[0])
                case _:
                    raise Refused(404, "NotFound", f"no {self.path}")
            return None

        def query(self, sql: str, kind: str) -> None:
            found, broken = fake.rows(sql), next((how for view, how in fake.broken.items() if view in sql), None)
            if broken == "unreachable":
                raise Refused(503, "PipelineInteractionUnreachable", "Error sending HTTP request: connection closed")
            if kind == "parquet":
                import pyarrow.parquet as pq

                file = io.BytesIO()
                pq.write_table(found, file)
                text = file.getvalue()
                text = {"midway": text[: len(text) // 2], "empty": b""}.get(broken or "", text)
            else:
                text = b"".join(json.dumps(row, default=_bare).encode() + b"\n" for row in found.to_pylist())
                text += b'{"error":"Arrow error: Divide by zero error"}' if broken else b""
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if text:
                self.wfile.write(f"{len(text):x}\r\n".encode() + text + b"\r\n")
            if broken == "midway" and kind == "parquet":
                self.close_connection = True  # without the end of the stream
            else:
                self.wfile.write(b"0\r\n\r\n")

        do_GET = do_POST = do_PUT = handle_it

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        with suppress(OSError):
            server.shutdown()
        server.server_close()
        thread.join()


def _bare(value: Any) -> Any:
    """A decimal as a bare number, which its reader makes a double of."""
    return value.isoformat() if hasattr(value, "isoformat") else float(value)
