"""How full a JVM is: asked of a real one, which is small."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from medallion.spark.jars import spark_home
from medallion.spark.java import java_home
from medallion.spark.jvm_usage import FIGURES, Unasked, Usage, fullest, jvm_usage, shortage, shown

MB = 1 << 20


@pytest.fixture
def idle_jvm() -> Iterator[int]:
    """A JVM that waits, with limits of its own; its process id."""
    (jar,) = Path(spark_home(), "jars").glob("py4j-*.jar")
    limits = ("-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=24m", "-XX:MaxMetaspaceSize=48m")
    server = ("-cp", str(jar), "py4j.GatewayServer", "--die-on-broken-pipe", "0")
    process = subprocess.Popen(
        [java_home() / "bin" / "java", *limits, *server], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline().strip().isdigit(), "the port that it listens on"
    yield process.pid
    process.kill()
    process.communicate()


def test_jvm_tells_what_it_uses_and_its_limits_when_asked_twice(idle_jvm: int) -> None:
    first, second = jvm_usage(idle_jvm), jvm_usage(idle_jvm)
    assert set(first) == set(second) == set(FIGURES)
    limits = {name: second[name].limit for name in ("heap", "code_cache", "metaspace")}
    assert limits == {"heap": 64 * MB, "code_cache": 24 * MB, "metaspace": 48 * MB}
    assert all(0 < usage.used <= (usage.limit or usage.used) for usage in second.values()), second


def test_process_that_is_no_jvm_is_left_alone_when_it_is_asked() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        with pytest.raises(Unasked, match=f"process id {process.pid} gives no figures"):
            jvm_usage(process.pid)
        assert process.poll() is None
        process.kill()
    with pytest.raises(Unasked):
        jvm_usage(process.pid)


def test_shortage_names_what_is_above_its_share_of_the_limit_and_nothing_else() -> None:
    usage = {"code_cache": Usage(430 * MB, 512 * MB), "heap": Usage(1, 4), "metaspace": Usage(900 * MB, None)}
    assert shortage(usage) == "code cache 430 of 512 MB (84%)"
    assert shortage(usage, 0.9) == ""
    assert shown("metaspace", usage["metaspace"]) == "900 MB, no limit"
    assert shown("open_files", Usage(1200, 4096)) == "1,200 of 4,096 (29%)"


def test_fullest_takes_each_figure_where_it_was_closest_to_its_limit() -> None:
    one = {"heap": Usage(10, 100), "metaspace": Usage(7, None)}
    other = {"heap": Usage(9, 10), "metaspace": Usage(5, None), "threads": Usage(3, 9)}
    assert fullest([one, other]) == {"heap": Usage(9, 10), "metaspace": Usage(7, None), "threads": Usage(3, 9)}
