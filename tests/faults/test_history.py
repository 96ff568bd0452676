"""Hours restated, releases compared and rolled back, lines mended, old versions removed: what came out is exact."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medallion.errors import MedallionError, UsageError
from medallion.ingest import quarantine
from medallion.ingest.restatement import read_restatement
from medallion.inspect.query import diff, diff_rows, open_release, select
from medallion.ops import event_log, releases
from medallion.pipeline import operations
from medallion.pipeline.maintain import Retention, maintain
from medallion.pipeline.rollback import rollback
from medallion.pipeline.run import Outcome, Run
from medallion.pipeline.steps import run_step
from tests.faults.world import HOURS, Reader, World, dies, differing

H0, H1, H2 = HOURS
After = Callable[[str], World]


def restate(world: World, hour: str) -> Outcome:
    return operations.restate(Run(world.settings, hour, "restate"), world.driver())


def tidy(world: World, hours: int = 0) -> None:
    maintain(Run(world.settings, None, "tidy"), world.driver(), Retention(hours=hours))


def statuses(world: World, number: int | None = None) -> dict[str, int]:
    with open_release(world.lake, releases.require_release(world.lake, number)) as connection:
        return dict(select(connection, "SELECT order_status, order_count FROM gold_order_status_summary").fetchall())


def test_an_hour_restated_from_the_same_files_gives_the_same_rows(at: After) -> None:
    world = at(H2)
    restate(world, H1)
    assert differing(world, H2) == []


def test_late_hour_is_refused_until_it_is_restated(world: World, tmp_path: Path) -> None:
    late = {path: tmp_path / path.parent.name for path in world.change_files(H1)}
    for path, aside in late.items():
        shutil.move(path, aside)
    for hour in (H0, H2):
        world.refresh(hour)
    for path, aside in late.items():
        shutil.move(aside, path)
    with pytest.raises(MedallionError, match=f"run medallion refresh --restate {H1}"):
        world.refresh(H1)
    restate(world, H1)
    assert differing(world, H2) == []


def test_corrected_files_are_reported_until_their_hour_is_restated(at: After) -> None:
    world = at(H2)
    file = world.change_file("orders", H1)
    right = file.read_text()
    world.refresh(H1)  # as it was: nothing to say
    file.write_text("\n".join(line for line in right.splitlines() if '"delivered"' not in line) + "\n")
    assert f"(orders): run medallion refresh --restate {H1}" in world.refresh(H1).message
    restate(world, H1)
    before, after = releases.read_all(world.lake)[-2:]
    changed = {d.table: d for d in diff(world.lake, before, after, world.tables) if d}
    assert "bronze_orders" in changed and "gold_order_status_summary" in changed
    names, rows = diff_rows(world.lake, before, after, world.tables["gold_order_status_summary"], limit=100)
    assert names[:2] == ["side", "order_status"]
    assert [row[0] for row in rows] == ["-", "+"] * (len(rows) // 2)
    file.write_text(right)
    restate(world, H1)
    assert differing(world, H2) == []


def test_an_hour_that_the_source_dropped_is_replayed_as_it_landed(at: After) -> None:
    world = at(H2)
    for path in world.change_files(H1):
        path.unlink()
    restate(world, H0)
    assert differing(world, H2) == []


@pytest.mark.parametrize(("cut", "landed"), [(4, True), (25, False)])
def test_interrupted_restatement_continues_with_a_plain_re_run(at: After, cut: int, landed: bool) -> None:
    world = at(H2)
    with Reader(world) as reader:
        assert dies(lambda: restate(world, H1), cut, after=landed) != "none"
        assert world.published()[0] == H2, "nothing is published on the way"
        world.catch_up(H2)
    assert (differing(world, H2), reader.torn) == ([], [])
    assert read_restatement(world.lake) is None


def test_restatement_is_refused_for_an_hour_after_the_last(at: After) -> None:
    world = at(H0)
    with pytest.raises(UsageError, match=f"after {H0}, the last one: run medallion refresh"):
        restate(world, H1)


def test_a_release_rolls_back_and_the_next_refresh_goes_forward(at: After) -> None:
    world = at(H1)
    rollback(Run(world.settings, None, "back"), world.driver(), None)
    assert world.published() == (H0, world.expected[H0])
    assert [r.hour for r in releases.read_all(world.lake)] == [None, H0, H1, H0]
    world.refresh(H2)
    assert differing(world, H2) == []


def test_after_a_roll_back_the_same_hour_can_be_published_again(at: After) -> None:
    world = at(H1)
    rollback(Run(world.settings, None, "back"), world.driver(), 1)
    assert world.published()[0] is None
    world.refresh(H1)
    assert differing(world, H1) == []


def test_maintenance_keeps_only_what_kept_releases_name(at: After) -> None:
    world = at(H2)
    stray = Path(world.lake.path("silver_customers"), "part-00000-of-a-crash.snappy.parquet")
    shutil.copy(next(stray.parent.glob("*.parquet")), stray)
    os.utime(stray, (0, 0))
    with Reader(world) as reader:
        tidy(world)
    assert reader.torn == []
    assert [r.hour for r in releases.read_all(world.lake)] == [H1, H2]
    for release in releases.read_all(world.lake):
        assert all(world.lake.is_whole(table, version) for table, version in release.versions.items())
    assert not world.lake.is_whole("silver_customers", 0)
    assert not stray.exists()
    rollback(Run(world.settings, None, "back"), world.driver(), None)
    assert world.published() == (H1, world.expected[H1])


def test_maintenance_twice_has_nothing_to_do_the_second_time(at: After) -> None:
    world = at(H1)
    tidy(world)
    before = {table.name: world.lake.version(table.name) for table in world.tables}
    tidy(world)
    assert {table.name: world.lake.version(table.name) for table in world.tables} == before


def test_maintenance_between_refresh_and_publish_does_not_stop_the_publish(world: World) -> None:
    run = Run(world.settings, H0, "by-step")
    driver = world.driver()
    for name, layer in (("land", None), ("apply", "bronze"), ("refresh", "silver"), ("refresh", "gold")):
        run_step(name, run, driver, layer)
    for layer in driver.tables.layers:
        run_step("check", run, driver, layer)
    tidy(world)
    run_step("publish", run, driver)
    assert differing(world, H0) == []


def test_an_hour_can_be_restated_as_far_back_as_releases_are_kept(at: After) -> None:
    world = at(H2)
    tidy(world)
    with pytest.raises(MedallionError, match=f"no version of bronze_orders from before {H1} exists"):
        restate(world, H1)
    assert differing(world, H2) == [], "a refused restatement changes nothing"
    restate(world, H2)
    assert differing(world, H2) == []


def bad_line(world: World) -> tuple[int, str]:
    """Spoil a line of the first hour's orders whose key no later line has; its number, and what it should have been."""
    files = [world.change_file("orders", hour).read_text().splitlines() for hour in HOURS]
    rows = [next(iter(json.loads(line).values())) for lines in files for line in lines]
    last = {row["order_id"]: number for number, row in enumerate(rows)}
    number = next(n for n in last.values() if n < len(files[0]) and '"insert"' in files[0][n])
    right, row = files[0][number], json.loads(files[0][number])
    row["insert"]["order_total"] = "a lot"
    files[0][number] = json.dumps(row)
    world.change_file("orders", H0).write_text("\n".join(files[0]) + "\n")
    return number + 1, right


def test_corrected_line_is_applied_at_its_place_when_it_is_replayed(world: World) -> None:
    number, right = bad_line(world)
    world.catch_up(H2)
    orders = quarantine.feed_of(world.tables.feeds, "orders")
    (kept,) = quarantine.read_rejected(world.lake, orders)
    assert (kept.hour, kept.line_number) == (H0, number)
    assert differing(world, H2) != []
    replay = Run(world.settings, H0, "replay")
    with pytest.raises(UsageError, match="none of 1 lines fits"):
        operations.replay(replay, world.driver(), "orders", None)
    with pytest.raises(UsageError, match="still does not fit: order_total"):
        operations.replay(replay, world.driver(), "orders", {number: kept.raw})
    with pytest.raises(UsageError, match="line 999 of orders/.* is not in quarantine"):
        operations.replay(replay, world.driver(), "orders", {999: right})
    operations.replay(replay, world.driver(), "orders", {number: right})
    assert differing(world, H2) == []
    assert quarantine.read_rejected(world.lake, orders) == []


def test_a_query_reads_one_release_and_nothing_else(world: World) -> None:
    world.refresh(H0)
    assert statuses(world, 1) != statuses(world)
    with open_release(world.lake, releases.require_release(world.lake, None)) as connection:
        for forbidden in (
            "SELECT * FROM read_text('/etc/passwd')",
            f"COPY (SELECT 1) TO '{world.root}/lake/x.csv'",
            "SET enable_external_access = true",
            "SELECT 1; SELECT 2",
            "SELECT nonsense",
            "",
        ):
            with pytest.raises(UsageError):
                select(connection, forbidden)


def test_a_release_with_a_missing_file_is_an_error_and_no_roll_back(at: After) -> None:
    world = at(H1)
    old = releases.read_all(world.lake)[-2]
    delta: Any = world.lake.open(
        world.lake.path("gold_order_status_summary"), old.versions["gold_order_status_summary"]
    )
    Path(delta.file_uris()[0]).unlink()
    with pytest.raises(MedallionError, match="files of gold_order_status_summary are missing"):
        rollback(Run(world.settings, None, "back"), world.driver(), None)
    assert differing(world, H1) == []


def spoil(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100] + b"\0" * 50)


def newest_commit(world: World, table: str) -> Path:
    return Path(world.lake.path(table), "_delta_log", f"{world.lake.version(table):020}.json")


@pytest.mark.parametrize("table", ["silver_customers", "gold_order_status_summary"])
def test_table_is_rebuilt_and_the_old_one_set_aside_when_its_log_is_damaged(at: After, table: str) -> None:
    world = at(H1)
    spoil(newest_commit(world, table))
    world.refresh(H2)
    assert differing(world, H2) == []
    (row,) = [row for row in event_log.read(world.lake, hour=H2, event_type="refresh") if row.table_name == table]
    assert (row.status, row.details["note"][:7]) == ("warned", "rebuilt")
    assert len(list(Path(world.lake.ops("damaged")).glob(f"{table}-*"))) == 1


def test_damaged_data_file_is_replaced_by_the_next_refresh(at: After) -> None:
    world = at(H1)
    delta: Any = world.lake.open(world.lake.path("silver_customers"))
    spoil(Path(delta.file_uris()[0]))
    world.refresh(H2)
    assert differing(world, H2) == []


def test_damage_in_bronze_stops_the_run_and_is_named(at: After) -> None:
    world = at(H1)
    spoil(newest_commit(world, "bronze_orders"))
    with pytest.raises(MedallionError, match="bronze_orders cannot be read, as commit . is damaged"):
        world.refresh(H2)


def test_a_damaged_data_file_of_bronze_stops_the_run_and_is_named(at: After) -> None:
    world = at(H1)
    delta: Any = world.lake.open(world.lake.path("bronze_customers"))
    for uri in delta.file_uris():
        spoil(Path(uri))
    with pytest.raises(MedallionError, match="bronze_customers|silver_customers could not be computed"):
        world.refresh(H2)
    assert releases.require_release(world.lake, None).hour == H1
