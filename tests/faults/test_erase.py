"""An erasure is killed before and after things that it makes durable, and is ended by a re-run.

Without Spark, on a small lake: what follows from Bronze is copied, everything else is what a shop's lake has.
MEDALLION_ERASE_FAULTS is how many deaths are tried (12), spread over all that there are: more than a hundred.
"""

import os
import shutil
from pathlib import Path

import pytest

from medallion.ops import releases
from medallion.pipeline.erase_plan import read_plan
from tests.faults.world import Effects, dies
from tests.unit.small_lake import H1, H2, Shop, without_spark
from tests.unit.test_erase_everywhere import holders, plant
from tests.unit.test_erasure import ADDRESS, erase, filled, tables

FAULTS = int(os.environ.get("MEDALLION_ERASE_FAULTS", "12"))
REMOVALS = (("pathlib.Path", "unlink"), ("deltalake.DeltaTable", "update"), ("shutil", "rmtree"))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a person in everything."""
    root = tmp_path_factory.mktemp("planted")
    with pytest.MonkeyPatch.context() as patch:
        without_spark(patch)
        made = filled(Shop(root / "shop", tables()))
        plant(made)
    return root / "shop"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_erasure_is_ended_by_a_re_run_after_a_death_at_any_effect(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark(monkeypatch)

    def copy(name: str) -> Shop:
        return Shop(shutil.copytree(planted, tmp_path / name), tables())

    counted, effects = copy("counted"), Effects(further=REMOVALS)
    with effects.watched():
        erase(counted, "42")
    assert holders(counted) == set()
    cases = [(number, after) for number in range(len(effects.seen)) for after in (False, True)]
    assert len(cases) >= FAULTS
    for place in range(FAULTS):
        number, after = cases[place * len(cases) // FAULTS]
        shop = copy(f"fault-{place}")
        struck = dies(lambda shop=shop: erase(shop, "42"), number, after=after, further=REMOVALS)  # type: ignore[misc]
        newest = releases.require_release(shop.lake, None)
        assert newest.hour == H1
        assert shop.published().keys() >= {1, 43}, f"readers have a whole release after {struck}"
        if read_plan(shop.lake) is not None:
            erase(shop)
        elif holders(shop):
            erase(shop, "42")  # it died before it had begun
        assert holders(shop) == set(), f"killed {'after' if after else 'before'} effect {number}, {struck}"
        shop.put(H2, {42: ADDRESS, 44: "four"})
        shop.refresh(H2)
        assert shop.published() == {1: "one", 43: "three", 44: "four"} | {n: f"n{n}" for n in range(100, 300)}
        shutil.rmtree(shop.root)
