"""What arrives after its hour was applied is never dropped without a word."""

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from medallion.cli.sheets import status_sheet
from medallion.errors import HourNotAvailable
from medallion.hours import format_hour, parse_hour
from medallion.ingest import late_files
from medallion.ingest.late_files import LateHour, find_late, late_warning, missing_topics, read_late
from medallion.ingest.ledger import Manifest, landed_hours, write_manifest
from medallion.ingest.listing import Listing
from medallion.ingest.source import Landed, SourceFile
from medallion.inspect.status import lake_status
from medallion.ops import event_log
from medallion.ops.event_schema import EventRow
from medallion.storage.lake import Lake
from medallion.ui.standing import Standing
from medallion.ui.status import status_page
from tests.shop import registry
from tests.unit.small_lake import H0, H1, H2, H3, Shop


def last_land(shop: Shop) -> EventRow:
    """The newest event of the step land."""
    return event_log.read(shop.lake, event_type="land")[-1]


def test_a_late_file_of_an_applied_hour_is_a_warning_with_the_command(shop: Shop) -> None:
    for hour in (H0, H1):
        shop.put(hour, {1: hour})
        shop.refresh(hour)
    shop.put(H0, {7: "item"}, "items")
    shop.put(H2, {1: H2})
    said: list[str] = []
    shop.refresh(H2, said)
    warning = f"items/{H0}.json arrived after its hour had been applied: run medallion refresh --restate {H0}"
    assert any(warning in message for message in said)
    assert last_land(shop).status == "warned"
    assert warning in last_land(shop).details["note"]
    shop.restate(H0)
    assert shop.rows("bronze_items") == {7: "item"}
    assert read_late(shop.lake) == ()


def test_a_late_hour_is_a_warning_with_the_command(shop: Shop) -> None:
    for hour in (H0, H2):
        shop.put(hour, {1: hour})
        shop.refresh(hour)
    shop.put(H1, {5: "late"})
    with pytest.raises(HourNotAvailable):
        shop.refresh()  # nothing else is due: it is seen all the same
    warning = late_warning(read_late(shop.lake))
    assert warning is not None
    assert f"hour {H1} arrived after a later one had been applied: run medallion refresh --restate {H1}" in warning
    shop.restate(H1)
    assert shop.published() == {1: H2, 5: "late"}
    assert read_late(shop.lake) == ()


def test_a_file_that_changes_after_its_hour_was_applied_is_a_warning(shop: Shop) -> None:
    shop.put(H0, {1: "half"})
    shop.refresh(H0)
    shop.put(H0, {1: "half", 2: "the other half"})
    shop.put(H1, {3: H1})
    shop.refresh(H1)
    assert read_late(shop.lake) == (LateHour(H0, changed=("orders",)),)


def test_late_files_are_shown_by_status_and_by_its_page(shop: Shop) -> None:
    for hour in (H0, H2):
        shop.put(hour, {1: hour})
        shop.refresh(hour)
    shop.put(H1, {5: "late"})
    with pytest.raises(HourNotAvailable):
        shop.refresh()
    found = lake_status(shop.settings)
    command = f"medallion refresh --restate {H1}"
    assert command in found.problems[0], "so status --check and the self-check are red"
    assert any(command in line for line in status_sheet(found).title)
    assert command in status_page(Standing(found), registry())


def test_a_late_file_is_compared_once_and_history_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, start = Lake(str(tmp_path)), parse_hour("2025-01-01T00")
    hours = [format_hour(start + timedelta(hours=n)) for n in range(24 * 30)]
    names = {hour: {"orders": (f"cdc/orders/{hour}.json",)} for hour in hours}
    sizes = {name: SourceFile(5, 0.0) for files in names.values() for own in files.values() for name in own}
    for hour in hours:
        write_manifest(lake, Manifest(hour, "s", {"orders": Landed(5, "x")}))
    read = []
    real = late_files.read_manifest_if_whole
    monkeypatch.setattr(late_files, "read_manifest_if_whole", lambda lake, hour: read.append(hour) or real(lake, hour))
    assert find_late(lake, Listing(names, sizes), hours[-2], landed_hours(lake)) == ()
    read.clear()
    late = f"cdc/items/{hours[30]}.json"
    names[hours[30]] = names[hours[30]] | {"items": (late,)}
    found = find_late(lake, Listing(names, sizes | {late: SourceFile(1, 0.0)}), hours[-1], landed_hours(lake))
    assert found == (LateHour(hours[30], new=("items",)),)
    assert len(read) <= 48, "the day of the late file and the running day, out of thirty"
    read.clear()
    assert find_late(lake, Listing(names, sizes | {late: SourceFile(1, 0.0)}), hours[-1], landed_hours(lake)) == found
    assert read == []


def test_nothing_is_late_where_the_landing_folder_was_lost(tmp_path: Path) -> None:
    listing = Listing({H0: {"orders": ("cdc/orders/x",)}}, {"cdc/orders/x": SourceFile(1, 0.0)})
    assert find_late(Lake(str(tmp_path)), listing, H1, set()) == ()


def test_a_warning_names_a_few_late_files_and_the_earliest_hour() -> None:
    late = [LateHour(f"2025-11-30T{n:02}", new=("orders",)) for n in range(9)]
    warning = late_warning(late)
    assert warning is not None
    assert f" and 4 more: run medallion refresh --restate {H0}" in warning
    assert late_warning([]) is None


@pytest.mark.parametrize(("files", "what"), [({}, "file"), ({"items": Landed(0, "")}, "lines")])
def test_a_topic_that_usually_has_lines_and_has_none_is_a_warning(
    tmp_path: Path, files: dict[str, Landed], what: str
) -> None:
    lake, usual = Lake(str(tmp_path)), {"orders": Landed(5, "x"), "items": Landed(5, "x")}
    for hour in (H0, H1, H2):
        write_manifest(lake, Manifest(hour, "s", usual))
    manifest = Manifest(H3, "s", {"orders": Landed(5, "x"), **files})
    write_manifest(lake, manifest)
    (warning,) = missing_topics(lake, manifest, landed_hours(lake))
    assert warning.startswith(f"items has no {what} for {H3}, and had lines in each of the 3 hours before")
    assert f"medallion refresh --restate {H3}" in warning
    assert missing_topics(lake, Manifest(H3, "s", usual), landed_hours(lake)) == []
    assert missing_topics(lake, Manifest(H1, "s", files), landed_hours(lake)) == [], "one hour says nothing"


def test_a_topic_that_is_often_empty_is_no_warning(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    for hour, size in ((H0, 5), (H1, 0), (H2, 5)):
        write_manifest(lake, Manifest(hour, "s", {"items": Landed(size, "x")}))
    assert missing_topics(lake, Manifest(H3, "s", {}), landed_hours(lake)) == []


def test_the_state_of_late_files_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, names = Lake(str(tmp_path)), {}
    start: datetime = parse_hour("2025-01-01T00")
    for n in range(24 * 300):
        hour = format_hour(start + timedelta(hours=n))
        names[hour] = {"orders": (f"cdc/orders/{hour}.json",)}
    monkeypatch.setattr(
        late_files, "read_manifest_if_whole", lambda _, hour: Manifest(hour, "s", {"orders": Landed(5, "x")})
    )
    files = dict.fromkeys((n for f in names.values() for own in f.values() for n in own), SourceFile(5, 0.0))
    find_late(lake, Listing(names, files), hour, {*names})
    state = Path(lake.ops("late_files.json"))
    assert state.stat().st_size < 20_000
    assert len(json.loads(state.read_text())["days"]) == 300


def test_a_late_file_is_found_once_the_landing_folder_is_back(shop: Shop) -> None:
    for hour in (H0, H1):
        shop.put(hour, {1: hour})
        shop.refresh(hour)
    shop.put(H0, {7: "item"}, "items")
    landing = shop.root / "lake" / "landing"
    landing.rename(shop.root / "elsewhere")  # a share that is not mounted
    with pytest.raises(HourNotAvailable):
        shop.refresh()
    assert read_late(shop.lake) == (), "nothing can be said while it is gone"
    if landing.exists():
        landing.rmdir()
    (shop.root / "elsewhere").rename(landing)
    with pytest.raises(HourNotAvailable):
        shop.refresh()
    assert read_late(shop.lake) == (LateHour(H0, new=("items",)),)


def test_hours_from_before_a_lost_landing_folder_are_not_taken_for_late_ones(shop: Shop) -> None:
    for hour in (H0, H1):
        shop.put(hour, {1: hour})
        shop.refresh(hour)
    shutil.rmtree(shop.root / "lake" / "landing")
    for hour in (H2, H3):
        shop.put(hour, {1: hour})
        shop.refresh(hour)
    with pytest.raises(HourNotAvailable):
        shop.refresh()
    assert read_late(shop.lake) == ()
    shop.put(H2, {7: "item"}, "items")
    with pytest.raises(HourNotAvailable):
        shop.refresh()
    assert read_late(shop.lake) == (LateHour(H2, new=("items",)),), "hours since are compared as ever"


def test_late_files_are_forgotten_when_their_first_hour_is_restated(shop: Shop) -> None:
    shop.put(H0, {1: "half"})
    shop.refresh(H0)
    shop.put(H0, {1: "half", 2: "the other half"})
    with pytest.raises(HourNotAvailable):
        shop.refresh()
    assert read_late(shop.lake) == (LateHour(H0, changed=("orders",)),)
    said: list[str] = []
    shop.restate(H0, said)
    assert shop.rows() == {1: "half", 2: "the other half"}
    assert read_late(shop.lake) == ()
    assert not any("--restate" in line for line in said)


def test_late_files_are_in_the_event_of_land_when_no_hour_is_pending(shop: Shop) -> None:
    for hour in (H0, H1):
        shop.put(hour, {1: hour})
        shop.refresh(hour)
    shop.put(H0, {7: "item"}, "items")
    with pytest.raises(HourNotAvailable):
        shop.refresh()
    event = last_land(shop)
    assert event.status == "skipped"
    assert event.details["note"].startswith(f"the source has no hour after {H1}")
    assert f"items/{H0}.json arrived after its hour had been applied" in event.details["note"]
