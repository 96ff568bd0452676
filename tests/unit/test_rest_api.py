"""Airflow's REST API on a busy machine: what is asked may be asked again, what changes something is not."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from medallion.airflow import rest_api
from medallion.errors import MedallionError


class _Slow(BaseHTTPRequestHandler):
    """Answers the second request of a method to a path at once, the first one too late."""

    seen: list[tuple[str, str]]

    def _answer(self) -> None:
        first = (self.command, self.path) not in self.seen
        self.seen.append((self.command, self.path))
        if first and "auth" not in self.path:
            time.sleep(1)
        body = json.dumps({"access_token": "t", "state": "success"}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[rest_api.Api]:
    monkeypatch.setattr(rest_api, "READ_SECONDS", 0.3)
    monkeypatch.setattr(rest_api, "WRITE_SECONDS", 0.3)
    _Slow.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield rest_api.Api(f"http://127.0.0.1:{server.server_port}", "admin", "secret")
    server.shutdown()
    server.server_close()


def test_what_is_asked_is_asked_again_where_the_answer_takes_too_long(api: rest_api.Api) -> None:
    assert api.call("GET", "dags")["state"] == "success"
    assert _Slow.seen.count(("GET", "/api/v2/dags")) == 2


def test_what_changes_something_is_sent_once_and_its_silence_is_told_in_a_line(api: rest_api.Api) -> None:
    with pytest.raises(MedallionError, match="has not answered for .* goes on: run this again later") as told:
        api.call("POST", "dags", {})
    assert "\n" not in str(told.value) and "secret" not in str(told.value)
    assert _Slow.seen.count(("POST", "/api/v2/dags")) == 1
