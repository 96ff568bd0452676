"""The token of a warm Spark goes to the server that this user started, and to nobody else who listens on its port."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from medallion.errors import MedallionError
from medallion.settings import Settings
from medallion.spark.listener import PROCESS_SETTING, SERVER_CLASS, require_own_server
from medallion.spark.session import TOKEN_VARIABLE, spark_session

LISTEN = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
time.sleep(60)
"""


class Stranger:
    """Listens on a port, and records what it receives."""

    def __init__(self, address: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._listener = socket.create_server((address, port), family=family)
        self.port: int = self._listener.getsockname()[1]
        self.received = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(5)
            try:
                while part := connection.recv(4096):
                    self.received += part
            except OSError:
                continue

    def close(self) -> None:
        self._listener.close()


@contextmanager
def listening(address: str, port: int = 0) -> Iterator[Stranger]:
    stranger = Stranger(address, port)
    try:
        yield stranger
    finally:
        stranger.close()


@contextmanager
def server(told_process: str = "$$") -> Iterator[int]:
    """A process that is started as ours is, and listens as it does; its port."""
    script = f'exec "$@" {SERVER_CLASS} --conf {PROCESS_SETTING}={told_process}'
    command = ["/bin/sh", "-c", script, "spark-server", sys.executable, "-c", LISTEN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def test_stranger_on_the_port_receives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "a secret")
    with listening("127.0.0.1") as stranger:
        with pytest.raises(MedallionError, match=f"port {stranger.port} .* not .* Spark server .* token was not sent"):
            spark_session(Settings(spark_connect=f"sc://localhost:{stranger.port}"))
        assert stranger.received == b""


def test_server_of_this_user_is_accepted() -> None:
    with server() as port:
        require_own_server(port)


def test_command_line_that_names_another_process_is_refused() -> None:
    with server(told_process="1") as port, pytest.raises(MedallionError, match="token was not sent"):
        require_own_server(port)


def test_stranger_on_the_other_loopback_address_is_detected() -> None:
    with server() as port, listening("::1", port), pytest.raises(MedallionError, match="token was not sent"):
        require_own_server(port)


def test_port_that_a_server_left_is_refused() -> None:
    with server() as port:
        pass
    with pytest.raises(MedallionError, match="nothing listens"):
        require_own_server(port)
