"""Settings: read once from the environment, then passed around frozen."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from medallion.errors import UsageError

PROJECT = Path(__file__).resolve().parents[1]
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """Where the lake and the source are, and how this installation runs.

    lake: a path or ``s3a://`` URI. source: a path or ``s3://`` URI. max_bad_lines: the share of a file's lines
    that may be rejected before the apply step refuses the hour. lock_wait: seconds to wait for another writer.
    source_wait: seconds that a scheduled run waits for an hour that the source does not list yet. catch_up_hours: how
    many hours before its own it takes up by itself. extras: whether a lake gets the tables that not everybody needs
    too, read when it is loaded: history, star schema, business views; None where it is not set.
    spark_log: what Spark tells in the log, ``error``, ``warn``, ``info`` or ``debug``.
    spark_connect: where a warm Spark listens, ``sc://localhost:15002``; None to start one per process.
    driver_host: the name under which a cluster's executors find the driver. executor_cores, max_cores: of one executor
    and of all; None for as many as there are. s3_timeout: seconds without a byte after which a connection is given up
    and tried again. Each field is the environment variable ``MEDALLION_<FIELD>``.
    """

    lake: str = "lake"
    source: str = "data/source"
    spark_master: str = "local[*]"
    spark_connect: str | None = None
    spark_log: str = "warn"
    driver_memory: str = "4g"
    driver_host: str | None = None
    executor_memory: str = "2g"
    executor_cores: int | None = None
    max_cores: int | None = None
    jars: str = str(PROJECT / ".jars")
    s3_endpoint: str | None = None
    s3_region: str | None = None
    s3_anonymous: bool = False
    s3_timeout: float = 60.0
    max_bad_lines: float = 0.01
    lock_wait: float = 600.0
    source_wait: float = 2700.0
    catch_up_hours: int = 72
    extras: bool | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """The settings that ``environment`` names, defaults elsewhere.

        Raises UsageError, naming the variable, when a value cannot be used.
        """

        def read(field: str, parse: Callable[[str], T], default: T) -> T:
            variable = f"MEDALLION_{field.upper()}"
            text = environment.get(variable, "").strip()
            if not text:
                return default
            try:
                return parse(text)
            except ValueError as error:
                raise UsageError(f"{variable}={text!r} cannot be used: {error}") from None

        def optional(text: str) -> str | None:
            return text

        return cls(
            lake=read("lake", _root("s3a"), os.path.abspath(cls.lake)),
            source=read("source", _root("s3"), os.path.abspath(cls.source)),
            spark_master=read("spark_master", str, cls.spark_master),
            spark_connect=read("spark_connect", _connect, cls.spark_connect),
            spark_log=read("spark_log", _level, cls.spark_log),
            driver_memory=read("driver_memory", _memory, cls.driver_memory),
            driver_host=read("driver_host", _host, cls.driver_host),
            executor_memory=read("executor_memory", _memory, cls.executor_memory),
            executor_cores=read("executor_cores", _count, cls.executor_cores),
            max_cores=read("max_cores", _count, cls.max_cores),
            jars=read("jars", str, cls.jars),
            s3_endpoint=read("s3_endpoint", optional, cls.s3_endpoint),
            s3_region=read("s3_region", optional, cls.s3_region),
            s3_anonymous=read("s3_anonymous", _flag, cls.s3_anonymous),
            s3_timeout=read("s3_timeout", _seconds, cls.s3_timeout),
            max_bad_lines=read("max_bad_lines", _share, cls.max_bad_lines),
            lock_wait=read("lock_wait", _seconds, cls.lock_wait),
            source_wait=read("source_wait", _seconds, cls.source_wait),
            catch_up_hours=read("catch_up_hours", _count, cls.catch_up_hours),
            extras=read("extras", _flag, cls.extras),
        )


def _root(scheme: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if "://" in text and not text.startswith(f"{scheme}://"):
            raise ValueError(f"give a path or a {scheme}:// URI")
        if found := set(text) & set("%[]{}*?\\"):
            raise ValueError(
                f"readers of Delta tables take {min(found)} in a path for something else: give another one"
            )
        return text.rstrip("/") if "://" in text else os.path.abspath(os.path.expanduser(text))

    return parse


def _connect(text: str) -> str:
    # Spark sends its token in the clear to localhost alone, and the writer that takes over must be able to end it.
    if not re.fullmatch(r"sc://localhost:[1-9]\d{0,4}", text):
        raise ValueError("give sc://localhost: and a port, such as sc://localhost:15002")
    return text


def _level(text: str) -> str:
    if text.lower() not in {"error", "warn", "info", "debug"}:
        raise ValueError("give error, warn, info or debug")
    return text.lower()


_UNITS = {"k": 1 << 10, "": 1 << 20, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def bytes_of(memory: str) -> int:
    """An amount of memory as Spark writes it, such as ``512m`` or ``4g``, in bytes. Raises ValueError for others."""
    match = re.fullmatch(r"([1-9]\d{0,9})([kmgt]?)b?", memory.lower())
    if match is None:
        raise ValueError("give a number and a unit, such as 4g")
    return int(match[1]) * _UNITS[match[2]]


def _memory(text: str) -> str:
    if bytes_of(text) < 512 << 20:
        raise ValueError("give 512m or more")
    return text


def _host(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})", text):
        raise ValueError("give the name or address of this machine")
    return text


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise ValueError("give a whole number, 1 or more")
    return int(text)


def _flag(text: str) -> bool:
    if text.lower() in {"1", "true", "yes"}:
        return True
    if text.lower() in {"0", "false", "no"}:
        return False
    raise ValueError("give true or false")


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise ValueError("give a share between 0 and 1")
    return share


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError("give seconds, 0 or more")
    return seconds
