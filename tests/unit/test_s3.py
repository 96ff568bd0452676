"""A source in a bucket, over HTTP: what it gives, and what becomes of a connection that fails."""

import hashlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from moto.server import ThreadedMotoServer

from medallion.errors import MedallionError
from medallion.ingest import source as source_module
from medallion.ingest.listing import change_files
from medallion.ingest.snapshot_copy import copy_snapshot
from medallion.ingest.source import copy_file, open_source
from medallion.settings import Settings
from tests.unit.small_lake import feeds

HOUR = "2025-11-30T00"
FILE = f"cdc/orders/{HOUR}.json"
CONTENT = b'{"insert": {"order_id": 1}}\n' * 5000
Fault = Callable[["Proxy"], bool]  # answers in the server's place and returns True, or leaves it to the server


class Proxy(BaseHTTPRequestHandler):
    """Stands before the S3 server, and spoils what a fault says it shall."""

    upstream: tuple[str, int]
    fault: Fault | None = None
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.fault is not None and type(self).fault(self):  # type: ignore[misc]
            return
        status, headers, body = self.answer()
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in {"transfer-encoding", "connection", "content-length"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET

    def answer(self) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(*self.upstream)
        connection.request(self.command, self.path, headers=dict(self.headers))
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def half(self) -> None:
        """Send half of a body that was said to be whole."""
        status, _, body = self.answer()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@dataclass(frozen=True)
class Bucket:
    """A bucket behind a proxy, and how to reach it."""

    settings: Settings
    client: Any
    proxy: type[Proxy]

    @property
    def source(self) -> source_module.Source:
        return open_source(self.settings)

    def spoil(self, fault: Fault) -> None:
        self.proxy.fault = fault  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, int]]:
    made = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    made.start()
    yield made.get_host_and_port()
    made.stop()


@pytest.fixture
def bucket(server: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
    monkeypatch.setattr(source_module, "BACK_OFF_SECONDS", 0.01)
    handler = type("ThisProxy", (Proxy,), {"upstream": server, "asked": []})
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    client = boto3.client("s3", endpoint_url=f"http://{server[0]}:{server[1]}", region_name="us-east-1")
    client.create_bucket(Bucket="shop")
    client.put_object(Bucket="shop", Key=f"demo/{FILE}", Body=CONTENT)
    settings = Settings(
        source="s3://shop/demo",
        s3_endpoint=f"http://127.0.0.1:{proxy.server_port}",
        s3_region="us-east-1",
        s3_timeout=1.0,
    )
    yield Bucket(settings, client, handler)
    proxy.shutdown()
    for entry in client.list_objects_v2(Bucket="shop").get("Contents", ()):
        client.delete_object(Bucket="shop", Key=entry["Key"])


def first(number: int, spoil: Callable[[Proxy], object]) -> Fault:
    """Spoil the first requests for the change file."""
    left = iter(range(number))

    def fault(proxy: Proxy) -> bool:
        if FILE not in proxy.path or next(left, None) is None:
            return False
        spoil(proxy)
        return True

    return fault


def cut(proxy: Proxy) -> None:
    proxy.half()
    proxy.close_connection = True


def slow(proxy: Proxy) -> None:
    proxy.half()
    time.sleep(2)
    proxy.close_connection = True


def busy(proxy: Proxy) -> None:
    proxy.send_error(503)


def test_hours_are_listed_and_copied_with_their_checksum(bucket: Bucket, tmp_path: Path) -> None:
    assert change_files(bucket.source, feeds("orders")).hours == {HOUR: {"orders": (FILE,)}}
    landed = copy_file(bucket.source, FILE, tmp_path / "orders.json")
    assert (landed.bytes, landed.sha256) == (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    assert (tmp_path / "orders.json").read_bytes() == CONTENT


@pytest.mark.parametrize("spoil", [cut, slow, busy])
def test_what_fails_twice_arrives_with_the_third_try(
    bucket: Bucket, tmp_path: Path, spoil: Callable[[Proxy], object]
) -> None:
    bucket.spoil(first(2, spoil))
    assert copy_file(bucket.source, FILE, tmp_path / "orders.json").bytes == len(CONTENT)
    assert [path.name for path in tmp_path.iterdir()] == ["orders.json"]


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (cut, rf"s3://shop/demo/{FILE}: \d+ of {len(CONTENT)} bytes arrived.*; run again"),
        (busy, f"s3://shop/demo/{FILE} cannot be read: the server answered .*; it is busy: run again later"),
    ],
)
def test_copy_reports_what_keeps_failing_and_leaves_nothing_behind(
    bucket: Bucket, tmp_path: Path, spoil: Callable[[Proxy], object], error: str
) -> None:
    bucket.spoil(first(1000, spoil))
    with pytest.raises(MedallionError, match=error):
        copy_file(bucket.source, FILE, tmp_path / "orders.json")
    assert not list(tmp_path.iterdir())


def test_an_hour_without_files_is_not_listed(bucket: Bucket) -> None:
    assert change_files(open_source(bucket.settings.replace(source="s3://shop/elsewhere")), feeds("orders")).hours == {}


def test_a_bucket_that_is_not_there_says_where_to_look(bucket: Bucket) -> None:
    source = open_source(bucket.settings.replace(source="s3://no-such-shop/demo"))
    with pytest.raises(MedallionError, match="answered NoSuchBucket; see MEDALLION_SOURCE, and MEDALLION_S3_ENDPOINT"):
        source.list_files("cdc/")


def test_denied_access_says_what_may_help(bucket: Bucket) -> None:
    def deny(proxy: Proxy) -> bool:
        body = b"<Error><Code>AccessDenied</Code></Error>"
        proxy.send_response(403)
        proxy.send_header("Content-Length", str(len(body)))
        proxy.end_headers()
        proxy.wfile.write(body)
        return True

    bucket.spoil(deny)
    with pytest.raises(
        MedallionError, match="answered AccessDenied; a public bucket needs MEDALLION_S3_ANONYMOUS=true"
    ):
        bucket.source.list_files("cdc/")


def test_without_credentials_it_says_so_and_anonymous_needs_none(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(MedallionError, match="no credentials were found; a public bucket needs MEDALLION_S3_ANONYMOUS"):
        bucket.source.list_files("cdc/")
    assert open_source(bucket.settings.replace(s3_anonymous=True)).list_files("cdc/")[FILE].bytes == len(CONTENT)


def test_a_server_that_does_not_answer_is_named(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "MAX_TRIES", 1)
    with pytest.raises(MedallionError, match=r"127\.0\.0\.1:1.*see MEDALLION_S3_ENDPOINT and the network"):
        open_source(bucket.settings.replace(s3_endpoint="http://127.0.0.1:1")).list_files("cdc/")


def test_a_snapshot_that_was_cut_short_goes_on_where_it_was(bucket: Bucket, tmp_path: Path) -> None:
    table = tmp_path / "made"
    for number in range(12):
        write_deltalake(str(table), pa.table({"order_id": [number]}), mode="append")
    for file in filter(Path.is_file, table.rglob("*")):
        key = f"demo/snapshot/bronze_orders/{file.relative_to(table).as_posix()}"
        bucket.client.put_object(Bucket="shop", Key=key, Body=file.read_bytes())
    asked = bucket.proxy.asked
    bucket.spoil(lambda proxy: "snapshot" in proxy.path and proxy.path.endswith("00007.json") and not busy(proxy))
    with pytest.raises(MedallionError, match=r"00007\.json cannot be read: the server answered 503"):
        copy_snapshot(bucket.source, "snapshot/bronze_orders", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    there = {path.name for path in (tmp_path / ".copy.part").rglob("*") if path.is_file()}

    asked.clear()
    bucket.spoil(lambda proxy: False)
    told: list[tuple[str, int, int]] = []
    copy_snapshot(bucket.source, "snapshot/bronze_orders", tmp_path / "copy", lambda *progress: told.append(progress))
    fetched = {path.rpartition("/")[2] for path in asked if "list-type" not in path}
    assert there and not there & fetched, "nothing is fetched twice"
    assert told[-1] == ("copying snapshot/bronze_orders", 24, 24)
    assert sorted(DeltaTable(str(tmp_path / "copy")).to_pyarrow_table()["order_id"].to_pylist()) == list(range(12))
