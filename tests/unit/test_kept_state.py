"""An input as it was, which the difference of kept state is computed from: by time travel, if its files are there."""

from pathlib import Path

import pytest

from medallion.model.methods import ByKey, KeptItem, KeptPart
from medallion.model.table import Table
from medallion.refresh.inputs import changes_since
from medallion.refresh.kept_state import KeptState
from medallion.refresh.plan import FullRecompute, Target
from medallion.storage import deletion_vectors
from medallion.storage.lake import Lake, TableState, data_files
from tests.refresh_run import refresh_run
from tests.unit.small_lake import H0, H1, H2, Shop, load, without_spark

NAME = "bronze_orders"
PART = KeptPart("_kept_0", "", "FROM {bronze_orders}", (KeptItem("n", "COUNT", "*"),), True, by=ByKey("id"))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """An input at three versions, of which the later two rewrite a row."""
    without_spark(monkeypatch)
    made = load(tmp_path)
    made.put(H0, {number: f"n{number}" for number in range(200)})
    made.refresh(H0)
    return made


def former(lake: Lake, version: int) -> TableState:
    """The input as a state that follows it up to ``version`` reads it."""
    now = lake.state(NAME)
    assert now is not None
    table = Table(keys=("n",), query="SELECT COUNT(*) AS n FROM {bronze_orders}", name="gold_x", layer="gold")
    state, origin = KeptState(Target(refresh_run(lake), table, {NAME: now}), PART), {"inputs": {NAME: version}}
    return state._former(NAME, changes_since(lake.folder(NAME), NAME, now, origin), origin)


def rewritten(shop: Shop, hour: str, key: int, **settings: str) -> int:
    """Rewrite a row of the input; the version of before."""
    vars(shop).pop("lake", None)
    vars(shop)["settings"] = shop.settings.replace(**settings) if settings else shop.settings
    version = shop.lake.version(NAME)
    assert version is not None
    shop.put(hour, {key: hour})
    shop.refresh(hour)
    return version


def test_an_input_is_read_as_it_was(shop: Shop) -> None:
    version = rewritten(shop, H1, 7)
    assert former(shop.lake, version).version == version
    now = shop.lake.version(NAME)
    assert now is not None
    assert former(shop.lake, now).version == now, "which is what it is"


def test_an_input_whose_files_upkeep_has_removed_is_not_read_as_it_was(shop: Shop) -> None:
    version = rewritten(shop, H1, 7)
    places = [{*data_files(shop.lake.opened(shop.lake.path(NAME), at), shop.lake.access)} for at in (version, None)]
    (gone,) = places[0] - places[1]
    gone.unlink()
    with pytest.raises(FullRecompute, match=f"as it was at version {version}"):
        former(shop.lake, version)


def test_an_input_whose_marks_of_deleted_rows_are_gone_is_not_read_as_it_was(shop: Shop) -> None:
    rewritten(shop, H1, 7, merge_on_read="1k")
    marks = [*shop.lake.folder(NAME).glob("*.bin")]
    version = rewritten(shop, H2, 8)
    assert former(shop.lake, version).version == version
    for place in marks:
        place.unlink()
    deletion_vectors._remembered.clear()  # as in another process
    with pytest.raises(FullRecompute, match=f"as it was at version {version}"):
        former(shop.lake, version)
