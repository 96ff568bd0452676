"""The environment of the Spark installed with this package, whatever the shell has set for another Spark.

Variables for a cluster (such as SPARK_CONF_DIR and HADOOP_CONF_DIR) are used only if the master is a cluster.
"""

import os
import resource
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from medallion.errors import MedallionError
from medallion.spark.configuration import is_local, is_on_loopback
from medallion.spark.jars import spark_home
from medallion.spark.java import java_home

MIN_OPEN_FILES = 1024  # Spark's own JARs are 300 of them

REMOTES = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED")
# Read by Spark's scripts, its launcher or pyspark; each refers to another installation, or holds arguments for it.
ANOTHERS = (
    "SPARK_HOME",
    "PYSPARK_SUBMIT_ARGS",
    *REMOTES,
    "SPARK_ENV_LOADED",
    "SPARK_DIST_CLASSPATH",
    "SPARK_PREPEND_CLASSES",
    "SPARK_TESTING",
    "PYSPARK_DRIVER_PYTHON",
)
CLUSTER_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
CLUSTERS = (*CLUSTER_FOLDERS, "PYSPARK_PYTHON")  # used only if the master is a cluster
PYTHON_PATH = "PYTHONPATH"
PLACES = frozenset(("SPARK_HOME", PYTHON_PATH, "PYSPARK_PYTHON", *CLUSTER_FOLDERS))


def spark_environment(master: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a JVM on ``master`` and for the Python processes that it starts."""
    taken = without_another_spark(environment)
    if is_local(master):
        taken = {name: value for name, value in taken.items() if name not in CLUSTERS}
    local = {"SPARK_LOCAL_IP": "127.0.0.1"} if is_on_loopback(master) else {}
    ours = {"SPARK_HOME": str(spark_home()), "JAVA_HOME": str(java_home(environment))}
    return {"PYSPARK_PYTHON": sys.executable, **local, **taken, **ours}


def without_another_spark(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without those that refer to another installation, whatever the master."""
    taken = {name: value for name, value in environment.items() if name not in ANOTHERS}
    if PYTHON_PATH in taken:
        taken[PYTHON_PATH] = os.pathsep.join(own_path(taken[PYTHON_PATH].split(os.pathsep)))
    return taken


def ignored(environment: Mapping[str, str], used: Mapping[str, str]) -> str:
    """Say which variables of ``environment`` are ignored because they belong to another Spark; empty if none.

    Paths are shown with their values, other variables without, as they may hold a token.
    """
    names = [name for name in (*ANOTHERS, *CLUSTERS, PYTHON_PATH) if environment.get(name)]
    others = [
        f"{name}={environment[name]}" if name in PLACES else name
        for name in names
        if environment[name] != used.get(name)
    ]
    return (
        f"ignored, as they belong to another Spark than the one in {spark_home()}: {', '.join(others)}"
        if others
        else ""
    )


def require_open_files() -> None:
    """Raise MedallionError if the hard limit for open files is below what Spark needs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in {resource.RLIM_INFINITY, -1} and hard < MIN_OPEN_FILES:
        raise MedallionError(
            f"a process of this shell may open {hard} files (its hard limit) and Spark needs {MIN_OPEN_FILES:,}: raise"
            " the limit (nofile in /etc/security/limits.conf, LimitNOFILE= of a systemd service, --ulimit nofile of a"
            " container), open a new shell, and run this again"
        )


def own_path(folders: Iterable[str]) -> list[str]:
    """Return the import paths of Python without those that contain another pyspark."""
    return [folder for folder in folders if not _holds_another(Path(folder))]


def _holds_another(place: Path) -> bool:
    if not place.is_absolute() or place == spark_home().parent or place.is_relative_to(spark_home()):
        return False
    if place.suffix == ".zip":
        return place.name.startswith(("pyspark", "py4j"))
    return any((place / package / "__init__.py").exists() for package in ("pyspark", "py4j"))
