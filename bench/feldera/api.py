"""Calls of an HTTP API of JSON, made again while the service is busy or a connection is lost."""

import json
import random
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import httpx

from medallion.errors import MedallionError, UsageError

BUSY = {408, 429, 502, 503, 504}
_LOST = (httpx.ReadError, httpx.WriteError, httpx.ProtocolError, httpx.TimeoutException)
_LARGEST_PAUSE_SECONDS = 5.0
_TIMEOUT_SECONDS = 600.0
T = TypeVar("T")


@dataclass(frozen=True)
class Api:
    """A Feldera's HTTP API.

    Args:
        url: Where it is.
        key: Of the API, where it asks for one.
        patience_seconds: How long a call is repeated while the service is busy.
        pause_seconds: The first pause between two calls; it doubles.
    """

    url: str
    key: str | None = None
    patience_seconds: float = 600.0
    pause_seconds: float = 0.1

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise UsageError(f"{self.url[:80]!r} is no address of a Feldera: write http://host:8080")

    def call(self, method: str, path: str, body: bytes | None = None, *, repeatable: bool = True) -> Any:
        """Return the answer of the API, parsed.

        Args:
            method: Of HTTP.
            path: Below /v0.
            body: What is sent.
            repeatable: Whether it may be sent again when the service is busy or the connection is lost.

        Raises:
            MedallionError: The service refuses, with what it said; or it is busy for longer than our patience.
        """

        def read() -> bytes:
            with closing(self._open(method, path, body)) as answer:
                return answer.read()

        text = self._call_until_it_answers(f"{method} {path}", read, repeatable)
        return json.loads(text) if text.strip() else None

    def stream(self, path: str) -> httpx.Response:
        """Return the answer to a GET, asked for once, to be read bit by bit and closed.

        Raises:
            httpx.HTTPError: It is refused, or the connection is lost; so may reading it.
        """
        return self._open("GET", path, None)

    def check_while_busy(self, path: str) -> None:
        """Raise MedallionError where there is no use in calling ``path`` again; to be overridden."""

    def explain_failure(self, path: str) -> None:
        """Raise MedallionError where more is known of a failure of ``path`` than its answer says; to be overridden."""

    def _call_until_it_answers(self, what: str, action: Callable[[], T], repeatable: bool) -> T:
        path, what = what.split()[1], f"Feldera at {self.url}: {what.partition('?')[0]}"
        deadline, pause = time.monotonic() + self.patience_seconds, self.pause_seconds
        while True:
            try:
                return action()
            except httpx.HTTPStatusError as refused:
                code = refused.response.status_code
                said, busy = f"{code} {message(refused.response.content)}", code in BUSY
                if code == httpx.codes.INTERNAL_SERVER_ERROR:
                    self.explain_failure(path)
            except httpx.ConnectError as failed:
                hint = f": check that Feldera runs at {self.url}, and still does (docker compose ps feldera)"
                raise MedallionError(f"{what}: {failed}{hint}") from None
            except httpx.TransportError as failed:
                said, busy = str(failed) or type(failed).__name__, isinstance(failed, _LOST)
            if not (busy and repeatable):
                raise MedallionError(f"{what}: {said}") from None
            self.check_while_busy(path)
            if time.monotonic() + pause > deadline:
                raise MedallionError(f"{what}: still {said} after {self.patience_seconds:g} seconds") from None
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 (not all at the same moment)
            pause = min(2 * pause, _LARGEST_PAUSE_SECONDS)

    @cached_property
    def _client(self) -> httpx.Client:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        # A connection that was kept may be gone when the next call, which may not be repeatable, is sent.
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(headers=headers, timeout=_TIMEOUT_SECONDS, limits=limits, follow_redirects=True)

    def _open(self, method: str, path: str, body: bytes | None) -> httpx.Response:
        request = self._client.build_request(method, f"{self.url.rstrip('/')}/v0/{path}", content=body)
        answer = self._client.send(request, stream=True)
        if answer.is_error:
            with closing(answer):
                answer.read()
        return answer.raise_for_status()


def message(answer: bytes) -> str:
    """Return what the service says is wrong, in one line."""
    try:
        text = str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        text = answer.decode(errors="replace")
    return " ".join(text.split())[:400]
