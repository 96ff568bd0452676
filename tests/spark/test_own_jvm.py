"""The JVM of a process: what it said last, and another one in its place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shop import PROJECT

pytestmark = pytest.mark.slow

ONE_ENDS_IT = """
import os, signal

def test_one_that_ends_the_jvm(spark):
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
    spark.sparkContext._gateway.proc.wait()

def test_next(spark):
    assert spark.range(2).count() == 2

def test_after_next(spark):
    assert spark.range(3).count() == 3
"""


def test_tests_behind_one_that_ends_the_jvm_get_a_new_session_and_a_line_says_so(tmp_path: Path) -> None:
    Path(tmp_path, "test_ending.py").write_text(ONE_ENDS_IT)
    Path(tmp_path, "conftest.py").write_text("from tests.conftest import *\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses=1"]
    config = ["-c", str(PROJECT / "pyproject.toml"), "--rootdir", str(PROJECT)]
    done = subprocess.run([*command, *config, tmp_path], capture_output=True, text=True, cwd=PROJECT)
    assert "3 passed" in done.stdout, done.stdout
    ends = [line for line in done.stdout.splitlines() if "was ended by SIGKILL" in line]
    assert len(ends) == 1 and "test_ending.py::test_next" in ends[0]
    assert "code cache: " in done.stdout and "of 512 MB" in done.stdout, done.stdout


def session_in(shell: dict[str, str], before: str = "") -> subprocess.CompletedProcess[str]:
    """A process that begins as a command does, in a shell with these variables, and counts three rows."""
    code = """
from medallion.cli import main as cli

@cli.cli.command("count")
def count():
    from medallion.settings import Settings
    from medallion.spark.session import spark_session
    spark = spark_session(Settings(spark_master="local[1]", driver_memory="512m"))
    print(spark.range(3).count(), "rows")

cli.main()
"""
    command = ["sh", "-c", f'{before}exec "$@"', "shell", sys.executable, "-c", code, "count"]
    return subprocess.run(command, env=os.environ | shell, capture_output=True, text=True, cwd=PROJECT)


def test_session_starts_in_a_shell_that_is_set_up_for_another_spark(tmp_path: Path) -> None:
    Path(tmp_path, "python", "pyspark").mkdir(parents=True)
    Path(tmp_path, "python", "pyspark", "__init__.py").write_text("raise ImportError('another pyspark')")
    Path(tmp_path, "spark-defaults.conf").write_text("spark.sql.extensions no.such.Extension\nspark.master yarn\n")
    Path(tmp_path, "spark-env.sh").write_text("exit 3\n")
    Path(tmp_path, "core-site.xml").write_text("no XML")
    shell = {
        "http_proxy": "http://127.0.0.1:9",
        "SPARK_HOME": "/nowhere",
        "PYTHONPATH": str(tmp_path / "python"),
        "SPARK_CONF_DIR": str(tmp_path),
        "HADOOP_CONF_DIR": str(tmp_path),
        "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
        "PYSPARK_PYTHON": "/nowhere/python",
        "SPARK_REMOTE": "sc://nowhere",
    }
    done = session_in(shell)
    assert (done.returncode, done.stdout) == (0, "3 rows\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert all(name in line for name in shell if name != "http_proxy") and "incubator" not in done.stderr
    assert "SPARK_HOME=/nowhere" in line and "sc://" not in line, "which may have a token"


def test_spark_that_does_not_start_says_why_in_one_line_and_its_own_words_below() -> None:
    done = session_in({"SPARK_SUBMIT_OPTS": "-XX:ReservedCodeCacheSize=lots"})
    assert (done.returncode, done.stdout) == (1, "")
    why, *words = done.stderr.splitlines()
    assert why.startswith("medallion: Spark did not start on local[1]: Invalid maximum code cache size: ")
    assert "  Error: Could not create the Java Virtual Machine." in words


def test_shell_that_allows_few_open_files_is_told_what_to_do() -> None:
    done = session_in({}, before="ulimit -n 256; ")
    assert done.returncode == 1
    assert "may open 256 files (its hard limit) and Spark needs 1,024" in done.stderr and "Traceback" not in done.stderr
