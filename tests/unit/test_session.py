"""What Spark is given, on a laptop and on a cluster; starting it is for tests/spark and tests/faults."""

from pathlib import Path

import pytest

from medallion.errors import MedallionError
from medallion.settings import Settings
from medallion.spark import session
from medallion.spark.configuration import TUNING, cluster_conf, needed_conf, submit_conf
from medallion.spark.own_jvm import telling_line
from medallion.spark.session import require_master


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "delta.jar").touch()
    return Settings(jars=str(tmp_path), driver_host="scheduler", executor_memory="8g", executor_cores=4)


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_where_all_is_on_this_machine_the_driver_listens_on_loopback_alone(settings: Settings, master: str) -> None:
    conf = submit_conf(settings, master)
    assert (conf["spark.driver.host"], conf["spark.driver.bindAddress"]) == ("127.0.0.1", "127.0.0.1")


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn", "k8s://https://kubernetes:443"])
def test_remote_executors_receive_the_drivers_address_and_the_jars(settings: Settings, master: str) -> None:
    conf = submit_conf(settings, master)
    assert conf["spark.driver.host"] == "scheduler"
    assert conf["spark.jars"].endswith("delta.jar")
    assert (conf["spark.executor.memory"], conf["spark.executor.cores"]) == ("8g", "4")
    assert "spark.cores.max" not in conf, "as many as there are"
    assert "user.timezone=UTC" in conf["spark.executor.extraJavaOptions"]


def test_a_laptop_has_no_executors_to_set(settings: Settings) -> None:
    assert not [name for name in submit_conf(settings, "local[*]") if name.startswith("spark.executor.")]


def test_what_suits_a_cluster_follows_from_its_size() -> None:
    small, large = cluster_conf(4, ["4g", "4g"]), cluster_conf(200, ["4g", "16g"])
    assert (small["spark.sql.shuffle.partitions"], large["spark.sql.shuffle.partitions"]) == ("4", "200")
    assert large["spark.sql.adaptive.coalescePartitions.initialPartitionNum"] == "800"
    broadcast = "spark.sql.autoBroadcastJoinThreshold"
    assert small[broadcast] == large[broadcast] == str(64 << 20), "the smaller heap decides"
    assert cluster_conf(4, ["4g", "1g"])[broadcast] == str(16 << 20)
    assert TUNING[broadcast] == "64m", "as on a laptop"


def test_a_master_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CONNECT_TIMEOUT_SECONDS", 0)
    with pytest.raises(
        MedallionError, match="no Spark master answers at spark://127.0.0.1:1,localhost:1 .*: see spark_d"
    ):
        require_master("spark://127.0.0.1:1,localhost:1")
    require_master("local[2]")
    require_master("yarn")


def test_local_driver_authenticates_by_a_secret_that_is_in_no_setting(settings: Settings) -> None:
    conf = submit_conf(settings, "local[*]")
    assert conf["spark.authenticate"] == "true"
    assert not [name for name in conf if "secret" in name.lower()], "settings go onto command lines"


def test_cluster_keeps_its_own_authentication(settings: Settings) -> None:
    assert "spark.authenticate" not in submit_conf(settings, "spark://master:7077")


def test_session_makes_no_folder_where_it_is_started(settings: Settings) -> None:
    conf = needed_conf(settings, "local[*]")
    assert not conf["spark.sql.warehouse.dir"].startswith(Path.cwd().as_uri())


def test_error_behind_a_jvm_that_has_ended_is_its_last_words_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.protocol import Py4JNetworkError

    end = "Spark's JVM, process 7, has ended with exit code 3: java.lang.OutOfMemoryError: Java heap space"
    monkeypatch.setattr(session, "end_of_jvm", lambda _: end)
    for lost in (Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "Connection refused")):
        with pytest.raises(MedallionError) as error, session.explained("gold_x could not be computed"):
            raise lost
        assert str(error.value) == f"gold_x could not be computed: {end}"
    monkeypatch.setattr(session, "end_of_jvm", lambda _: None)
    with pytest.raises(ConnectionResetError), session.explained("gold_x could not be computed"):
        raise ConnectionResetError  # of something else


def test_line_that_says_why_a_jvm_ended_is_its_last_cause_or_first_error() -> None:
    stack = [
        "WARN something",
        "Exception in thread main: no",
        "\tat a.B.c(B.java:1)",
        "Caused by: java.io.IOException: full",
    ]
    assert telling_line(stack) == "Caused by: java.io.IOException: full"
    assert telling_line(["starting", "Error: one", "Error: two"]) == "Error: one"
    assert telling_line(["starting", "  last  ", ""]) == "last"
    assert telling_line([]) == ""
