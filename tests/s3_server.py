"""An S3 server over HTTP, in its own process: in this one it could not answer while delta-rs holds the interpreter."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from medallion.airflow.ports import free_port

START_SECONDS = 60


@contextmanager
def run_s3_server() -> Iterator[str]:
    """Yield the address of an empty server, which ends with the context."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while socket.socket().connect_ex(("127.0.0.1", port)):
            assert time.monotonic() < deadline and server.poll() is None, "the S3 server does not start"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
