"""What a measurement ran on: processor, memory, versions, commit."""

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from medallion.project import find_project


def commit() -> str:
    """The commit of this code, with a plus where files of it have been changed since; unknown outside of git."""
    try:
        words = ("git", "-C", str(find_project().root), "describe", "--always", "--dirty=+", "--exclude=*")
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> dict[str, str]:
    """What it ran on, for whoever reads the figures."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = names[0].split(":")[1].strip() if names else platform.processor()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ("pyspark", "delta-spark", "deltalake", "duckdb")
    return {
        "processor": f"{cpu}, {os.cpu_count()} cores",
        "memory": f"{memory:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def cores(master: str) -> int:
    """How many cores a local Spark master takes, which another engine then has too; of a cluster, those of here."""
    limit = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", master)
    return int(limit[1]) if limit else 1 if master == "local" else len(os.sched_getaffinity(0))
