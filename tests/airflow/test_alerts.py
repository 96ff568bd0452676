"""Alerts reach whoever listens, and nobody else; what cannot be sent breaks nothing."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from medallion.airflow.alerts import IN_A_ROW, Webhook, deadline, failed_in_a_row, late
from medallion.airflow.failures import as_airflow_errors
from medallion.airflow.runs import RequestRefused
from medallion.airflow.tasks import record_failure
from medallion.errors import CheckFailed, HourOutOfOrder, MedallionError
from medallion.ops import event_log
from medallion.ops.event_log import EventLog, append
from medallion.ops.events import Event
from medallion.storage.lake import Lake
from tests.shop import SHOP

Received = list[dict[str, Any]]
CONTEXT = {
    "dag_run": SimpleNamespace(dag_id="hourly_refresh", run_id="r"),
    "ti": SimpleNamespace(task_id="silver.check", try_number=2, log_url="http://localhost:8080/log"),
    "exception": "3 of 5 expectations are broken",
}

OVERDUE = "the run has taken 60 minutes longer than the last ones on average, and has not ended"


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Received]:
    """What a receiver on loopback was sent."""
    got: Received = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("MEDALLION_ALERT_URL", f"http://127.0.0.1:{server.server_port}/hook")
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "lake"))
    yield got
    server.shutdown()
    server.server_close()


def test_alert_names_run_task_and_reason_of_a_failed_check(received: Received) -> None:
    Webhook(step="check", layer="silver").notify(CONTEXT)
    (told,) = received
    assert told.pop("at")
    assert told == {
        "kind": "red check",
        "message": "3 of 5 expectations are broken",
        "dag_id": "hourly_refresh",
        "run_id": "r",
        "task_id": "silver.check",
        "attempt": 2,
        "log": "http://localhost:8080/log",
        "layer": "silver",
    }


def test_chat_gets_the_alert_as_one_text(received: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_ALERT_FORMAT", "text")
    Webhook(step="check", layer="silver").notify(CONTEXT)
    asyncio.run(late(context={"dag_run": {"dag_id": "hourly_refresh", "run_id": "r"}}))
    assert received == [
        {
            "text": "red check: hourly_refresh, r, silver.check: 3 of 5 expectations are broken\nhttp://localhost:8080/log"
        },
        {"text": f"late: hourly_refresh, r: {OVERDUE}"},
    ]


def test_unknown_format_of_alerts_is_named_in_the_log(
    received: Received, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MEDALLION_ALERT_FORMAT", "xml")
    Webhook(step="check", layer="silver").notify(CONTEXT)
    assert received == []
    assert "MEDALLION_ALERT_FORMAT='xml' is neither json nor text" in caplog.text


def test_alert_is_sent_for_any_failed_task(received: Received) -> None:
    Webhook(step="apply", layer="bronze").notify({**CONTEXT, "exception": None})
    assert [(told["kind"], told["message"]) for told in received] == [("failed task", "the process was killed")]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MedallionError.quoting("2 of 3 lines are bad", "; the first is line 1: 'ada@example.com'"), "2 of 3 lines"),
        (CheckFailed("silver check failed: cannot cast 'ada@example.com'", "silver check failed"), "silver check"),
        (ValueError("'ada@example.com' is no number"), "ValueError: its message is in the log"),
    ],
)
def test_error_that_quotes_rows_stays_out_of_the_alert(received: Received, error: Exception, message: str) -> None:
    with pytest.raises(Exception, match="ada@example.com") as raised, as_airflow_errors():
        raise error
    Webhook(step="apply", layer="bronze").notify({**CONTEXT, "exception": raised.value})
    (told,) = received
    assert told["message"].startswith(message) and "ada" not in told["message"]


def test_refused_request_sends_no_alert_and_counts_as_no_failed_run(received: Received, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    refused = RequestRefused("hour 2025-11-30T03 must come before")
    for number in range(IN_A_ROW):
        log = EventLog(lake, run_id=f"r{number}", hour=None, strategy="full", attempt=1)
        with suppress(HourOutOfOrder), log.timed("land", "bronze"):
            raise HourOutOfOrder("earlier hours are missing")
        log.flush()
        ti = SimpleNamespace(try_number=1)
        context = {**CONTEXT, "ti": ti, "run_id": f"r{number}", "exception": refused}
        Webhook(step="land", layer="bronze").notify(context)
        record_failure(context, step="land", layer="bronze", root=str(SHOP.root))
    Webhook(runs_of=str(SHOP.root)).notify(CONTEXT)
    assert received == []
    assert {row.status for row in event_log.read(lake)} == {"skipped"}
    assert failed_in_a_row() == 0
    Webhook(step="land", layer="bronze").notify({**CONTEXT, "exception": ValueError("the source cannot be reached")})
    assert [told["kind"] for told in received] == ["failed task"]


def test_alert_is_sent_for_three_failed_runs_in_a_row(received: Received, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))

    def ended(run: str, kind: str, status: str) -> None:
        append(lake, [Event(run, None, kind, "full", 1, "bronze", status=status)])

    for number in range(IN_A_ROW - 1):
        ended(f"early-{number}", "apply", "failed")
    ended("good", "publish", "succeeded")
    for number in range(IN_A_ROW):
        assert received == []
        ended(f"late-{number}", "apply", "failed")
        ended(f"late-{number}", "apply", "failed")  # its second try
        Webhook(runs_of=str(SHOP.root)).notify(CONTEXT)
    assert [(told["kind"], told["message"]) for told in received] == [
        ("runs failing", "3 runs in a row have failed: nothing new is published")
    ]


def test_alert_is_sent_for_a_late_run(received: Received) -> None:
    asyncio.run(late(context={"dag_run": {"dag_id": "hourly_refresh", "run_id": "r"}}))
    assert [(told["kind"], told["run_id"]) for told in received] == [("late", "r")]


def test_the_dag_has_its_alerts() -> None:
    from dags.hourly_refresh import dag

    assert isinstance(dag.on_failure_callback, Webhook) or isinstance(dag.on_failure_callback[0], Webhook)
    assert dag.deadline
    assert deadline().callback.path.endswith("medallion.airflow.alerts.late")
    for task in dag.tasks:
        assert any(isinstance(callback, Webhook) for callback in task.on_failure_callback), task.task_id


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:1/nobody", "file:///etc/passwd"])
def test_an_alert_that_cannot_be_sent_breaks_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MEDALLION_ALERT_URL", url)
    Webhook(step="check").notify(CONTEXT)
    assert ("this alert was not sent" in caplog.text) == bool(url)
