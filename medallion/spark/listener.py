"""Verify who listens on the port of the warm Spark: the token is sent unencrypted, so only to a server of this user."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from medallion.errors import MedallionError

if TYPE_CHECKING:
    import psutil

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
PROCESS_SETTING = "spark.medallion.process"  # the setting in which a warm Spark states its process id


def require_own_server(port: int) -> None:
    """Raise MedallionError unless every process that listens on ``port`` is a Spark server that this user started.

    All listeners count, because ``localhost`` may resolve to an address that the server does not listen on.
    """
    owners = _listeners(port)
    if not owners:
        raise MedallionError(f"nothing listens on port {port} any more: the token was not sent; run this again")
    for owner in owners:
        if owner is None or not _is_own_server(owner):
            who = "a process of another user" if owner is None else f"process {owner}"
            raise MedallionError(
                f"port {port} is not that of a Spark server of this user ({who} listens there): the token was not sent;"
                " stop that process, or choose another port in MEDALLION_SPARK_CONNECT"
            )


def _listeners(port: int) -> set[int | None]:
    """Return the processes that listen on ``port``; None stands for a process that this user may not inspect."""
    import psutil

    try:
        connections = [(entry.pid, entry) for entry in psutil.net_connections("tcp")]
    except psutil.AccessDenied:  # macOS shows each user only their own processes
        connections = [(process.pid, entry) for process in _own_processes() for entry in process.net_connections("tcp")]
    return {pid for pid, entry in connections if entry.status == psutil.CONN_LISTEN and entry.laddr.port == port}


def _own_processes() -> "Iterator[psutil.Process]":
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().real == os.getuid():
                yield process


def _is_own_server(pid: int) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        words, owner = process.cmdline(), process.uids().real
    except psutil.Error:
        return False
    return owner == os.getuid() and SERVER_CLASS in words and f"{PROCESS_SETTING}={pid}" in words
