"""Airflow's REST API."""

from collections.abc import Mapping
from typing import Any

import httpx

from medallion.errors import MedallionError


class Refused(MedallionError):
    """Airflow refused a request."""


class Api:
    """Airflow's REST API, with a token of ``user``."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self._url, self._login, self._token = url, {"username": user, "password": password}, ""

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request under /api/v2 and return the answer. Raises Refused with Airflow's words."""
        self._token = self._token or self._send("POST", "/auth/token", self._login)["access_token"]
        return self._send(method, f"/api/v2/{path}", body)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            with httpx.Client(timeout=30, trust_env=False, follow_redirects=True) as client:  # on loopback: no proxy
                answer = client.request(method, self._url + path, json=body, headers=headers)
        except httpx.TransportError as error:
            raise MedallionError(
                f"Airflow does not answer at {self._url} ({error}): medallion airflow up starts it"
            ) from None
        if answer.is_error:
            raise Refused(f"Airflow refuses {method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()
