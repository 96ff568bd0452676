"""Releases held by name: upkeep keeps them and what they are read from, and commands take the name for the number."""

import pytest
from click.testing import CliRunner

from medallion.cli.main import cli
from medallion.errors import DamagedFile, HourOutOfOrder, UsageError
from medallion.ops import holds, releases
from medallion.pipeline import held_releases
from medallion.pipeline.erase_plan import Plan, write_plan
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.run import Run
from tests.unit.small_lake import H0, H1, H2, H3, Shop
from tests.unit.test_retention import age, readable, refresh, upkeep


def hold(shop: Shop, name: str, number: int | None = None) -> str:
    return held_releases.hold(Run(shop.settings, None, "hold"), shop.driver(), name, number).message


def unhold(shop: Shop, name: str) -> None:
    held_releases.unhold(Run(shop.settings, None, "unhold"), shop.driver(), name)


def kept(shop: Shop) -> list[int]:
    return [release.release_id for release in releases.read_all(shop.lake)]


def test_held_release_is_read_whatever_upkeep_removed_until_it_is_no_longer_held(shop: Shop) -> None:
    refresh(shop, H0)
    first = kept(shop)[-1]
    held = readable(shop)[-1:]
    assert hold(shop, "audit-2025") == f"release {first} is held as audit-2025"
    refresh(shop, H1, H2, H3)
    for _ in range(2):
        age(shop)
        upkeep(shop)
        assert kept(shop) == [first, first + 2, first + 3]
        assert readable(shop)[:1] == held
    unhold(shop, "audit-2025")
    upkeep(shop)
    assert kept(shop) == [first + 2, first + 3]


def test_releases_that_are_kept_are_named_as_spans_where_one_is_missing(shop: Shop) -> None:
    refresh(shop, H0)
    hold(shop, "first")
    refresh(shop, H1, H2, H3)
    upkeep(shop)
    with pytest.raises(UsageError, match="there is no release 3: choose 2, 4 to 5"):
        releases.require_release(shop.lake, 3)


def test_name_stands_for_the_number_in_every_command(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    refresh(shop, H0)
    hold(shop, "before")
    refresh(shop, H1)
    monkeypatch.setenv("MEDALLION_LAKE", shop.lake.root)

    def said(*words: str) -> str:
        return CliRunner().invoke(cli, words, catch_exceptions=False).output

    count = ("query", "SELECT COUNT(*) AS n FROM gold_orders", "--format", "csv")
    assert said(*count, "--release", "before").split() == ["n", "1"]
    assert said(*count).split() == ["n", "2"]
    listed = said("release", "list", "--wide")
    assert "before" in listed
    assert listed.endswith(f"readers see release {kept(shop)[-1]} of hour {H1}\n")
    assert "gold_orders" in said("release", "show", "before", "--format", "csv")


def test_wrong_names_are_refused_and_say_what_is_held(shop: Shop) -> None:
    refresh(shop, H0)
    with pytest.raises(UsageError, match="no release is held as x: medallion release list shows"):
        unhold(shop, "x")
    for name in ("../x", "7", "", "a b", "x" * 64):
        with pytest.raises(UsageError, match="is no name: write letters"):
            hold(shop, name)
    with pytest.raises(UsageError, match="there is no release 9"):
        hold(shop, "x", 9)
    hold(shop, "x")
    with pytest.raises(UsageError, match="x holds release 2 already: run medallion release unhold x first"):
        hold(shop, "x")
    with pytest.raises(UsageError, match="no release is held as y: the names in use are x"):
        holds.require_hold(shop.lake, "y")


def test_nothing_is_held_while_an_erasure_is_under_way(shop: Shop) -> None:
    refresh(shop, H0)
    write_plan(shop.lake, Plan("e", "2025-12-01T00:00:00+00:00", ("1",), {}, ()))
    with pytest.raises(HourOutOfOrder, match="nothing is held: erasure e was cut short: run medallion erase"):
        hold(shop, "x")


def test_upkeep_removes_no_release_where_a_hold_cannot_be_read(shop: Shop) -> None:
    refresh(shop, H0, H1, H2)
    place = shop.lake.at(shop.lake.ops("holds"), "audit.json")
    place.parent.mkdir()
    place.write_text("{")
    before = kept(shop)
    with pytest.raises(Exception, match=r"audit\.json is damaged") as error:
        maintain(Run(shop.settings, None, "upkeep"), shop.driver(), Retention(hours=0))
    assert not isinstance(error.value, DamagedFile), "everything else is kept in order"
    assert kept(shop) == before
