"""The environment of our Spark: what a shell has set for another one is left aside, and named."""

import resource
import sys
from pathlib import Path

import pytest

from medallion.errors import MedallionError
from medallion.spark import surroundings
from medallion.spark.jars import spark_home
from medallion.spark.surroundings import ignored, own_path, require_open_files, spark_environment

ANOTHER = {
    "SPARK_HOME": "/opt/spark",
    "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
    "PYSPARK_PYTHON": "/opt/python",
    "SPARK_CONF_DIR": "/etc/spark",
    "HADOOP_CONF_DIR": "/etc/hadoop",
    "SPARK_REMOTE": "sc://elsewhere",
}


def test_local_spark_is_the_installed_one_whatever_the_shell_has_set_for_another() -> None:
    made = spark_environment("local[*]", ANOTHER | {"PATH": "/usr/bin:/bin", "LANG": "C"})
    assert {name: made.get(name) for name in ANOTHER} == {
        **dict.fromkeys(ANOTHER),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
    }
    assert made["LANG"] == "C" and made["SPARK_LOCAL_IP"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["yarn", "spark://master:7077", "k8s://https://kubernetes:443"])
def test_configuration_of_a_cluster_is_taken_when_the_master_is_one(master: str) -> None:
    made = spark_environment(master, ANOTHER | {"PATH": "/usr/bin:/bin"})
    assert (made["SPARK_CONF_DIR"], made["HADOOP_CONF_DIR"]) == ("/etc/spark", "/etc/hadoop")
    assert made["PYSPARK_PYTHON"] == "/opt/python", "that of its executors"
    assert made["SPARK_HOME"] == str(spark_home()) and "PYSPARK_SUBMIT_ARGS" not in made


def test_what_is_left_aside_is_named_a_place_with_its_value_and_what_is_taken_is_not() -> None:
    environment = ANOTHER | {"PATH": "/usr/bin:/bin"}
    local = ignored(environment, spark_environment("local[2]", environment))
    assert "SPARK_HOME=/opt/spark, PYSPARK_SUBMIT_ARGS" in local
    assert "pyspark-shell" not in local, "arguments may hold a token"
    assert "HADOOP_CONF_DIR=/etc/hadoop" in local and "\n" not in local
    assert "HADOOP_CONF_DIR" not in ignored(environment, spark_environment("yarn", environment))
    ours = spark_environment("local[2]", {"PATH": "/usr/bin:/bin"})
    assert ignored(ours, spark_environment("local[2]", ours)) == ""


def test_places_of_another_pyspark_are_no_places_to_import_from(tmp_path: Path) -> None:
    Path(tmp_path, "python", "pyspark").mkdir(parents=True)
    Path(tmp_path, "python", "pyspark", "__init__.py").touch()
    other = str(tmp_path / "python")
    zipped = str(tmp_path / "python" / "lib" / "py4j-0.10.9-src.zip")
    ours = [str(spark_home().parent), str(spark_home() / "python" / "lib" / "pyspark.zip"), "", str(tmp_path)]
    assert own_path([other, *ours, zipped]) == ours
    made = spark_environment("local[2]", {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{other}:{tmp_path}"})
    assert made["PYTHONPATH"] == str(tmp_path)


def test_hard_limit_of_open_files_that_is_too_low_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings.resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    require_open_files()
    monkeypatch.setattr(surroundings.resource, "getrlimit", lambda _: (256, 256))
    with pytest.raises(MedallionError, match=r"may open 256 files .* needs 1,024: raise the limit \(nofile in"):
        require_open_files()
