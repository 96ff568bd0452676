"""Bronze: the snapshot once, then each hour's changes merged by key, in order, exactly once."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion.errors import HourNotAvailable, MedallionError
from medallion.ingest import apply, snapshot
from medallion.ingest.arrow_types import arrow_type
from medallion.ingest.quarantine import read_rejected
from medallion.ingest.small_snapshot import fit_rows
from medallion.ingest.snapshot_source import open_snapshot
from medallion.ingest.source import no_progress, open_source
from medallion.model.table import ChangeLog, Feed
from medallion.ops import event_log, releases
from medallion.pipeline.driver import Driver
from medallion.pipeline.load import load_snapshot
from medallion.pipeline.run import Outcome, Run
from medallion.pipeline.steps import run_step
from medallion.settings import Settings
from medallion.storage import delta_writes, fence, merge_on_read
from medallion.storage.deletion_vectors import may_have_vectors
from medallion.storage.lake import Lake, state_of
from medallion.storage.live_rows import read_live_rows
from medallion.storage.replaced_rows import bronze_metadata
from tests.commits import fencing_number
from tests.shop import graph, registry

H0, H1, H2 = "2025-11-30T00", "2025-11-30T01", "2025-11-30T02"
SUPPLIERS = "bronze_suppliers"


def supplier(number: int, lead: int | None = 7, **more: Any) -> dict[str, Any]:
    row = {"supplier_id": number, "supplier_name": f"S{number}", "country": "DE", "lead_time_days": lead}
    return row | {"updated_at": "2025-11-01T00:00:00Z"} | more


def insert(row: dict[str, Any]) -> str:
    return json.dumps({"insert": row})


def delete(row: dict[str, Any]) -> str:
    return json.dumps({"delete": row})


class Shop:
    """A source with three suppliers and nothing else, and the lake loaded from it."""

    def __init__(self, root: Path, spark: Any) -> None:
        self.source, self.settings = root / "source", Settings(lake=str(root / "lake"), source=str(root / "source"))
        self.lake = Lake.of(self.settings)
        self.driver = Driver(self.settings, report=lambda _: None)
        self.driver.use(spark)
        for feed in registry().feeds:
            schema = pa.schema([(c.name, arrow_type(c)) for c in feed.columns])
            write_deltalake(str(self.source / "snapshot" / feed.name), schema.empty_table())
        rows = [supplier(n) for n in (1, 2, 3)]
        table = pa.Table.from_pylist([row | {"updated_at": None} for row in rows]).select(list(rows[0])[:-1])
        stamps = pa.array([0] * 3, pa.timestamp("us", tz="UTC"))
        table = table.set_column(3, "lead_time_days", table["lead_time_days"].cast(pa.int32()))
        snapshot = table.append_column("updated_at", stamps)
        write_deltalake(str(self.source / "snapshot" / SUPPLIERS), snapshot, mode="overwrite")

    def change(self, hour: str, *lines: str, feed: str = "suppliers") -> None:
        path = self.source / "cdc" / feed / f"{hour}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))

    def load(self, spark: Any = None) -> None:
        """Load every feed, by Spark or without it, and publish."""
        for feed in registry().feeds:
            opened = open_snapshot(open_source(self.settings), feed, self.lake)
            if spark is not None:
                snapshot.load_feed(spark, self.lake, feed, opened, H0)
                continue
            rows = fit_rows(self.lake, feed, opened, H0)
            assert rows is not None
            snapshot.load_rows(self.lake, feed, rows)
        self.publish(None)

    def publish(self, hour: str | None) -> None:
        """Publish Bronze alone, without the rows of a release that a run would publish."""
        contents = releases.Contents({feed.name: self.lake.version(feed.name) or 0 for feed in registry().feeds})
        after = releases.latest(self.lake)
        releases.publish(self.lake, after=after, hour=hour, run_id="test", strategy="full", contents=contents)

    def apply(self, hour: str | None = None) -> Outcome:
        run = Run(self.settings, hour, "test")
        hour = run_step("land", run, self.driver).hour
        outcome = run_step("apply", Run(self.settings, hour, "test"), self.driver)
        self.publish(hour)
        return outcome

    def lead_times(self) -> dict[int, int | None]:
        delta = self.lake.open(self.lake.path(SUPPLIERS))
        assert delta is not None
        rows = delta.to_pyarrow_table().to_pylist()
        assert len(rows) == len({row["supplier_id"] for row in rows})
        return {row["supplier_id"]: row["lead_time_days"] for row in sorted(rows, key=lambda r: r["supplier_id"])}


@pytest.fixture(scope="module")
def loaded(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shop")
    Shop(root, spark).load()
    return root


@pytest.fixture
def shop(loaded: Path, tmp_path: Path, spark: Any) -> Shop:
    import shutil

    shutil.copytree(loaded, tmp_path, dirs_exist_ok=True)
    made = Shop.__new__(Shop)
    made.source, made.settings = (
        tmp_path / "source",
        Settings(lake=str(tmp_path / "lake"), source=str(tmp_path / "source")),
    )
    made.lake = Lake.of(made.settings)
    made.driver = Driver(made.settings, report=lambda _: None)
    made.driver.use(spark)
    return made


@pytest.fixture(params=["named", "joined", "by Spark"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few changes, many, and those of large tables are written in different ways."""
    if request.param == "joined":
        monkeypatch.setattr(delta_writes, "MAX_LISTED_KEYS", 0)
    if request.param == "by Spark":
        monkeypatch.setattr(delta_writes, "MAX_LOCAL_TABLE_BYTES", -1)


@pytest.mark.usefixtures("either_way")
def test_inserts_updates_and_deletes_are_merged_by_key(shop: Shop) -> None:
    shop.change(H0, insert(supplier(4, 9)), delete(supplier(2)), insert(supplier(2, 30)), delete(supplier(3)))
    shop.apply()
    assert shop.lead_times() == {1: 7, 2: 30, 4: 9}


@pytest.mark.parametrize("pays", [True, False])
def test_rows_of_a_large_table_are_marked_here_and_files_are_rewritten_by_spark(
    shop: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch, pays: bool
) -> None:
    monkeypatch.setattr(delta_writes, "MAX_REWRITTEN_TABLE_BYTES", -1)
    monkeypatch.setattr(merge_on_read, "MAX_DEAD_SHARE", 1 if pays else 0)
    monkeypatch.setattr(Settings, "marks_from", 1)
    shop.driver = Driver(shop.settings, report=lambda _: None)
    shop.driver.use(spark)
    shop.change(H0, insert(supplier(4, 9)), delete(supplier(2)), insert(supplier(2, 30)), delete(supplier(3)))
    shop.apply()
    delta = shop.lake.opened(shop.lake.path(SUPPLIERS))
    assert may_have_vectors(delta) == pays
    assert delta.history(1)[0]["engineInfo"].startswith("Apache-Spark") != pays
    rows = read_live_rows(delta, Path(shop.lake.path(SUPPLIERS))).to_pylist()
    assert {row["supplier_id"]: row["lead_time_days"] for row in rows} == {1: 7, 2: 30, 4: 9}


def test_small_tables_are_brought_up_to_date_without_a_jvm(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise AssertionError("a session was started")

    monkeypatch.setattr("medallion.pipeline.driver.attached", none)
    shop.driver = Driver(shop.settings, report=lambda _: None)
    shop.change(H0, insert(supplier(1, 9)), insert(supplier(4)), delete(supplier(2)))
    shop.apply()
    assert shop.lead_times() == {1: 9, 3: 7, 4: 7}
    assert {row.event_type for row in event_log.read(shop.lake)} == {"land", "apply"}


def test_keys_that_the_table_does_not_have_are_appended_without_a_merge(shop: Shop, spark: Any) -> None:
    from medallion.spark.delta_reads import read_changes
    from medallion.storage.change_feed import changes

    lines = [
        insert(supplier(4, 1)),
        delete(supplier(4)),
        insert(supplier(4, 9)),
        insert(supplier(5)),
        delete(supplier(6)),
    ]
    shop.change(H0, *lines, delete(supplier(5)))
    shop.apply()
    assert shop.lead_times() == {1: 7, 2: 7, 3: 7, 4: 9}
    commit = shop.lake.last_commit(SUPPLIERS)
    assert (commit["operation"], shop.lake.applied_hour(SUPPLIERS)) == ("WRITE", H0)
    path, version = shop.lake.path(SUPPLIERS), commit["version"]
    (change,) = read_changes(spark, path, shop.lake.opened(path), changes(Path(path), version - 1, version)).collect()
    assert (change["_medallion_side"], change["supplier_id"], change["lead_time_days"]) == (1, 4, 9)
    (row,) = [r for r in event_log.read(shop.lake, event_type="apply") if r.table_name == SUPPLIERS]
    assert (row.rows_in, row.rows_out, row.details["inserted"]) == (6, 1, 1)
    assert row.bytes_out > 0


@pytest.mark.usefixtures("either_way")
def test_the_last_change_of_a_key_wins_in_the_order_of_lines(shop: Shop) -> None:
    shop.change(
        H0,
        insert(supplier(1, 10)),
        delete(supplier(1, 10)),
        insert(supplier(1, 11)),
        insert(supplier(5)),
        delete(supplier(5)),
        delete(supplier(2)),
        insert(supplier(2, 12)),
        delete(supplier(2, 12)),
    )
    shop.apply()
    assert shop.lead_times() == {1: 11, 3: 7}


def test_a_key_that_changes_a_thousand_times_ends_as_its_last_image(shop: Shop) -> None:
    lines = (line for lead in range(1000) for line in (insert(supplier(1, lead)), delete(supplier(1, lead))))
    shop.change(H0, *lines, insert(supplier(1, 1000)))
    shop.apply()
    assert shop.lead_times() == {1: 1000, 2: 7, 3: 7}


@pytest.mark.usefixtures("either_way")
def test_a_null_replaces_a_value(shop: Shop) -> None:
    shop.change(H0, insert(supplier(1, None)))
    shop.apply()
    assert shop.lead_times()[1] is None


@pytest.mark.usefixtures("either_way")
def test_the_delete_of_a_row_that_is_not_there_changes_nothing(shop: Shop) -> None:
    shop.change(H0, delete(supplier(99)))
    shop.apply()
    assert shop.lead_times() == {1: 7, 2: 7, 3: 7}


def test_every_table_records_the_hour_also_those_without_a_file(shop: Shop) -> None:
    shop.change(H0, insert(supplier(4)))
    before = {feed.name: shop.lake.state(feed.name) for feed in registry().feeds}
    shop.apply()
    assert {shop.lake.applied_hour(feed.name) for feed in registry().feeds} == {H0}
    for feed in registry().feeds:
        if feed.name != SUPPLIERS:
            was, now = before[feed.name], shop.lake.state(feed.name)
            assert was and now and (was.files, was.rows) == (now.files, now.rows), "no data files without changes"


@pytest.mark.usefixtures("either_way")
def test_an_hour_applied_again_changes_nothing(shop: Shop) -> None:
    shop.change(H0, insert(supplier(1, 20)))
    shop.change(H1, insert(supplier(1, 21)))
    shop.apply(H0)
    shop.apply(H1)
    versions = {feed.name: shop.lake.version(feed.name) for feed in registry().feeds}
    again = run_step("apply", Run(shop.settings, H0, "again"), shop.driver)
    assert again.status == "skipped"
    assert versions == {feed.name: shop.lake.version(feed.name) for feed in registry().feeds}
    assert shop.lead_times()[1] == 21


def test_after_a_crash_between_two_tables_the_retry_applies_what_is_missing(shop: Shop) -> None:
    shop.change(H0, insert(supplier(1, 20)))
    for feed in registry().feeds:
        if feed.name != SUPPLIERS:
            apply.record_idle_hour(state_of(shop.lake.opened(shop.lake.path(feed.name))), H0)
    assert shop.apply().hour == H0
    assert shop.lead_times()[1] == 20


def test_hours_out_of_order_are_refused_and_nothing_is_written(shop: Shop) -> None:
    for hour in (H0, H1, H2):
        shop.change(hour, insert(supplier(1, 20)))
    with pytest.raises(MedallionError, match=f"earlier hours are missing: {H0}, {H1}"):
        shop.apply(H2)
    assert shop.lead_times()[1] == 7


def test_an_hour_that_the_source_does_not_have_is_a_skipped_event(shop: Shop) -> None:
    shop.change(H0, insert(supplier(1)))
    with pytest.raises(HourNotAvailable):
        shop.apply("2025-12-24T00")
    (row,) = event_log.read(shop.lake, event_type="land")
    assert (row.status, row.hour) == ("skipped", "2025-12-24T00")


def test_bad_lines_are_kept_aside_and_the_rest_is_applied(shop: Shop) -> None:
    good = [insert(supplier(n)) for n in range(100, 300)]
    shop.change(H0, *good, '{"insert": {"supplier_id": "x"}}')
    for _ in range(2):
        shop.apply(H0)
        rejected = shop.lake.open(shop.lake.quarantine("suppliers"))
        assert rejected is not None
        (row,) = rejected.to_pyarrow_table().to_pylist()
        assert (row["hour"], row["file"], row["line_number"]) == (H0, f"suppliers/{H0}.json", 201)
        assert row["raw"] == '{"insert": {"supplier_id": "x"}}\n'
        assert "supplier_id" in row["reason"]
    assert len(shop.lead_times()) == 203
    (event,) = event_log.read(shop.lake, event_type="apply", table_name=SUPPLIERS, status="warned")
    assert event.details["rejected"] == 1


def test_too_many_bad_lines_refuse_the_hour_before_anything_is_written(shop: Shop) -> None:
    shop.change(H0, insert(supplier(1, 20)), "nonsense", "nonsense")
    order = {"order_id": 1, "created_at": "2025-11-30T00:00:00Z"}
    order |= {"updated_at": order["created_at"], "ingested_at": order["created_at"]}
    shop.change(H0, insert(order), feed="orders")
    with pytest.raises(MedallionError, match="2 of 3 lines are bad.*line 2: not JSON"):
        shop.apply()
    assert shop.lead_times()[1] == 7
    assert [shop.lake.applied_hour(name) for name in (SUPPLIERS, "bronze_orders")] == [None, None]
    assert shop.lake.open(shop.lake.quarantine("suppliers")) is None
    (event,) = event_log.read(shop.lake, event_type="apply", status="failed")
    assert "line 2: not JSON" in event.details["error"]


def test_corrected_file_is_applied_by_the_next_try(shop: Shop) -> None:
    shop.change(H0, insert(supplier(1, 20)), '{"insert": {"supp')
    (shop.source / "cdc" / "suppliers" / f"{H0}.json").write_text('{"insert": {"supp')
    with pytest.raises(MedallionError, match="cut off in the middle of line 1"):
        shop.apply()
    shop.change(H0, insert(supplier(1, 20)))
    shop.apply()
    assert shop.lead_times()[1] == 20


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda source: (source / "snapshot" / SUPPLIERS).rename(source / "elsewhere"), "has no snapshot/"),
        (
            lambda source: write_deltalake(
                str(source / "snapshot" / SUPPLIERS),
                pa.table({"supplier_id": pa.array([1], pa.int64())}),
                mode="overwrite",
                schema_mode="overwrite",
            ),
            "lacks the column supplier_name STRING",
        ),
        (
            lambda source: write_deltalake(
                str(source / "snapshot" / SUPPLIERS),
                pa.table({"supplier_id": ["1"]}),
                mode="overwrite",
                schema_mode="overwrite",
            ),
            "has supplier_id as string, not BIGINT",
        ),
    ],
)
def test_a_snapshot_that_cannot_be_used_is_refused(shop: Shop, spoil: Callable[[Path], Any], message: str) -> None:
    from medallion.ingest.source import open_source

    spoil(shop.source)
    with pytest.raises(MedallionError, match=message):
        open_snapshot(open_source(shop.settings), registry().feeds[-1], shop.lake)


def load_suppliers(shop: Shop, max_bad_lines: float, *moments: str) -> None:
    """Load a snapshot with a supplier for each moment of its last update, the first of them number 1."""
    rows = pa.Table.from_pylist(
        [supplier(n) | {"updated_at": datetime.fromisoformat(moment)} for n, moment in enumerate(moments, start=1)]
    )
    rows = rows.set_column(3, "lead_time_days", rows["lead_time_days"].cast(pa.int32()))
    write_deltalake(str(shop.source / "snapshot" / SUPPLIERS), rows, mode="overwrite")
    run = Run(shop.settings.replace(max_bad_lines=max_bad_lines), None, "load")
    with shop.driver.recording(run, "load") as log:
        load_snapshot(shop.driver, run, log, no_progress)


def test_rows_of_the_snapshot_that_have_not_happened_go_to_quarantine_and_none_is_lost(shop: Shop) -> None:
    shop.change(H1)  # the first hour of the source: the snapshot is from before it
    last, late = "2025-12-01T01:00:00+00:00", "2025-12-01T01:00:00.000001+00:00"
    load_suppliers(shop, 0.5, "1900-01-01T00:00:00+00:00", last, late, "1899-12-31T23:59:59+00:00")
    assert list(shop.lead_times()) == [1, 2]
    aside = read_rejected(shop.lake, registry().feeds[-1])
    assert [(line.hour, line.file) for line in aside] == [("snapshot", f"snapshot/{SUPPLIERS}")] * 2
    assert [line.reason for line in aside] == [
        f"updated_at: {late} is later than the end of hour {H0} by more than 1 day, 0:00:00",
        "updated_at: 1899-12-31T23:59:59+00:00 is before 1900",
    ]
    warned = [row for row in event_log.read(shop.lake, event_type="apply") if row.status == "warned"]
    assert [(row.table_name, row.details["rejected"]) for row in warned] == [(SUPPLIERS, 2), (None, 2)]

    corrected = [line.raw.replace("2025-12-01T01:00", "2025-11-30T01:00").replace("1899", "1999") for line in aside]
    shop.change(H1, *corrected)
    shop.apply()
    assert shop.lead_times() == dict.fromkeys((1, 2, 3, 4), 7)


def test_a_snapshot_with_too_many_rows_that_have_not_happened_is_refused(shop: Shop) -> None:
    with pytest.raises(MedallionError, match="more than 0 of 1 rows are bad, .* the first: updated_at: 2125-"):
        load_suppliers(shop, 0.5, "2125-01-01T00:00:00+00:00")
    assert shop.lead_times() == dict.fromkeys((1, 2, 3), 7), "the table is as it was"


def declared(shop: Shop, schema: str) -> None:
    """From now on the suppliers' feed is declared like this, and no query reads columns that it has no more."""
    tables = {table.name: table for table in registry() if isinstance(table, Feed | ChangeLog)}
    shop.driver.tables = graph({**tables, SUPPLIERS: replace(tables[SUPPLIERS], schema=schema)})


NEW = "supplier_id BIGINT NOT NULL, supplier_name STRING NOT NULL, country STRING, lead_time_days {}, updated_at {}"
AS_IT_WAS = NEW.format("INT", "TIMESTAMP NOT NULL")


def test_a_new_column_of_a_feed_is_kept_out_with_a_warning(shop: Shop) -> None:
    shop.change(H0, insert(supplier(4, 9, colour="red")))
    outcome = shop.apply()
    assert (outcome.status, shop.lead_times()[4]) == ("warned", 9)
    assert "suppliers has a column colour (in lines: 1), which is not loaded: declare it" in outcome.message


def test_declared_new_column_is_added_and_null_in_older_rows(shop: Shop) -> None:
    declared(shop, f"{AS_IT_WAS}, colour STRING")
    shop.change(H0, insert(supplier(4, 9, colour="red")))
    assert shop.apply().status == "succeeded"
    delta: Any = shop.lake.open(shop.lake.path(SUPPLIERS))
    assert dict(zip(*(delta.to_pyarrow_table()[c].to_pylist() for c in ("supplier_id", "colour")), strict=True)) == {
        **{1: None, 2: None, 3: None},
        4: "red",
    }


def test_a_new_column_can_be_declared_before_it_comes(shop: Shop) -> None:
    declared(shop, f"{AS_IT_WAS}, colour STRING")
    shop.change(H0, feed="products")
    shop.apply()
    delta: Any = shop.lake.open(shop.lake.path(SUPPLIERS))
    assert "colour" in [f.name for f in delta.schema().fields]


def test_a_widened_type_rewrites_the_table_and_keeps_rows_and_ledger(shop: Shop) -> None:
    shop.change(H0, insert(supplier(4, 9)))
    shop.apply()
    declared(shop, NEW.format("BIGINT", "TIMESTAMP NOT NULL"))
    shop.change(H1, insert(supplier(5, 1 << 40)))
    shop.apply()
    assert shop.lead_times() == {1: 7, 2: 7, 3: 7, 4: 9, 5: 1 << 40}
    assert shop.lake.applied_hour(SUPPLIERS) == H1


@pytest.mark.parametrize("by_spark", [False, True])
def test_widened_key_matches_older_rows_and_accepts_larger_values(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, by_spark: bool
) -> None:
    path = shop.lake.path(SUPPLIERS)
    delta = shop.lake.opened(path)
    rows = delta.to_pyarrow_table()
    narrow = rows.set_column(
        0, pa.field("supplier_id", pa.int32(), nullable=False), rows["supplier_id"].cast(pa.int32())
    )
    commit = delta_writes.properties(bronze_metadata(None, "rewrite"), upon=delta)
    # as it was when the key was an INT
    write_deltalake(path, narrow, mode="overwrite", schema_mode="overwrite", commit_properties=commit)
    if by_spark:
        monkeypatch.setattr("medallion.storage.delta_writes.MAX_LOCAL_TABLE_BYTES", -1)
    shop.change(H0, insert(supplier(1, 9)), insert(supplier(1 << 40, 8)), delete(supplier(2)))
    shop.apply()
    assert shop.lead_times() == {1: 9, 3: 7, 1 << 40: 8}
    shop.change(H1, insert(supplier(1 << 40, 5)), delete(supplier(3)))
    shop.apply()
    assert shop.lead_times() == {1: 9, 1 << 40: 5}, "no row twice"
    assert shop.lake.applied_hour(SUPPLIERS) == H1


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (NEW.format("BOOLEAN", "TIMESTAMP NOT NULL"), "has lead_time_days as int32, which does not fit into BOOLEAN"),
        (f"{AS_IT_WAS}, colour STRING NOT NULL", "cannot add NOT NULL column colour"),
    ],
)
def test_any_other_change_of_a_declaration_is_refused_before_anything_is_written(
    shop: Shop, schema: str, reason: str
) -> None:
    declared(shop, schema)
    shop.change(H0, feed="products")
    with pytest.raises(MedallionError, match=reason):
        shop.apply()
    assert shop.lead_times() == {1: 7, 2: 7, 3: 7}
    assert shop.lake.applied_hour(SUPPLIERS) is None


def test_a_required_column_that_is_not_declared_any_more_loses_not_null_and_stays(shop: Shop) -> None:
    declared(shop, "supplier_id BIGINT NOT NULL, country STRING, lead_time_days INT, updated_at TIMESTAMP")
    row = supplier(4, 9)
    del row["supplier_name"]
    shop.change(H0, insert(row | {"updated_at": None}))
    outcome = shop.apply()
    assert outcome.status == "warned"
    assert "bronze_suppliers keeps the column supplier_name, which is not declared any more" in outcome.message
    delta: Any = shop.lake.open(shop.lake.path(SUPPLIERS))
    found = {row["supplier_id"]: row for row in delta.to_pyarrow_table().to_pylist()}
    assert (found[4]["supplier_name"], found[4]["updated_at"]) == (None, None)
    assert found[1]["supplier_name"]
    assert shop.lake.applied_hour(SUPPLIERS) == H0


def test_spark_merges_null_into_a_column_that_is_not_declared_any_more(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medallion.storage.delta_writes.MAX_LOCAL_TABLE_BYTES", -1)
    without = "supplier_id BIGINT NOT NULL, supplier_name STRING NOT NULL, lead_time_days INT, updated_at TIMESTAMP"
    declared(shop, without)
    shop.change(H0, insert(supplier(1, 77)), insert(supplier(4, 9)))
    assert shop.apply().status == "warned"
    delta: Any = shop.lake.open(shop.lake.path(SUPPLIERS))
    found = {row["supplier_id"]: row for row in delta.to_pyarrow_table().to_pylist()}
    assert [found[key]["country"] for key in (1, 4)] == [None, None]
    assert found[1]["lead_time_days"] == 77
    assert found[2]["country"] is not None


class Held:
    """A lease with the number 7."""

    number = 7

    def require(self) -> None:
        pass

    confirm = require


def test_commits_of_spark_carry_the_fencing_number(shop: Shop, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medallion.storage.delta_writes.MAX_LOCAL_TABLE_BYTES", -1)
    with fence.holding(Held()):
        shop.load(spark)
        shop.change(H0, insert(supplier(4)))
        shop.apply()
        declared(shop, NEW.format("BIGINT", "TIMESTAMP"))
        shop.change(H1)
        shop.apply()
    commits = [*reversed(shop.lake.opened(shop.lake.path(SUPPLIERS)).history())]
    numbers = [(commit["operation"], fencing_number(commit)) for commit in commits]
    assert None not in [number for _, number in numbers], numbers
    assert numbers[:2] == [("CREATE TABLE", 7), ("WRITE", 7)], "the snapshot; each step has a lease of its own"
    assert [operation for operation, _ in numbers[2:5]] == ["MERGE", "CHANGE COLUMN", "WRITE"]


def test_nothing_is_applied_where_one_table_cannot_be_evolved(shop: Shop) -> None:
    declared(shop, f"{AS_IT_WAS}, colour STRING NOT NULL")
    shop.change(H0, insert(supplier(4, 9, colour="red")))
    versions = {feed.name: shop.lake.version(feed.name) for feed in registry().feeds}
    with pytest.raises(MedallionError, match="cannot add NOT NULL column colour to bronze_suppliers"):
        shop.apply()
    assert versions == {feed.name: shop.lake.version(feed.name) for feed in registry().feeds}
