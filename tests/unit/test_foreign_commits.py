"""Commits of somebody else are told from ours, refused in Bronze with the ways out, never published unseen (F39)."""

import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import CommitProperties, DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from medallion.errors import HourNotAvailable, MedallionError, UsageError
from medallion.ops import event_log, releases
from medallion.pipeline import adoption, steps
from medallion.pipeline.driver import Driver
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.rollback import rollback
from medallion.pipeline.run import Run
from medallion.refresh.definitions import WENT_BACK, find_tables_to_rebuild
from medallion.refresh.plan import ChangedSince, former_state
from medallion.storage import fence
from medallion.storage.change_feed import changes
from medallion.storage.delta_writes import append_rows, properties
from medallion.storage.foreign_commits import UPON, ChangedByOthers, provenance
from medallion.storage.lake import table_id
from medallion.storage.named_versions import open_named
from tests.unit.small_lake import ARROW, H0, H1, H2, H3, TABLES, Shop, without_spark

Act = Callable[[DeltaTable], Any]
ORDERS = "bronze_orders"


def update(delta: DeltaTable) -> None:
    delta.update({"name": "'by hand'"}, predicate="id = 1")


def restore(delta: DeltaTable) -> None:
    delta.restore(delta.version() - 1)


def add_column(delta: DeltaTable) -> None:
    delta.alter.add_columns([Field("extra", PrimitiveType("string"))])


def append(delta: DeltaTable) -> None:
    write_deltalake(delta, pa.table({"id": [9], "name": ["by hand"]}, schema=ARROW), mode="append")


def overwrite(delta: DeltaTable) -> None:
    write_deltalake(delta, pa.table({"id": [9], "name": ["by hand"]}, schema=ARROW), mode="overwrite")


ACTS: dict[str, tuple[Act, str]] = {
    "UPDATE": (update, "1 rows added, 1 rows removed"),
    "DELETE": (lambda delta: delta.delete("id = 1"), "0 rows added, 1 rows removed"),
    "RESTORE": (restore, "0 rows added, 1 rows removed"),
    "ADD COLUMN": (add_column, "0 rows added, 0 rows removed, other columns"),
    "append": (append, "1 rows added, 0 rows removed"),
    "overwrite": (overwrite, "1 rows added, 2 rows removed"),
}
UPKEEP: dict[str, Act] = {
    "OPTIMIZE": lambda delta: delta.optimize.compact(),
    "VACUUM": lambda delta: delta.vacuum(0, dry_run=False, enforce_retention_duration=False),
    "properties": lambda delta: delta.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"}),
    "checkpoint": lambda delta: delta.create_checkpoint(),
}


def operation(name: str) -> str:
    return "WRITE" if name in ("append", "overwrite") else name


@pytest.fixture(scope="module")
def two_hours(loaded_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The shop that each test gets a copy of: after two hours, the second of which brought the row 2."""
    shop = replace(loaded_shop, root=tmp_path_factory.mktemp("two-hours"))
    shutil.copytree(loaded_shop.root, shop.root, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as monkeypatch:
        without_spark(monkeypatch)
        for hour, rows in ((H0, {1: "one"}), (H1, {2: "two"})):
            shop.put(hour, rows)
            shop.refresh()
    return shop


@pytest.fixture
def shop(two_hours: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop after two hours."""
    without_spark(monkeypatch)
    root = shutil.copytree(two_hours.root, tmp_path / "shop")
    return replace(two_hours, root=root)


def visit(shop: Shop, table: str, act: Act) -> None:
    act(shop.lake.opened(shop.lake.path(table)))


def found(shop: Shop, table: str) -> list[str]:
    delta = shop.lake.opened(shop.lake.path(table))
    return [commit.operation for commit in provenance(shop.lake.folder(table), delta.version()).changes]


@pytest.mark.parametrize("name", ACTS)
def test_bronze_is_refused_with_the_ways_out_when_somebody_changed_it(shop: Shop, name: str) -> None:
    act, counts = ACTS[name]
    version = shop.lake.version(ORDERS) or 0
    visit(shop, ORDERS, act)
    shop.put(H2, {3: "three"})
    shop.put(H2, {3: "three"}, "items")
    with pytest.raises(ChangedByOthers) as refused:
        shop.refresh()
    message = str(refused.value)
    assert "\n" not in message
    assert f"{ORDERS} was changed by somebody else: version {version + 1} ({operation(name)} at 20" in message
    assert counts in message
    assert f"medallion adopt {ORDERS} keeps the change; medallion discard {ORDERS} goes back to" in message
    assert f"version {version}; medallion refresh --restate {H1}" in message
    assert {shop.lake.applied_hour(feed.name) for feed in TABLES.feeds} == {H1}, "no table has a part of the hour"
    assert shop.published() == {1: "one", 2: "two"}


@pytest.mark.parametrize("name", ACTS)
def test_discard_takes_a_bronze_table_back_to_the_last_version_of_ours(shop: Shop, name: str) -> None:
    visit(shop, ORDERS, ACTS[name][0])
    shop.put(H2, {3: "three"})
    adoption.discard(Run(shop.settings, None, "discard"), shop.driver(), ORDERS)
    shop.refresh()
    assert shop.published() == {1: "one", 2: "two", 3: "three"}
    assert [field.name for field in shop.lake.opened(shop.lake.path(ORDERS)).schema().fields] == ["id", "name"]


@pytest.mark.parametrize("name", [name for name in ACTS if name != "ADD COLUMN"])
def test_adopt_takes_the_commits_of_others_as_changes(shop: Shop, name: str) -> None:
    visit(shop, ORDERS, ACTS[name][0])
    kept = shop.rows(ORDERS)
    shop.put(H2, {3: "three"})
    adoption.adopt(Run(shop.settings, None, "adopt"), shop.driver(), ORDERS)
    shop.refresh()
    assert shop.published() == {**kept, 3: "three"}
    (event,) = (row for row in event_log.read(shop.lake) if row.event_type == "adopt")
    assert (event.table_name, event.status) == (ORDERS, "succeeded")
    assert [commit["operation"] for commit in event.details["adopted"]] == [operation(name)]


@pytest.mark.parametrize("name", ACTS)
def test_restatement_applies_the_hours_to_the_table_from_before_the_change(shop: Shop, name: str) -> None:
    visit(shop, ORDERS, ACTS[name][0])
    shop.restate(H1)
    assert shop.published() == {1: "one", 2: "two"}
    assert found(shop, ORDERS) == []


def test_restatement_names_the_adopted_changes_that_it_does_not_keep(shop: Shop) -> None:
    visit(shop, ORDERS, update)
    adoption.adopt(Run(shop.settings, None, "adopt"), shop.driver(), ORDERS)
    said: list[str] = []
    shop.restate(H1, said)
    (warning,) = (line for line in said if "is not kept" in line)
    assert warning.startswith(f"what was adopted in {ORDERS} is not kept: version 3 (UPDATE at 20")
    assert shop.published() == {1: "one", 2: "two"}


@pytest.mark.parametrize("name", UPKEEP)
def test_upkeep_by_others_is_taken(shop: Shop, name: str) -> None:
    for table in (ORDERS, "silver_orders", "gold_orders"):
        visit(shop, table, UPKEEP[name])
    shop.put(H2, {3: "three"})
    shop.refresh()
    assert shop.published() == {1: "one", 2: "two", 3: "three"}


@pytest.mark.parametrize("table", ["silver_orders", "gold_orders"])
@pytest.mark.parametrize("name", ACTS)
def test_computed_table_is_recomputed_and_published_when_somebody_changed_it(shop: Shop, table: str, name: str) -> None:
    before = shop.published(table)
    visit(shop, table, ACTS[name][0])
    delta = shop.lake.opened(shop.lake.path(table))
    with pytest.raises(ChangedSince, match=rf"somebody else changed it: version {delta.version()} \("):
        former_state(shop.lake, shop.lake.path(table), TABLES[table], {})
    assert shop.published(table) == before, "a release names versions"
    shop.put(H2, {3: "three"})
    shop.refresh()
    assert shop.published(table) == {1: "one", 2: "two", 3: "three"}
    assert found(shop, table) == []


@pytest.mark.parametrize("step", ["refresh", "check", "publish"])
@pytest.mark.parametrize("table", ["silver_orders", "gold_orders"])
def test_change_between_two_steps_is_not_published(
    shop: Shop, table: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = table.partition("_")[0]
    visits, run_step = [update], steps.run_step

    def visited(name: str, run: Run, driver: Any, at: Any = None) -> Any:
        if visits and name == step and at in (None, layer):
            visit(shop, table, visits.pop())
        return run_step(name, run, driver, at)

    for module in ("steps", "operations"):
        monkeypatch.setattr(f"medallion.pipeline.{module}.run_step", visited)
    shop.put(H2, {3: "three"})
    shop.refresh()
    assert not visits
    assert shop.published(table) == {1: "one", 2: "two", 3: "three"}


@pytest.mark.parametrize("step", ["refresh", "check", "publish"])
def test_bronze_change_between_two_steps_is_not_published(
    shop: Shop, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits, run_step = [update], steps.run_step

    def visited(name: str, run: Run, driver: Any, at: Any = None) -> Any:
        if visits and name == step:
            visit(shop, ORDERS, visits.pop())
        return run_step(name, run, driver, at)

    for module in ("steps", "operations"):
        monkeypatch.setattr(f"medallion.pipeline.{module}.run_step", visited)
    shop.put(H2, {3: "three"})
    with pytest.raises(ChangedByOthers, match=f"medallion adopt {ORDERS}"):
        shop.refresh()
    assert shop.published() == {1: "one", 2: "two"}
    adoption.discard(Run(shop.settings, None, "discard"), shop.driver(), ORDERS)
    shop.refresh()
    assert shop.published() == {1: "one", 2: "two", 3: "three"}


def test_releases_that_somebody_changed_are_not_added_to(shop: Shop) -> None:
    shop.lake.opened(shop.lake.releases).delete("release_id = 2")
    shop.put(H2, {3: "three"})
    with pytest.raises(ChangedByOthers, match="nothing is published: releases was changed by somebody else: version"):
        shop.refresh()
    adoption.discard(Run(shop.settings, None, "discard"), shop.driver(), "releases")
    shop.refresh(H2)
    assert shop.published() == {1: "one", 2: "two", 3: "three"}


def test_release_that_somebody_appended_is_noticed(shop: Shop) -> None:
    delta = shop.lake.opened(shop.lake.releases)
    write_deltalake(delta, delta.to_pyarrow_table().filter(pc.field("release_id") == 2), mode="append")
    shop.put(H2, {3: "three"})
    with pytest.raises(ChangedByOthers, match="nothing is published: releases was changed by somebody else: version"):
        shop.refresh()


def test_table_whose_folder_went_back_is_rebuilt_as_another_one(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shop.lake.path("silver_orders"))
    backup = shutil.copytree(folder, tmp_path / "backup")
    shop.put(H2, {3: "three"})
    shop.refresh()
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    before = table_id(shop.lake.opened(str(folder)))
    shop.put(H3, {4: "four"})
    monkeypatch.setattr(Driver, "sessions", lambda *_: SimpleNamespace(forget_logs=lambda: None))
    shop.refresh()
    assert shop.published() == {1: "one", 2: "two", 3: "three", 4: "four"}
    assert table_id(shop.lake.opened(str(folder))) != before, "no number means two things"
    (event,) = (row for row in event_log.read(shop.lake, hour=H3, event_type="refresh") if row.status == "warned")
    assert "rebuilt, as it went back to version" in event.details["note"]


def test_bronze_whose_folder_went_back_is_refused_and_restating_applies_its_hours_again(
    shop: Shop, tmp_path: Path
) -> None:
    folder = Path(shop.lake.path(ORDERS))
    backup = shutil.copytree(folder, tmp_path / "backup")
    shop.put(H2, {3: "three"})
    shop.refresh()
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    shop.put(H3, {4: "four"})
    with pytest.raises(ChangedByOthers) as refused:
        shop.refresh()
    assert re.match(
        rf"{ORDERS} went back to version \d+ and ends with hour {H1}, and readers have version \d+ of hour {H2}",
        str(refused.value),
    )
    assert f"medallion refresh --restate {H2}" in str(refused.value)
    shop.restate(H2)
    assert shop.published() == {1: "one", 2: "two", 3: "three"}
    shop.refresh()
    assert shop.published() == {1: "one", 2: "two", 3: "three", 4: "four"}


def restored_and_brought_to_its_number(shop: Shop, table: str, backup: Path) -> None:
    """Put a table's folder back, and commit upkeep of somebody else until it has the number that readers have."""
    folder = Path(shop.lake.path(table))
    version = shop.lake.version(table) or 0
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    while (delta := shop.lake.opened(str(folder))).version() < version:
        delta.alter.set_table_properties({"delta.logRetentionDuration": f"interval {60 + delta.version()} days"})


@pytest.fixture
def backups(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Copies of two tables as they were before the hour that is published."""
    monkeypatch.setattr(Driver, "sessions", lambda *_: SimpleNamespace(forget_logs=lambda: None))
    made = {name: shutil.copytree(shop.lake.path(name), tmp_path / name) for name in (ORDERS, "silver_orders")}
    shop.put(H2, {3: "three"})
    shop.refresh()
    return made


def test_release_names_the_commit_and_no_other_of_its_number(shop: Shop, backups: dict[str, Path]) -> None:
    newest = releases.require_release(shop.lake, None)
    assert newest.commits.keys() == newest.versions.keys()
    restored_and_brought_to_its_number(shop, "silver_orders", backups["silver_orders"])
    with pytest.raises(MedallionError, match=r"silver_orders is no longer the commit that.*restored .* from a backup"):
        open_named(shop.lake, newest.version_of("silver_orders"))
    shop.put(H3, {4: "four"})
    shop.refresh()
    assert shop.published("silver_orders") == {1: "one", 2: "two", 3: "three", 4: "four"}
    with pytest.raises(MedallionError, match=f"release {newest.release_id} cannot be restored: .* rebuilt since"):
        rollback(Run(shop.settings, None, "rollback"), shop.driver(), newest.release_id)


def test_plain_refresh_rebuilds_a_table_whose_folder_went_back_while_no_hour_is_pending(
    shop: Shop, backups: dict[str, Path]
) -> None:
    restored_and_brought_to_its_number(shop, "silver_orders", backups["silver_orders"])
    said: list[str] = []
    assert shop.refresh(said=said).status == "succeeded"
    assert any("rebuilding silver_orders and what reads it" in line and WENT_BACK in line for line in said), said
    assert shop.published("silver_orders") == shop.published("gold_orders") == {1: "one", 2: "two", 3: "three"}
    assert find_tables_to_rebuild(shop.lake, shop.tables, releases.latest(shop.lake)) == {}


@pytest.mark.parametrize("before", ["land", "publish"])
def test_bronze_of_the_same_number_in_a_folder_that_went_back_is_not_published(
    shop: Shop, backups: dict[str, Path], before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits, run_step = [ORDERS], steps.run_step

    def visited(name: str, run: Run, driver: Any, at: Any = None) -> Any:
        if visits and name == before:
            restored_and_brought_to_its_number(shop, visits[0], backups[visits.pop()])
        return run_step(name, run, driver, at)

    for module in ("steps", "operations"):
        monkeypatch.setattr(f"medallion.pipeline.{module}.run_step", visited)
    published = shop.published()
    shop.put(H3, {4: "four"})
    with pytest.raises(MedallionError):
        shop.refresh()
    assert not visits and releases.require_release(shop.lake, None).hour == H2
    shop.restate(H2)
    with suppress(HourNotAvailable):  # it was restated too where it had been applied
        shop.refresh()
    assert shop.published() == {**published, 4: "four"}


def test_commit_of_the_same_number_in_a_folder_that_went_back_is_another_one(shop: Shop, tmp_path: Path) -> None:
    folder, path = shop.lake.folder(ORDERS), Path(shop.lake.path(ORDERS))
    backup = shutil.copytree(path, tmp_path / "backup")
    append_rows(shop.lake.opened(str(path)), pa.table({"id": [8], "name": ["first"]}, schema=ARROW), properties("{}"))
    version = shop.lake.opened(str(path)).version()
    former = provenance(folder, version).identity
    assert not changes(folder, version, version, former).unknown
    shutil.rmtree(path)
    shutil.copytree(backup, path)
    append_rows(shop.lake.opened(str(path)), pa.table({"id": [9], "name": ["then"]}, schema=ARROW), properties("{}"))
    assert shop.lake.opened(str(path)).version() == version
    assert changes(folder, version, version, former).unknown == (
        f"its version {version} is another commit: its folder went back"
    )


def test_event_log_that_somebody_changed_is_added_to_with_a_warning(shop: Shop) -> None:
    shop.lake.opened(shop.lake.event_log).delete()
    shop.put(H2, {3: "three"})
    shop.refresh()
    (event,) = (row for row in event_log.read(shop.lake, event_type="maintain") if row.status == "warned")
    assert event.details["note"].startswith("event_log was changed by somebody else: version")
    assert shop.published() == {1: "one", 2: "two", 3: "three"}


def test_upkeep_leaves_a_table_alone_that_somebody_changed(shop: Shop) -> None:
    visit(shop, ORDERS, update)
    version = shop.lake.version(ORDERS)
    maintain(Run(shop.settings, None, "maintain"), shop.driver(), Retention(0, 0))
    assert shop.lake.version(ORDERS) == version
    assert found(shop, ORDERS) == ["UPDATE"]
    (event,) = (row for row in event_log.read(shop.lake, event_type="maintain") if row.table_name == ORDERS)
    assert "left as it is, as somebody else changed it: version" in event.details["note"]


@pytest.mark.parametrize("name", ["releases", "event_log"])
def test_upkeep_drops_no_row_of_a_table_of_records_that_somebody_changed(shop: Shop, name: str) -> None:
    path = getattr(shop.lake, name)
    column = "release_id" if name == "releases" else "attempt"
    shop.lake.opened(path).update({column: f"{column} + 0"})
    count = shop.lake.opened(path).count()
    with pytest.raises(MedallionError, match=f"upkeep of {name} failed"):
        maintain(Run(shop.settings, None, "maintain"), shop.driver(), Retention(0, 0))
    assert shop.lake.opened(path).count() >= count


def test_a_comment_on_a_column_changes_no_row(shop: Shop) -> None:
    delta = shop.lake.opened(shop.lake.path(ORDERS))
    before = delta.version()
    delta.alter.set_column_metadata("name", {"comment": "as on the label"})
    assert found(shop, ORDERS) == []
    assert shop.lake.same_rows(ORDERS, before, before + 1)


def test_copied_metadata_does_not_make_a_commit_ours(shop: Shop) -> None:
    delta = shop.lake.opened(shop.lake.path("silver_orders"))
    info = delta.history(1)[0]
    copied = {name: str(info[name]) for name in (fence.KEY, UPON, "userMetadata") if name in info}
    delta.update({"name": "'by hand'"}, commit_properties=CommitProperties(custom_metadata=copied))
    assert found(shop, "silver_orders") == ["UPDATE"]
    append(delta)
    assert found(shop, "silver_orders") == ["UPDATE", "WRITE"]


def test_commit_that_overlooked_another_does_not_vouch_for_it(shop: Shop) -> None:
    delta = shop.lake.opened(shop.lake.path(ORDERS))
    visit(shop, ORDERS, append)  # after the writer has looked
    append_rows(delta, None, properties('{"hour": null}', upon=delta))
    assert found(shop, ORDERS) == ["WRITE"]


def test_lake_from_before_commits_named_the_version_before_them_is_known(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1], "name": ["one"]}, schema=ARROW))
    former = CommitProperties(custom_metadata={"fence": "3", "userMetadata": json.dumps({"hour": H0})})
    delta = DeltaTable(tmp_path)
    rows = pa.table({"id": [2], "name": ["two"]}, schema=ARROW)
    write_deltalake(delta, rows, mode="append", commit_properties=former)
    assert provenance(tmp_path, 1).changes == ()
    assert provenance(tmp_path, 1).origin["hour"] == H0
    delta.update({"name": "'x'"}, commit_properties=former)
    assert [commit.operation for commit in provenance(tmp_path, 2).changes] == ["UPDATE"]


def test_what_a_stranger_writes_into_the_log_stays_on_one_line(shop: Shop) -> None:
    mischief = CommitProperties(custom_metadata={"userName": "eve\nall is well\x1b[2J", "userMetadata": "[1"})
    delta = shop.lake.opened(shop.lake.path(ORDERS))
    delta.delete("id = 1", commit_properties=mischief)
    log = Path(shop.lake.path(ORDERS), "_delta_log", f"{delta.version():020}.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"]["operationMetrics"] = {"numDeletedRows": None}
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    shop.put(H2, {3: "three"})
    with pytest.raises(ChangedByOthers) as refused:
        shop.refresh()
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_adopt_and_discard_say_when_there_is_nothing_to_decide(shop: Shop) -> None:
    run = Run(shop.settings, None, "adopt")
    for work in (adoption.adopt, adoption.discard):
        with pytest.raises(UsageError, match="nobody else has changed bronze_orders"):
            work(run, shop.driver(), ORDERS)
        with pytest.raises(UsageError, match="silver_orders is computed: the next refresh recomputes"):
            work(run, shop.driver(), "silver_orders")
        with pytest.raises(UsageError, match="there is no table 'bronze_x': choose bronze_items, bronze_orders, "):
            work(run, shop.driver(), "bronze_x")
        with pytest.raises(UsageError, match="event_log is only added to"):
            work(run, shop.driver(), "event_log")


def test_discard_says_when_the_files_of_before_are_gone(shop: Shop) -> None:
    visit(shop, ORDERS, update)
    visit(shop, ORDERS, UPKEEP["VACUUM"])
    with pytest.raises(MedallionError, match="cannot go back: the files of its last version of ours, 2, are not kept"):
        adoption.discard(Run(shop.settings, None, "discard"), shop.driver(), ORDERS)
