"""Every commit of the lake's writer carries its fencing number, and none lands once the lease is lost (F36)."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.ingest import quarantine
from medallion.ingest.decode import Decoded
from medallion.ops import event_log, releases
from medallion.ops.event_log import EventLog
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.run import Run
from medallion.storage import fence
from medallion.storage.fence import LeaseLost
from tests.commits import fencing_number
from tests.unit.small_lake import H0, H1, H2, TABLES, Shop

(ORDERS,) = (feed for feed in TABLES.feeds if feed.topic == "orders")
REJECTED = Decoded(lines=1, rejected=[(1, "no JSON", "{")])


class Held:
    """A lease with the number 7, which may have been lost."""

    number = 7

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost

    def require(self) -> None:
        if self.lost:
            raise LeaseLost("this run has lost writer lease 7")

    confirm = require


@pytest.fixture
def lost() -> Iterator[None]:
    with fence.holding(Held(lost=True)):
        yield


def commits(path: str, since: int = -1) -> list[tuple[str, int | None]]:
    """Operation and fencing number of each commit after version ``since``, oldest first."""
    history = reversed(DeltaTable(path).history())
    return [(commit["operation"], fencing_number(commit)) for commit in history if commit["version"] > since]


def test_quarantine_commits_carry_the_fencing_number(shop: Shop) -> None:
    with fence.holding(Held()):
        for hour in (H0, H1):
            quarantine.write_rejected(shop.lake, ORDERS, hour, "run", REJECTED)
    assert [number for _, number in commits(shop.lake.quarantine("orders"))] == [7, 7]


def test_quarantine_is_not_committed_to_when_an_hour_has_no_rejected_line(shop: Shop) -> None:
    quarantine.write_rejected(shop.lake, ORDERS, H0, "run", REJECTED)
    quarantine.write_rejected(shop.lake, ORDERS, H1, "run", Decoded(lines=1))
    path = shop.lake.quarantine("orders")
    assert len(commits(path)) == 1
    quarantine.write_rejected(shop.lake, ORDERS, H0, "again", Decoded(lines=1))  # the file has been corrected
    assert len(commits(path)) == 2
    assert quarantine.read_rejected(shop.lake, ORDERS) == []


@pytest.mark.usefixtures("lost")
def test_quarantine_takes_no_line_once_the_lease_is_lost(shop: Shop) -> None:
    with pytest.raises(LeaseLost):
        quarantine.write_rejected(shop.lake, ORDERS, H0, "run", REJECTED)
    assert shop.lake.open(shop.lake.quarantine("orders")) is None


def old_lake(shop: Shop) -> list[tuple[str, int]]:
    """A lake with releases and events to drop, and small files to merge; its tables with their versions."""
    for hour in (H0, H1, H2):
        shop.put(hour, {int(hour[-2:]): hour})
        shop.refresh()
    path = shop.lake.path("bronze_orders")
    rows = DeltaTable(path).to_pyarrow_table()
    for _ in range(10):
        write_deltalake(path, rows, mode="append")
    log = EventLog(shop.lake, run_id="old", hour=None, strategy="full", attempt=1)
    log.add(
        "land",
        None,
        None,
        started_at=datetime(2020, 1, 1, tzinfo=UTC),
        event_timestamp=datetime(2020, 1, 1, tzinfo=UTC),
    )
    log.write_waiting()
    log.flush()
    paths = [path, shop.lake.releases, shop.lake.event_log]
    return [(path, DeltaTable(path).version()) for path in paths]


def test_upkeep_commits_carry_the_fencing_number(shop: Shop) -> None:
    before = old_lake(shop)
    driver = shop.driver()
    maintain(Run(shop.settings, None, "upkeep"), driver, Retention(hours=0, days=30))
    operations = []
    for path, version in before:
        for operation, number in commits(path, version):
            operations.append(operation)
            assert number is not None or operation == "WRITE", f"{operation} of {path}"
    assert {"OPTIMIZE", "DELETE"} <= set(operations)
    assert operations.count("DELETE") == 2, "old releases and old events"


def test_upkeep_removes_nothing_once_the_lease_is_lost(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    before = old_lake(shop)
    files = sorted(path for path in shop.root.glob("lake/*/*/*.parquet"))
    driver = shop.driver()
    run = Run(shop.settings, None, "upkeep")
    with driver.writing(run, "maintain"), fence.holding(Held(lost=True)), pytest.raises(LeaseLost):
        maintain(run, driver, Retention(hours=0, days=30))
    assert [(path, DeltaTable(path).version()) for path, _ in before[:2]] == before[:2]
    assert sorted(path for path in shop.root.glob("lake/*/*/*.parquet") if path in files) == files
    assert len(releases.read_all(shop.lake)) == 4
    assert event_log.read(shop.lake, run_id="old")
