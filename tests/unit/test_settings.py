"""Settings: from the environment, and clear when a value cannot be used."""

from pathlib import Path

import pytest

from medallion.errors import UsageError
from medallion.settings import Settings


def test_without_an_environment_the_defaults_hold() -> None:
    here = Path.cwd()
    defaults = Settings(lake=f"{here}/lake", source=f"{here}/data/source")  # Great Expectations takes no relative path
    assert Settings.from_environment({}) == defaults


def test_each_variable_is_read() -> None:
    found = Settings.from_environment(
        {
            "MEDALLION_LAKE": "/data/lake/",
            "MEDALLION_SOURCE": "s3://bucket/prefix/",
            "MEDALLION_SPARK_MASTER": "local[2]",
            "MEDALLION_S3_ENDPOINT": "http://localhost:9000",
            "MEDALLION_S3_ANONYMOUS": "true",
            "MEDALLION_MAX_BAD_LINES": "0.5",
            "MEDALLION_LOCK_WAIT": "5",
            "MEDALLION_SPARK_CONNECT": "sc://localhost:15002",
            "MEDALLION_SPARK_LOG": "INFO",
            "MEDALLION_DRIVER_HOST": "scheduler",
            "MEDALLION_EXECUTOR_MEMORY": "8g",
            "MEDALLION_EXECUTOR_CORES": "4",
            "MEDALLION_MAX_CORES": "64",
        }
    )
    assert (found.lake, found.source) == ("/data/lake", "s3://bucket/prefix")
    assert (found.spark_master, found.s3_endpoint) == ("local[2]", "http://localhost:9000")
    assert found.spark_connect == "sc://localhost:15002"
    assert found.spark_log == "info"
    assert (found.driver_host, found.executor_memory) == ("scheduler", "8g")
    assert (found.executor_cores, found.max_cores) == (4, 64)
    assert (found.s3_anonymous, found.max_bad_lines, found.lock_wait) == (True, 0.5, 5)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MEDALLION_SOURCE", "ftp://x/y"),
        ("MEDALLION_LAKE", "s3://x/y"),
        ("MEDALLION_SPARK_LOG", "everything"),
        ("MEDALLION_LAKE", "/lake [1]"),
        ("MEDALLION_LAKE", "/{lake}"),
        ("MEDALLION_SOURCE", "/a%20source"),
        ("MEDALLION_S3_ANONYMOUS", "perhaps"),
        ("MEDALLION_MAX_BAD_LINES", "2"),
        ("MEDALLION_MAX_BAD_LINES", "few"),
        ("MEDALLION_LOCK_WAIT", "-1"),
        ("MEDALLION_LOCK_WAIT", "inf"),
        ("MEDALLION_SPARK_CONNECT", "sc://spark.example.com:15002"),  # its secret would go there in the clear
        ("MEDALLION_SPARK_CONNECT", "sc://localhost"),
        ("MEDALLION_DRIVER_MEMORY", "4"),  # megabytes, to Spark
        ("MEDALLION_EXECUTOR_MEMORY", "100m"),
        ("MEDALLION_EXECUTOR_MEMORY", "much"),
        ("MEDALLION_EXECUTOR_CORES", "0"),
        ("MEDALLION_MAX_CORES", "1.5"),
        ("MEDALLION_DRIVER_HOST", "me --conf x=y"),
        ("MEDALLION_SPARK_CONNECT", "sc://localhost:15002/;token=x"),
    ],
)
def test_a_value_that_cannot_be_used_names_its_variable(variable: str, value: str) -> None:
    with pytest.raises(UsageError, match=variable):
        Settings.from_environment({variable: value})


def test_default_folder_is_refused_where_the_working_directory_has_a_pattern_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop [x]"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError, match=r"which is not set, has a default that cannot be used: .*contains '\['"):
        Settings.from_environment({})
    with pytest.raises(UsageError, match=r"MEDALLION_LAKE='lake' cannot be used"):
        Settings.from_environment({"MEDALLION_LAKE": "lake"})


def test_a_lake_with_a_hash_in_its_path_is_refused_as_its_history_reads_as_empty(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains '#'"):
        Settings.from_environment({"MEDALLION_LAKE": str(tmp_path / "lake #2")})


def test_text_that_the_shell_could_not_decode_is_named_by_its_variable() -> None:
    with pytest.raises(UsageError, match=r"MEDALLION_SOURCE has characters .* LC_ALL=C\.UTF-8"):
        Settings.from_environment({"MEDALLION_SOURCE": "s\udcc3\udca9"})
