"""The ports that a local driver opens: on loopback alone, and closed to whoever does not know its secret."""

import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest


def ports_of(spark: Any) -> list[tuple[str, int]]:
    jvm = psutil.Process(int(spark._jvm.java.lang.ProcessHandle.current().pid()))
    listening = (entry.laddr for entry in jvm.net_connections("tcp") if entry.status == psutil.CONN_LISTEN)
    return [(address.ip.removeprefix("::ffff:"), address.port) for address in listening]


def test_driver_listens_on_loopback_alone(spark: Any) -> None:
    assert {address for address, _ in ports_of(spark)} <= {"127.0.0.1", "::1"}


def test_block_manager_refuses_a_call_that_does_not_authenticate(spark: Any) -> None:
    port = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().blockManagerId().port()
    request = struct.pack(">bqi", 3, 1, 4) + b"open"  # a call: type, number, length, and what is asked for
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(struct.pack(">q", 8 + len(request)) + request)
        while b"Expected SaslMessage" not in received:
            part = connection.recv(4096)
            assert part, received
            received += part


def test_secret_of_the_driver_is_on_no_command_line(spark: Any) -> None:
    secret = spark._jvm.org.apache.spark.SparkEnv.get().securityManager().getSecretKey()
    assert len(secret) >= 32
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if secret in line]


def test_machine_without_localhost_is_told_what_to_add(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.1.1 somewhere\n")
    code = (
        "from medallion.settings import Settings; from medallion.spark.session import spark_session\n"
        "from medallion.errors import MedallionError\n"
        "try: spark_session(Settings(spark_master='local[1]', driver_memory='512m'))\n"
        "except MedallionError as error: print(error)"
    )
    without = f'mount --bind {hosts} /etc/hosts && {sys.executable} -c "{code}"'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", without], capture_output=True, text=True
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this machine lets nobody mount")
    assert "add the line '127.0.0.1 localhost' to /etc/hosts" in done.stdout, done.stderr
