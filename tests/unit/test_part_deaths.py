"""A run that dies while an hour of several files is landed and applied: a plain re-run gives every record once."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from medallion.model.delivery import Layout
from tests.faults.world import Effects, dies
from tests.unit.small_lake import H0, H1, TABLES, Shop, load, without_spark
from tests.unit.test_format_debezium import change, put
from tests.unit.test_layouts import KAFKA, delivered

SHARE = 4  # one in so many effects


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """One whose second hour has files of two partitions, one of them delivered again."""
    without_spark(monkeypatch)
    shop = load(tmp_path / "shop", delivered(TABLES, format="debezium", layout=Layout(KAFKA)))
    put(shop, H0, 0, 0, change("c", 1, "a", 1), change("c", 2, "b", 2))
    shop.refresh(H0)
    put(shop, H1, 0, 2, change("u", 1, "c", 3), change("d", 2, lsn=6), change("c", 3, "d", 7))
    put(shop, H1, 0, 3, change("d", 2, lsn=6))
    put(shop, H1, 1, 0, change("u", 1, "later", 4), change("c", 4, "e", 5))
    return shop


def test_re_run_after_a_death_at_an_effect_gives_every_record_once(shop: Shop, tmp_path: Path) -> None:
    def copy(name: str) -> Shop:
        shutil.copytree(shop.root, tmp_path / name)
        return Shop(tmp_path / name, shop.tables)

    with Effects().watched() as effects:
        copy("counted").refresh(H1)
    assert len(effects.seen) > SHARE
    for number in range(0, len(effects.seen), SHARE):
        for after in (False, True):
            struck = copy(f"{number}-{after}")
            died_at = dies(partial(struck.refresh, H1), number, after=after)
            struck.refresh(H1)
            assert (died_at, struck.published()) == (died_at, {1: "later", 3: "d", 4: "e"})
            assert struck.applied == H1
