"""A standalone cluster of a master and two workers: the same rows as on a laptop, and with one of them killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from medallion.ops import event_log
from tests.commits import origin_of
from tests.faults.cluster import Cluster, cluster_in, wait_for
from tests.faults.faults import start
from tests.faults.world import HOURS, World, differing

H0, H1, _ = HOURS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests."""
    with cluster_in(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.mark.long
def test_two_hours_on_a_cluster_with_a_worker_killed_in_the_second_have_the_same_rows(
    few: World, cluster: Cluster, tmp_path: Path
) -> None:
    """Executors are given a Python that is not there: what they run must be Spark's own, and Delta's by its JARs."""
    world = few.copy(tmp_path / "world", strategy="incremental")
    process = start(
        world,
        H0,
        until=H1,
        MEDALLION_SPARK_MASTER=cluster.master,
        MEDALLION_EXECUTOR_MEMORY="600m",
        PYSPARK_PYTHON="/nowhere/python",
    )
    try:
        wait_for(lambda: process.poll() is not None or silver_of(world, H1))
        assert len(cluster.executors()) == 2
        cluster.kill_a_worker()
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, output
    assert differing(world, H1) == []
    (row,) = event_log.read(world.lake, event_type="session", hour=H0)
    assert (row.details["master"], row.details["cores"]) == (cluster.master, 2)


def silver_of(world: World, hour: str) -> bool:
    """Whether the first table of Silver is at ``hour``: the others are being computed, and all of Gold is to come."""
    silver = (world.lake.open(world.lake.path(table.name)) for table in world.tables.layer("silver"))
    return any(origin_of(table).get("hour") == hour for table in silver)
