"""The notifier of the guide reaches a real mail server, with what failed."""

import json
import re
import socketserver
import threading
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from medallion.errors import MedallionError

GUIDE = Path("docs/how-to/send-alerts.md")


class Conversation(socketserver.StreamRequestHandler):
    """One sender: as much of SMTP as a mail without log-in or encryption takes."""

    def handle(self) -> None:
        self.say("220 ready")
        for line in iter(self.rfile.readline, b""):
            match line.split()[0].upper():
                case b"EHLO":
                    self.say("250 here")
                case b"DATA":
                    self.say("354 go on")
                    body = b"".join(iter(self.rfile.readline, b".\r\n")).decode()
                    self.server.mails.append(message_from_string(body))  # type: ignore[attr-defined]
                    self.say("250 taken")
                case b"QUIT":
                    self.say("221 bye")
                    return
                case _:
                    self.say("250 fine")

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What a mail server got, to which the connection of the guide leads."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Conversation) as server:
        server.mails = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (example,) = re.findall(r"AIRFLOW_CONN_SMTP_DEFAULT='(.*)'", GUIDE.read_text())
        host, port = server.server_address
        connection = json.loads(example) | {"host": host, "port": port}
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
        yield server.mails  # type: ignore[attr-defined]
        server.shutdown()


def test_mail_of_the_guide_names_the_run_and_the_reason(mails: list[Any]) -> None:
    example: dict[str, Any] = {}
    exec(re.findall(r"```python\n(from .*?)```", GUIDE.read_text(), re.S)[0], example)
    context = {
        "dag": DAG("hourly_refresh"),
        "dag_run": SimpleNamespace(run_id="manual__1"),
        "ti": SimpleNamespace(log_url="http://localhost:8080/log"),
        "exception": MedallionError.quoting("orders <are> red", ": ada@example.com"),
    }
    example["by_mail"](context)
    (mail,) = mails
    assert mail["Subject"] == "hourly_refresh failed: manual__1"
    assert mail["To"] == "data-team@example.com"
    body = mail.get_payload()[0].get_payload(decode=True).decode()
    assert "orders &lt;are&gt; red" in body and "ada@" not in body and "http://localhost:8080/log" in body
