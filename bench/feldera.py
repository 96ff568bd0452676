"""Feldera on the same hours: its pipeline is made from our own tables, and its views are compared with ours.

It is one service for all runs, outside of our lake: change files are pushed to it over HTTP, and after each hour its
views are copied, untimed, into a lake that is compared with the others as any.
"""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.generator import Generator

from bench.proof import publish_copies
from medallion.errors import MedallionError, UsageError
from medallion.model.registry import Registry, registry
from medallion.model.table import Feed, Table
from medallion.ops.event_log import EventLog
from medallion.storage.lake import Lake

PIPELINE = "medallion_bench"
CHUNK = 900_000  # bytes of a request: the service refuses larger ones than 1 MB or so
_WAIT, _COMPILE_WAIT = 0.01, 1.0  # seconds between two questions
_LONGEST = 3600.0  # seconds: for a program to compile, for an hour to be processed


# --- the program -----------------------------------------------------------------------------------------------------


class _Feldera(Dialect):
    """Feldera's SQL, where it is written otherwise than the standard."""

    class Generator(Generator):
        TRANSFORMS = {  # noqa: RUF012 (sqlglot's way)
            **Generator.TRANSFORMS,
            exp.TimestampTrunc: lambda self, e: f"TIMESTAMP_TRUNC({self.sql(e.this)}, {e.unit.name})",
        }
        TYPE_MAPPING = {  # noqa: RUF012
            **Generator.TYPE_MAPPING,
            exp.DataType.Type.TEXT: "VARCHAR",
            exp.DataType.Type.TIMESTAMPTZ: "TIMESTAMP",
        }


def program(tables: Registry | None = None) -> str:
    """The whole pipeline in Feldera's SQL: a table for each feed, a materialized view for each query."""
    tables = tables or registry()
    whole = {c.name for feed in tables.feeds for c in feed.columns if c.type == "INT"}
    parts = [_table(t) if isinstance(t, Feed) else _view(t, whole) for t in tables]
    return "\n\n".join(parts) + "\n"


def _table(feed: Feed) -> str:
    columns = [
        f"    {c.name} {exp.DataType.build(c.type, dialect='spark').sql(_Feldera)}{' NOT NULL' if c.required else ''}"
        for c in feed.columns
    ]
    columns.append(f"    PRIMARY KEY ({', '.join(feed.keys)})")
    return f"-- {_first_line(feed.doc)}\nCREATE TABLE {feed.name} (\n" + ",\n".join(columns) + "\n);"


def _view(table: Table, whole: set[str]) -> str:
    tree = sqlglot.parse_one(table.query.format_map({name: name for name in table.inputs}), read="spark")
    for division in tree.find_all(exp.Div):
        division.set("safe", False)  # our queries guard each divisor themselves
    for cast in list(tree.find_all(exp.TryCast)):
        cast.replace(exp.Cast(this=cast.this, to=cast.to))
    for total in tree.find_all(exp.Sum):
        if _is_int(total.this, whole):  # a sum has the type of its values there, BIGINT in Spark
            total.set("this", exp.cast(total.this, "BIGINT"))
    for select in tree.find_all(exp.Select):
        _inline_windows(select)
    query = tree.sql(_Feldera, pretty=True, comments=False)
    return f"-- {_first_line(table.doc)}\nCREATE MATERIALIZED VIEW {table.name} AS\n{query};"


def _is_int(value: exp.Expr, whole: set[str]) -> bool:
    """Whether Feldera would see an INTEGER; ``whole``: the columns that are declared so."""
    match value:
        case exp.Column():
            return value.name in whole
        case exp.Literal():
            return not value.is_string and "." not in value.name
        case exp.Case():
            results = [branch.args["true"] for branch in value.args["ifs"]]
            if "default" in value.args and value.args["default"] is not None:
                results.append(value.args["default"])
            return all(_is_int(result, whole) for result in results)
        case exp.Paren() | exp.Neg() | exp.Abs():
            return _is_int(value.this, whole)
    return False


def _inline_windows(select: exp.Select) -> None:
    """Write out each named window where it is used."""
    named = {window.name: window for window in select.args.get("windows") or []}
    for use in select.find_all(exp.Window):
        if use.alias in named:
            window = named[use.alias].copy()
            window.set("this", use.this)
            use.replace(window)
    select.set("windows", None)


def _first_line(doc: str) -> str:
    return doc.strip().splitlines()[0]


# --- the service -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Service:
    """A running Feldera. url: where its API is; key: of the API, where it asks for one."""

    url: str
    key: str | None = None

    def __post_init__(self) -> None:
        if urllib.parse.urlsplit(self.url).scheme not in {"http", "https"}:
            raise UsageError(f"{self.url[:80]!r} is no address of a Feldera: write http://host:8080")

    def start(self, sql: str) -> None:
        """Make the pipeline anew from ``sql``, empty, and start it. Raises MedallionError when it does not compile."""
        here = f"pipelines/{PIPELINE}"
        if self._exists():
            self.call("POST", f"{here}/stop?force=true")
            self._until("stopped", lambda now: now["deployment_status"] == "Stopped")
            self.call("POST", f"{here}/clear")
        body = {"name": PIPELINE, "description": "made by medallion bench", "program_code": sql}
        self.call("PUT", here, json.dumps(body).encode())
        self._until("compiled", lambda now: now["program_status"] == "Success")
        self.call("POST", f"{here}/start")
        self._until("started", lambda now: now["deployment_status"] == "Running")

    def push(self, table: str, lines: Iterable[bytes]) -> list[str]:
        """Send change lines to ``table``, in their order; a token for each request."""
        tokens = []
        for chunk in _chunks(lines):
            path = f"pipelines/{PIPELINE}/ingress/{table}?format=json&update_format=insert_delete&array=false"
            tokens.append(str(self.call("POST", path, chunk)["token"]))
        return tokens

    def wait(self, tokens: Iterable[str]) -> None:
        """Until everything behind these tokens is in every view. Raises MedallionError after an hour."""
        deadline = time.monotonic() + _LONGEST
        for token in tokens:
            path = f"pipelines/{PIPELINE}/completion_status?token={urllib.parse.quote(token)}"
            while self.call("GET", path)["status"] != "complete":
                if time.monotonic() > deadline:
                    raise MedallionError(f"Feldera at {self.url} has not processed an hour's changes in an hour")
                time.sleep(_WAIT)

    def rows(self, view: str, into: Path) -> None:
        """The rows of a materialized view, a line of JSON each, into a file."""
        query = urllib.parse.urlencode({"sql": f"SELECT * FROM {view}", "format": "json"})  # noqa: S608 (declared)
        with self._open("GET", f"pipelines/{PIPELINE}/query?{query}") as answer, into.open("wb") as file:
            while part := answer.read(1 << 20):
                file.write(part)

    def call(self, method: str, path: str, body: bytes | None = None) -> Any:
        """The answer of the API, parsed. Raises MedallionError, with what it said, when it refuses."""
        with self._open(method, path, body) as answer:
            text = answer.read()
        return json.loads(text) if text.strip() else None

    def _open(self, method: str, path: str, body: bytes | None = None) -> Any:
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(f"{self.url.rstrip('/')}/v0/{path}", body, headers, method=method)  # noqa: S310
        what = f"Feldera at {self.url}: {method} {path.partition('?')[0]}"
        try:
            return urllib.request.urlopen(request, timeout=600)  # noqa: S310 (the scheme is checked)
        except urllib.error.HTTPError as refused:
            raise MedallionError(f"{what}: {refused.code} {refused.read().decode(errors='replace')[:400]}") from None
        except OSError as failed:
            raise MedallionError(f"{what}: {getattr(failed, 'reason', failed)}") from None

    def _exists(self) -> bool:
        return any(pipeline["name"] == PIPELINE for pipeline in self.call("GET", "pipelines"))

    def _until(self, what: str, reached: Any) -> None:
        deadline = time.monotonic() + _LONGEST
        while True:
            now = self.call("GET", f"pipelines/{PIPELINE}")
            if reached(now):
                return
            failed = now["program_status"] if "Error" in str(now["program_status"]) else now.get("deployment_error")
            if failed:
                detail = json.dumps(now.get("program_error") or failed)
                raise MedallionError(f"the pipeline was not {what} by Feldera at {self.url}: {detail[:600]}")
            if time.monotonic() > deadline:
                raise MedallionError(f"the pipeline was not {what} by Feldera at {self.url} in an hour")
            time.sleep(_COMPILE_WAIT)


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines together, up to CHUNK bytes."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        line = line if line.endswith(b"\n") else line + b"\n"
        if held and size + len(line) > CHUNK:
            yield b"".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line)
    if held:
        yield b"".join(held)


# --- as one of the contest -------------------------------------------------------------------------------------------


class FelderaDriver:
    """A pipeline that holds the snapshot, and a lake for its events and for copies of its views."""

    def __init__(self, service: Service, source: Path, lake: Path) -> None:
        start = time.perf_counter()
        self._service, self._source, self.lake = service, source, str(lake)
        lake.mkdir(parents=True, exist_ok=True)
        service.start(program())
        for feed in registry().feeds:
            service.wait(service.push(feed.name, _snapshot(source / "snapshot" / feed.name)))
        self.session_seconds = time.perf_counter() - start

    def refresh(self, hour: str) -> tuple[float, float | None]:
        """Push an hour and wait until all views have it: wall seconds; CPU seconds are not ours to know."""
        lake = Lake(self.lake)
        log = EventLog(lake, run_id=f"bench-{hour}", hour=hour, strategy="feldera", attempt=1)
        start = time.perf_counter()
        with log.timed("push") as event:
            event.engine, event.rows_in, event.bytes_out = "feldera", 0, 0
            tokens: list[str] = []
            for feed in registry().feeds:
                file = self._source / "cdc" / feed.topic / f"{hour}.json"
                if file.exists():
                    lines = file.read_bytes().splitlines(keepends=True)
                    event.rows_in += len(lines)
                    event.bytes_out += file.stat().st_size
                    tokens += self._service.push(feed.name, lines)
            self._service.wait(tokens)
        wall = time.perf_counter() - start
        log.flush()
        self._copy_views(lake, hour)
        return wall, None

    def stop(self) -> None:
        """Stop the pipeline."""
        self._service.call("POST", f"pipelines/{PIPELINE}/stop?force=true")

    def _copy_views(self, lake: Lake, hour: str) -> None:
        """The views as tables of a release."""
        import duckdb

        def rows(name: str) -> Any:
            file = Path(self.lake, f"{name}.json")
            self._service.rows(name, file)
            with duckdb.connect() as connection:
                query = "SELECT * FROM read_json(?, format = 'newline_delimited')"
                found = connection.execute(query, [str(file)]).to_arrow_table()
            file.unlink()
            return found

        publish_copies(lake, hour, "feldera", rows)


def _snapshot(folder: Path) -> Iterator[bytes]:
    """The rows of a table of the snapshot as lines that insert them."""
    from deltalake import DeltaTable

    for batch in DeltaTable(str(folder)).to_pyarrow_dataset().to_batches():
        rows = iter(batch.to_pylist())
        while some := list(islice(rows, 1000)):
            yield from (json.dumps({"insert": row}, default=_told).encode() for row in some)


def _told(value: Any) -> str:
    """A decimal or a moment as Feldera reads it."""
    text = str(value)
    return text.removesuffix("+00:00")
