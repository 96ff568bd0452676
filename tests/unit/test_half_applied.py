"""An hour that only some feeds have, as a run was killed while it applied it: nobody judges or publishes a mix."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from medallion.errors import HourOutOfOrder
from medallion.ingest import apply
from medallion.inspect.status import lake_status
from medallion.ops import releases
from medallion.pipeline import erasure, operations
from medallion.pipeline.reprocess import reprocess
from medallion.pipeline.run import Run
from tests.unit.small_lake import H1, H2, Shop, without_spark
from tests.unit.test_erasure import Died, filled, tables


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Hour H1 is published, and the orders of H2 are in Bronze without its items."""
    without_spark(monkeypatch)
    monkeypatch.setattr("medallion.inspect.status.tables_of", lambda *_: shop.tables)
    monkeypatch.setattr("medallion.inspect.status.BETWEEN_TASKS", timedelta(0))
    shop = filled(Shop(tmp_path, tables()))
    shop.put(H2, {44: "four"})
    apply_feed, are_applied = apply.apply_feed, Event()

    def only_orders(spark: Any, lake: Any, feed: Any, *rest: Any) -> Any:
        if feed.name == "bronze_orders":
            done = apply_feed(spark, lake, feed, *rest)
            are_applied.set()
            return done
        are_applied.wait(60)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(apply, "apply_feed", only_orders)
        with pytest.raises(Died):
            shop.refresh(H2)
    assert 44 in shop.rows() and shop.applied == H1
    return shop


DOORS: dict[str, Callable[[Shop], Any]] = {
    "erase": lambda shop: erasure.erase(Run(shop.settings, None, "erase", strategy="full"), shop.driver(), ["42"]),
    "reprocess": lambda shop: reprocess(Run(shop.settings, None, "reprocess", select="silver_orders+"), shop.driver()),
    "publish": lambda shop: shop.step("publish", H1),
}


@pytest.mark.parametrize("door", DOORS)
def test_half_an_hour_is_finished_before_anything_else_is_done_or_published(shop: Shop, door: str) -> None:
    before = releases.require_release(shop.lake, None)
    with pytest.raises(
        HourOutOfOrder, match=f"hour {H2} is in bronze_orders and not yet in all of Bronze.*--hour {H2}"
    ):
        DOORS[door](shop)
    assert releases.require_release(shop.lake, None) == before
    assert any(f"hour {H2} is in parts of Bronze: run medallion" in p for p in lake_status(shop.settings).problems)
    shop.refresh(H2)
    assert shop.published()[44] == "four"
    assert lake_status(shop.settings).problems == []
    DOORS["erase"](shop)
    assert shop.published().keys() >= {1, 43, 44} and 42 not in shop.published()


def test_selection_without_an_hour_is_of_the_half_applied_hour(shop: Shop) -> None:
    outcome = operations.refresh_hour(Run(shop.settings, None, "select", select="silver_orders"), shop.driver())
    assert (outcome.hour, shop.applied) == (H2, H2)


def test_published_hour_that_is_asked_for_again_publishes_nothing_of_the_half_applied_one(shop: Shop) -> None:
    before = releases.require_release(shop.lake, None)
    assert shop.refresh(H1).status == "skipped"
    assert releases.require_release(shop.lake, None) == before
