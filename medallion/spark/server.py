"""The warm Spark: a Spark Connect server that steps attach to, instead of each starting its own JVM."""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from medallion.errors import MedallionError, UsageError
from medallion.settings import Settings
from medallion.spark.configuration import submit_conf
from medallion.spark.jars import spark_home
from medallion.spark.listener import PROCESS_SETTING, SERVER_CLASS
from medallion.spark.own_jvm import Words, telling_line
from medallion.spark.session import TOKEN_VARIABLE
from medallion.spark.surroundings import ignored, require_open_files, spark_environment

_SHORT = 20.0  # seconds; a server that exits sooner counts as not started
_MOST_SHORT = 3


def serve(settings: Settings, report: Callable[[str], None]) -> None:
    """Run the server at ``settings.spark_connect`` until this process is stopped, and restart it whenever it exits.

    Raises UsageError if no address or no token is set, MedallionError if the server does not start.
    """
    if settings.spark_connect is None:
        raise UsageError("set MEDALLION_SPARK_CONNECT to where it shall listen, such as sc://localhost:15002")
    if not os.environ.get(TOKEN_VARIABLE):
        raise UsageError(f"set {TOKEN_VARIABLE} to a secret, here and where steps run, such as {secrets.token_hex(16)}")
    command = _command(settings)
    require_open_files()
    environment = spark_environment(settings.spark_master, os.environ)
    if others := ignored(os.environ, environment):
        report(others)
    signal.signal(signal.SIGTERM, _leave)
    short = 0
    while True:
        began, words = time.monotonic(), Words()
        server = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=words.sink, stderr=words.sink
        )
        os.close(words.sink)
        words.pass_on()
        report(f"Spark listens at {settings.spark_connect}, process {server.pid}")
        try:
            code = server.wait()
        finally:  # if this process is stopped, the server is stopped too
            server.terminate()
            server.wait()
        short = short + 1 if time.monotonic() - began < _SHORT else 0
        if short == _MOST_SHORT:
            why = telling_line(words.last()) or f"exit code {code}"
            raise MedallionError(f"Spark ended {short} times right after its start, see above: {why}")
        report(f"Spark has ended with exit code {code}: starting it again")
        time.sleep(1)


def _command(settings: Settings) -> list[str]:
    address = urlsplit(settings.spark_connect or "")
    conf = submit_conf(settings, settings.spark_master) | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(address.port),
        # Sessions bring no code of their own, and with a class loader per session every query would be compiled again.
        "spark.sql.artifact.isolation.enabled": "false",
    }
    submit = [str(spark_home() / "bin" / "spark-submit"), "--class", SERVER_CLASS, "--master", settings.spark_master]
    for name, value in conf.items():
        submit += ["--conf", f"{name}={value}"]
    # The process id of the shell stays the same through exec to spark-submit and the JVM, so Spark can state its own.
    script = f'exec "$@" --conf {PROCESS_SETTING}=$$ --name medallion spark-internal'
    return ["/bin/sh", "-c", script, "spark-server", *submit]


def _leave(*_: object) -> None:
    raise SystemExit(0)
