"""Alerts about runs, posted to the address in MEDALLION_ALERT_URL. Without an address, no alert is sent.

An alert leaves the site, so text that may quote rows stays in the log that the alert links to. MEDALLION_ALERT_FORMAT
is ``json``, with a field for each part of the alert, or ``text``, a message for the incoming webhooks of chats such as
Slack, Mattermost and Google Chat. For another channel, give the DAG another notifier.
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from airflow.sdk import BaseNotifier
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from medallion.airflow.naming import at
from medallion.airflow.runs import RequestRefused
from medallion.errors import without_data
from medallion.project import find_project

IN_A_ROW = 3
LATE = timedelta(hours=1)

logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs URLs, and the alert URL may contain a secret


class Webhook(BaseNotifier):
    """Posts an alert when a task has failed for good or, with ``runs_of``, when IN_A_ROW runs in a row have failed.

    A refused request causes no alert: whoever made it sees the reason, and nothing is wrong with the lake.
    """

    def __init__(self, *, step: str = "", layer: str | None = None, runs_of: str = "") -> None:
        """runs_of: the root of the project whose failing runs are counted; empty for an alert about one task."""
        super().__init__()
        self.step, self.layer, self.runs_of = step, layer, runs_of

    def notify(self, context: Any) -> None:
        """Send the alert. An error here is logged: a task must not fail because its alert was not sent."""
        try:
            if self.runs_of:
                with at(self.runs_of):
                    failed = failed_in_a_row()
                if failed >= IN_A_ROW:
                    post(
                        alert("runs failing", context, f"{failed} runs in a row have failed: nothing new is published")
                    )
                return
            if self.step == "land" and isinstance(context.get("exception"), RequestRefused):
                return
            kind = "red check" if self.step == "check" else "failed task"
            post(
                alert(
                    kind, context, without_data(context.get("exception") or "the process was killed"), layer=self.layer
                )
            )
        except Exception:
            logging.getLogger(__name__).exception("this alert was not sent")


async def late(**kwargs: Any) -> None:
    """Post an alert that a run has not ended by its deadline, so its tables are going stale."""
    minutes = int(LATE.total_seconds() // 60)
    message = f"the run has taken {minutes} minutes longer than the last ones on average, and has not ended"
    payload = alert("late", kwargs.get("context") or {}, message)
    await asyncio.to_thread(post, payload)


def deadline() -> DeadlineAlert:
    """Return the deadline after which a run is late: LATE beyond the average duration of the last runs.

    It is not counted from when the run was queued, because clearing a task of such a run fails with HTTP 500
    (apache/airflow#70368).
    """
    usual = DeadlineReference.AVERAGE_RUNTIME(max_runs=10, min_runs=1)
    return DeadlineAlert(usual, LATE, AsyncCallback(late), name="published in time")


def alert(kind: str, context: Mapping[str, Any], message: str, **more: Any) -> dict[str, Any]:
    """Build an alert: kind (``red check``, ``failed task``, ``runs failing``, ``late``), message, run and task."""
    dag_run, ti = context.get("dag_run"), context.get("ti")
    return {
        "kind": kind,
        "message": message[:2000],
        "dag_id": _of(dag_run, "dag_id"),
        "run_id": _of(dag_run, "run_id"),
        "task_id": _of(ti, "task_id"),
        "attempt": _of(ti, "try_number"),
        "log": _of(ti, "log_url"),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **more,
    }


def post(payload: Mapping[str, Any]) -> None:
    """Post one alert, if an address is set.

    Raises httpx.HTTPError if it cannot be delivered, ValueError for a wrong address or format.
    """
    url = os.environ.get("MEDALLION_ALERT_URL")
    if not url:
        return
    if not url.startswith(("http://", "https://")):
        raise ValueError("MEDALLION_ALERT_URL is no http address")
    form = os.environ.get("MEDALLION_ALERT_FORMAT") or "json"
    if form not in ("json", "text"):
        raise ValueError(f"MEDALLION_ALERT_FORMAT={form[:40]!r} is neither json nor text")
    body = {"text": as_text(payload)} if form == "text" else payload
    httpx.post(url, json=body, timeout=10, follow_redirects=True).raise_for_status()


def as_text(payload: Mapping[str, Any]) -> str:
    """Return an alert as one line for a chat, with the URL of the log on the next line."""
    place = ", ".join(str(payload[name]) for name in ("dag_id", "run_id", "task_id") if payload.get(name))
    line = f"{payload['kind']}: {place}: {payload['message']}"
    return "\n".join(filter(None, (line, payload.get("log"))))


def failed_in_a_row() -> int:
    """Count the runs that failed since the last published one, in the newest 7 days of the event log."""
    from medallion.ops import event_log
    from medallion.storage.lake import Lake

    failed: dict[str, None] = {}
    lake = Lake.of(find_project().settings())
    for row in event_log.read(lake, event_log.RECENT, ("run_id", "event_type", "status", "table_name")):
        if row.event_type == "publish" and row.status == "succeeded":
            failed.clear()
        elif row.status == "failed" and row.table_name is None:
            failed[row.run_id] = None
    return len(failed)


def _of(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
