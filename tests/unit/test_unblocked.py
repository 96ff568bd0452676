"""What may not block a lake: files that were withdrawn, lost or damaged, and commands that were cut short."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from medallion.errors import DamagedFile, MedallionError, UsageError
from medallion.ingest.restatement import read_restatement
from medallion.ingest.source import open_source
from medallion.inspect.status import lake_status
from medallion.ops import releases
from medallion.ops.check_records import read_check_record
from medallion.pipeline import operations, publish, steps
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.run import Outcome, Run
from tests.unit.small_lake import H0, H1, H2, H3, Shop

Spoil = Callable[[Path], object]
DAMAGE: dict[str, Spoil] = {
    "empty": lambda file: file.write_text(""),
    "cut off": lambda file: file.write_text(file.read_text()[:9]),
    "a list": lambda file: file.write_text("[]"),
    "another shape": lambda file: file.write_text(
        '{"late": 5, "files": null, "tables": null, "lines": 5, "hour": "x"}'
    ),
    "UTF-16": lambda file: file.write_text("{}", encoding="utf-16"),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.fixture(params=DAMAGE)
def spoil(request: pytest.FixtureRequest) -> Spoil:
    return DAMAGE[request.param]


def refreshed(shop: Shop, *hours: str) -> None:
    for number, hour in enumerate(hours):
        shop.put(hour, {number: hour})
        shop.refresh(hour)


def die_before(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Have the next such step end with its process."""
    real = steps.run_step

    def run_step(name: str, *about: object) -> Outcome:
        if name == step:
            for module in (operations, steps):
                monkeypatch.setattr(module, "run_step", real)
            raise RuntimeError("killed")
        return real(name, *about)  # type: ignore[arg-type]

    for module in (operations, steps):
        monkeypatch.setattr(module, "run_step", run_step)


def test_late_hour_that_is_withdrawn_before_it_lands_leaves_the_restatement(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed(shop, H0, H2)
    shop.put(H1, {9: "late"})
    die_before(monkeypatch, "land")
    with pytest.raises(RuntimeError, match="killed"):
        shop.restate(H1)
    shop.drop(H1)
    said: list[str] = []
    shop.refresh(said=said)
    assert f"the source withdrew {H1} before it landed: it is not restated" in said
    assert shop.published() == {0: H0, 1: H2} and read_restatement(shop.lake) is None


def test_link_that_leads_to_itself_is_an_error_of_one_line(shop: Shop) -> None:
    refreshed(shop, H0)
    folder = shop.root / "source" / "cdc" / "orders"
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    with pytest.raises(MedallionError, match="a link that leads to itself"):
        open_source(shop.settings).open("cdc/orders/a")


def test_hour_that_bronze_has_is_published_though_its_landed_files_are_gone(shop: Shop) -> None:
    refreshed(shop, H0)
    shop.put(H1, {1: "b"})
    shop.step("land", H1)
    shop.step("apply", H1)
    shutil.rmtree(shop.lake.landing / "orders")
    shop.drop(H1)
    shop.refresh()
    assert shop.published() == {0: H0, 1: "b"}


def test_upkeep_keeps_landed_files_of_hours_without_a_release(shop: Shop) -> None:
    refreshed(shop, H0)
    shop.put(H1, {1: "b"})
    shop.step("land", H1)
    for file in shop.lake.landing.glob("orders/*.json"):
        os.utime(file, (time.time() - 100 * 86_400,) * 2)
    maintain(Run(shop.settings, None, "upkeep"), shop.driver(), Retention())
    assert [file.stem for file in shop.lake.landing.glob("orders/*.json")] == [H1]


def test_restatement_is_refused_before_it_begins_when_a_landed_file_has_rotted(shop: Shop) -> None:
    refreshed(shop, H0, H1)
    shop.drop(H1)
    landed = shop.lake.landing / "orders" / f"{H1}.json"
    landed.write_text(landed.read_text().replace(H1, H0))  # of the same size
    with pytest.raises(MedallionError, match=f"orders/{H1}.json would be lost"):
        shop.restate(H0)
    assert read_restatement(shop.lake) is None
    shop.put(H2, {2: "c"})
    shop.refresh()
    assert shop.published() == {0: H0, 1: H1, 2: "c"}


@pytest.mark.parametrize("how", [name for name in DAMAGE if name != "a folder"])
def test_damaged_record_of_late_files_is_made_again(shop: Shop, how: str) -> None:
    spoil = DAMAGE[how]
    refreshed(shop, H0, H2)
    shop.put(H1, {9: "late"})
    spoil(Path(shop.lake.ops("late_files.json")))
    shop.put(H3, {3: "d"})
    said: list[str] = []
    shop.refresh(said=said)
    assert any(f"hour {H1} arrived after a later one" in line for line in said)
    spoil(Path(shop.lake.ops("late_files.json")))
    assert lake_status(shop.settings).release is not None


def test_damaged_record_of_a_check_counts_as_none(shop: Shop, spoil: Spoil) -> None:
    refreshed(shop, H0)
    spoil(Path(shop.lake.ops("checks"), "gold.json"))
    assert read_check_record(shop.lake, "gold") is None


def test_damaged_manifest_of_a_former_hour_stops_no_new_one(shop: Shop, spoil: Spoil) -> None:
    refreshed(shop, H0, H1, H2)
    for hour in (H0, H2):
        spoil(shop.lake.manifests / f"{hour}.json")
    shop.put(H3, {3: "d"})
    shop.refresh()
    assert shop.published()[3] == "d"


def test_damaged_correction_is_named_before_a_restatement_begins(shop: Shop, spoil: Spoil) -> None:
    refreshed(shop, H0, H1)
    record = shop.lake.corrections / "orders" / f"{H1}.json"
    record.parent.mkdir(parents=True)
    record.write_text('{"sha256": "x", "lines": {}}')
    spoil(record)
    with pytest.raises(DamagedFile, match="orders/"):
        shop.restate(H0)
    assert read_restatement(shop.lake) is None and shop.published() == {0: H0, 1: H1}


def test_damaged_record_of_a_restatement_says_what_to_do(shop: Shop) -> None:
    refreshed(shop, H0)
    Path(shop.lake.ops("restatement.json")).write_text("{}")
    with pytest.raises(DamagedFile, match="remove it, and restate the earliest hour"):
        shop.refresh()


def test_continued_restatement_is_not_compared_with_a_release_of_a_later_hour(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in (H0, H1):
        shop.put(hour, {}, "items")
    refreshed(shop, H0, H1)
    shop.put(H2, {1: "first"}, "items")
    refreshed(shop, H2)
    die_before(monkeypatch, "apply")
    with pytest.raises(RuntimeError, match="killed"):
        shop.restate(H0)
    while read_restatement(shop.lake) is not None:
        shop.refresh()
    assert releases.require_release(shop.lake, None).hour == H2


def test_roll_back_after_a_restatement_that_died_once_published_is_not_undone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed(shop, H0, H1)
    shop.put(H1, {1: "wrong"})
    with monkeypatch.context() as patch:
        patch.setattr(publish, "end_restatement", lambda _: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises(RuntimeError, match="killed"):
            shop.restate(H1)
    assert shop.published()[1] == "wrong"
    shop.roll_back()
    assert shop.published() == {0: H0, 1: H1}
    shop.put(H2, {2: "c"})
    assert shop.refresh().hour == H2, "the next hour, and not the one that was rolled back"


def test_replay_for_a_feed_without_a_file_in_the_hour_says_so(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    refreshed(shop, H0)
    die_before(monkeypatch, "refresh")
    with pytest.raises(RuntimeError, match="killed"):
        shop.restate(H0)
    with pytest.raises((UsageError, MedallionError), match="quarantine has no line"):
        operations.replay(Run(shop.settings, H0, "replay"), shop.driver(), "items", {1: "{}"})
