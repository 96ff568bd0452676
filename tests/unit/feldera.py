"""A Feldera that answers as the real one does, as far as we ask: its API over HTTP, its engine DuckDB.

The real one cannot be had in a test: it is a service of its own.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import sqlglot

from bench.feldera import CHUNK, _Feldera
from medallion.model.registry import registry
from medallion.model.table import Feed


class FakeFeldera:
    """Its tables are DuckDB's; a view is computed when it is asked for."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.pipeline: dict[str, Any] | None = None
        self.requests: list[tuple[str, str]] = []
        self.asked: set[str] = set()
        self.key: str | None = None
        self.url = ""

    def compile(self, sql: str) -> None:
        statements = sqlglot.transpile(sql, read=_Feldera, write="duckdb")
        for statement in statements:
            try:
                self.connection.execute(statement.replace("MATERIALIZED VIEW", "VIEW"))
            except duckdb.Error as error:
                self.pipeline |= {"program_status": "SqlError", "program_error": {"sql": str(error)}}  # type: ignore[operator]
                return

    def ingest(self, table: str, body: bytes) -> None:
        assert len(body) <= CHUNK
        (feed,) = (f for f in registry() if isinstance(f, Feed) and f.name == table)
        (key,) = feed.keys
        for line in body.splitlines():
            ((operation, row),) = json.loads(line).items()
            self.connection.execute(f"DELETE FROM {table} WHERE {key} = ?", [row[key]])
            if operation == "insert":
                names = ", ".join(row)
                marks = ", ".join("?" * len(row))
                self.connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))

    def rows(self, sql: str) -> bytes:
        names = self.connection.execute(sql)
        columns = [column for column, *_ in names.description or []]
        lines = (json.dumps(dict(zip(columns, row, strict=True)), default=_told) for row in names.fetchall())
        return "\n".join(lines).encode()


def _told(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else float(value)


@contextmanager
def serving(fake: FakeFeldera) -> Iterator[FakeFeldera]:
    """The fake on a port of loopback, ``url``, while the block lasts."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def answer(self, status: int, body: Any = None) -> None:
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do(self) -> None:
            url = urlsplit(self.path)
            words, asked = url.path.removeprefix("/v0/pipelines").strip("/").split("/"), parse_qs(url.query)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fake.requests.append((self.command, url.path))
            if fake.key and self.headers.get("Authorization") != f"Bearer {fake.key}":
                return self.answer(401, {"message": "who are you?"})
            match self.command, *words[1:]:
                case "GET", *_ if words == [""]:
                    self.answer(200, [fake.pipeline] if fake.pipeline else [])
                case ["PUT"]:
                    fake.pipeline = {**json.loads(body), "program_status": "Success", "deployment_status": "Stopped"}
                    fake.compile(fake.pipeline["program_code"])
                    self.answer(201, fake.pipeline)
                case ["GET"]:
                    self.answer(200, fake.pipeline)
                case "POST", ("start" | "stop" | "clear") as what:
                    if what != "clear" and fake.pipeline:
                        fake.pipeline["deployment_status"] = {"start": "Running", "stop": "Stopped"}[what]
                    if what == "clear":
                        fake.connection = duckdb.connect()
                    self.answer(202)
                case "POST", "ingress", table:
                    fake.ingest(table, body)
                    self.answer(200, {"token": f"{table}/{len(fake.requests)}="})
                case "GET", "completion_status":
                    (token,) = asked["token"]
                    status = "complete" if token in fake.asked else "inprogress"  # the second time it is asked for
                    fake.asked.add(token)
                    self.answer(200, {"status": status})
                case "GET", "query":
                    self.answer(200, fake.rows(asked["sql"][0]))
                case _:
                    self.answer(404, {"message": f"no {self.path}"})
            return None

        def handle_it(self) -> None:
            with lock:
                self.do()

        do_GET = do_POST = do_PUT = handle_it

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
