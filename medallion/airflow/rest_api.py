"""A client of Airflow's REST API."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx

from medallion.errors import MedallionError

READ_SECONDS, READ_TRIES = 30.0, 10  # Airflow may answer slowly on a busy machine
WRITE_SECONDS = 300.0


class Refused(MedallionError):
    """Airflow refused a request."""


def _patiently(send: Callable[[], httpx.Response], tries: int) -> httpx.Response:
    """Return the result of ``send``, retried after a timeout. The last of ``tries`` may raise the timeout."""
    for _ in range(tries - 1):
        with suppress(httpx.TimeoutException):
            return send()
    return send()


class Api:
    """A client of Airflow's REST API, with a token of ``user``."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._url, self._login, self._token = url, {"username": user, "password": password}, ""

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request under /api/v2 and return the answer. Raises Refused with Airflow's message."""
        self._token = self._token or self._send("POST", "/auth/token", self._login)["access_token"]
        return self._send(method, f"/api/v2/{path}", body)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        # A read may be repeated; a request that changes something is sent once, with a longer timeout.
        seconds, tries = (READ_SECONDS, READ_TRIES) if method == "GET" else (WRITE_SECONDS, 1)
        try:
            with httpx.Client(
                timeout=seconds, trust_env=False, follow_redirects=True
            ) as client:  # on loopback: no proxy
                answer = _patiently(lambda: client.request(method, self._url + path, json=body, headers=headers), tries)
        except httpx.TimeoutException:
            raise MedallionError(
                f"Airflow at {self._url} has not answered for {seconds * tries} s: the machine is busy. What it has"
                " begun goes on: run this again later"
            ) from None
        except httpx.TransportError as error:
            raise MedallionError(
                f"Airflow does not answer at {self._url} ({error}): medallion airflow up starts it"
            ) from None
        if answer.is_error:
            raise Refused(f"Airflow refuses {method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()
