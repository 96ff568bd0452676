"""A log keeps every change of its table as it came, each once, whatever happens in between."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion.ingest import apply, change_log, landing, ledger
from medallion.ingest.change_log import rewind_log
from medallion.ingest.source import digest
from medallion.model.table import ChangeLog, Feed
from medallion.ops import releases
from medallion.storage.foreign_commits import ChangedByOthers
from medallion.storage.lake import Lake
from medallion.storage.rewind import rewind
from tests.shop import build

H0, H1, H2, H3 = "2025-11-30T00", "2025-11-30T01", "2025-11-30T02", "2025-11-30T03"
FEED = Feed(keys=("id",), schema="id BIGINT NOT NULL, name STRING", name="bronze_things", doc="One row per id.")
LOG = build(
    [FEED, ChangeLog(of="bronze_things", source_system="the shop", name="bronze_things_log", doc="A log.")]
).logs[0]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """One with two things, from the snapshot."""
    lake = Lake(str(tmp_path / "lake"))
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    write_deltalake(lake.path(FEED.name), pa.Table.from_pylist([{"id": 1, "name": "a"}, {"id": 2}], schema=schema))
    return lake


def land(lake: Lake, hour: str, *changes: dict[str, Any]) -> None:
    """Put an hour's file where land puts it."""
    file = lake.landing / "things" / f"{hour}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(change)}\n" for change in changes))
    ledger.write_manifest(lake, ledger.Manifest(hour, "/source", {"things": digest(file.open("rb"))}))


def keep(lake: Lake, hour: str, log: ChangeLog = LOG) -> None:
    """Take an hour in, as apply does."""
    change_log.catch_up(no_spark, lake, log, hour)
    decoded = landing.decode_hour(lake, (log.fed_by,), hour, 0.01)
    change_log.append_lines(lake, log, hour, decoded.get(FEED.name))
    apply.apply_feed(no_spark, lake, log.fed_by, hour, decoded.get(FEED.name))


def missed(lake: Lake, hour: str, *changes: dict[str, Any]) -> None:
    """Take an hour into the table while its log is not kept."""
    land(lake, hour, *changes)
    apply.apply_feed(no_spark, lake, FEED, hour, landing.decode_hour(lake, (FEED,), hour, 0.01)[FEED.name])


def no_spark() -> Any:
    raise AssertionError("this needs no Spark")


def told(lake: Lake) -> list[tuple[Any, ...]]:
    """id, name, deleted, hour, line and source file of each row, in the order they came."""
    rows = lake.opened(lake.path(LOG.name)).to_pyarrow_table().to_pylist()
    assert {row["_source_system"] for row in rows} == {"the shop"}
    assert all(row["_loaded_at"] for row in rows)
    names = ("id", "name", "_deleted", "_hour", "_line", "_source_file")
    found = [tuple(row[name] for name in names) for row in rows]
    return sorted(
        ((*row[:3], f"{row[3]:%Y-%m-%dT%H}" if row[3] else None, *row[4:]) for row in found),
        key=lambda row: (row[3] or "", row[4]),
    )


SNAPSHOT = [(1, "a", False, None, 1, "/source/snapshot"), (2, None, False, None, 2, "/source/snapshot")]
DELETED, BACK = {"delete": {"id": 1}}, {"insert": {"id": 1, "name": "b"}}


def test_history_is_loaded_once_and_then_only_new_files(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    land(lake, H0, DELETED, BACK)
    keep(lake, H0)
    came = [
        (1, None, True, H0, 1, f"/source/cdc/things/{H0}.json"),
        (1, "b", False, H0, 2, f"/source/cdc/things/{H0}.json"),
    ]
    assert told(lake) == SNAPSHOT + came
    keep(lake, H0)
    assert told(lake) == SNAPSHOT + came, "the same hour again adds nothing"
    assert lake.applied_hour(LOG.name) == H0


def test_log_records_an_hour_without_a_file(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    ledger.write_manifest(lake, ledger.Manifest(H0, "/source", {}))
    keep(lake, H0)
    assert told(lake) == SNAPSHOT
    assert lake.applied_hour(LOG.name) == H0


def test_log_catches_up_after_hours_without_it(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    for hour, change in ((H0, DELETED), (H1, BACK)):
        land(lake, hour, change)
        apply.apply_feed(no_spark, lake, FEED, hour, landing.decode_hour(lake, (FEED,), hour, 0.01)[FEED.name])
    land(lake, H2, DELETED)
    keep(lake, H2)
    assert [row[2:4] for row in told(lake)[2:]] == [(True, H0), (False, H1), (True, H2)]


def test_log_that_begins_late_begins_with_the_rows_of_its_table(lake: Lake) -> None:
    land(lake, H0, DELETED)
    apply.apply_feed(no_spark, lake, FEED, H0, landing.decode_hour(lake, (FEED,), H0, 0.01)[FEED.name])
    land(lake, H1, BACK)
    keep(lake, H1)
    version = f"{lake.path(FEED.name)}, version 1"
    assert told(lake) == [(2, None, False, None, 1, version), (1, "b", False, H1, 1, f"/source/cdc/things/{H1}.json")]


def test_history_stays_where_a_missed_file_is_gone_and_the_table_stands_in_for_it(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    land(lake, H0, {"insert": {"id": 3, "name": "c"}})
    keep(lake, H0)
    missed(lake, H1, DELETED, {"insert": {"id": 3, "name": "d"}})
    missed(lake, H2, {"insert": {"id": 4, "name": "e"}})
    land(lake, H3, BACK)
    (lake.landing / "things" / f"{H1}.json").unlink()
    (warning,) = change_log.catch_up(no_spark, lake, LOG, H3)
    assert warning == (
        f"bronze_things_log lacks the changes of {H1}: the landed files are gone or damaged; what bronze_things has now"
        " is recorded in their place"
    )
    keep(lake, H3)
    kept, stood_in = told(lake)[:3], f"{lake.path(FEED.name)}, version 3, in place of {H1} to {H2}"
    assert kept == [*SNAPSHOT, (3, "c", False, H0, 1, f"/source/cdc/things/{H0}.json")]
    assert sorted(row for row in told(lake) if row[5] == f"/source/cdc/things/{H2}.json") == [
        (4, "e", False, H2, 1, f"/source/cdc/things/{H2}.json")
    ]
    replaced = {(row[0], row[1], row[2]) for row in told(lake) if row[5] == stood_in}
    assert replaced == {(2, None, False), (3, "d", False), (4, "e", False), (1, None, True)}
    assert told(lake)[-1][:4] == (1, "b", False, H3)
    assert len({row[4:] for row in told(lake)}) == len(told(lake)), "file and line are the key of a log"
    before = told(lake)
    assert change_log.catch_up(no_spark, lake, LOG, H3) == []
    assert told(lake) == before


def test_an_error_in_reading_is_raised_and_the_history_stays(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    land(lake, H0, DELETED)
    keep(lake, H0)
    missed(lake, H1, BACK)
    land(lake, H2, DELETED)
    before, version = told(lake), lake.version(LOG.name)

    def full(*_: Any) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("medallion.ingest.change_log.require_as_landed", full)
        with pytest.raises(OSError, match="Too many open files"):
            change_log.catch_up(no_spark, lake, LOG, H2)
    assert (told(lake), lake.version(LOG.name)) == (before, version)
    assert change_log.catch_up(no_spark, lake, LOG, H2) == []
    assert told(lake)[-1][:4] == (1, "b", False, H1)


def test_an_hour_is_caught_up_with_whatever_share_of_its_lines_is_bad(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    land(lake, H0, {"insert": {}}, {"insert": {"id": 5}})
    ledger_hour = landing.decode_hour(lake, (FEED,), H0, 1.0)[FEED.name]
    apply.apply_feed(no_spark, lake, FEED, H0, ledger_hour)
    land(lake, H1, BACK)
    assert change_log.catch_up(no_spark, lake, LOG, H1) == []
    assert [row[0] for row in told(lake)] == [1, 2, 5]


def test_a_log_that_a_release_had_and_that_is_gone_begins_again_with_a_warning(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    names = dict.fromkeys((FEED.name, LOG.name), 0)
    releases.publish(lake, after=None, hour=None, run_id="load", strategy="full", contents=releases.Contents(names))
    shutil.rmtree(lake.path(LOG.name))
    (warning,) = change_log.catch_up(no_spark, lake, LOG, H0)
    assert warning.startswith("bronze_things_log did not exist: rebuilt from bronze_things")
    assert len(told(lake)) == 2


def test_a_restatement_keeps_history_though_upkeep_has_removed_old_versions(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    for hour, change in ((H0, DELETED), (H1, BACK), (H2, DELETED)):
        land(lake, hour, change)
        keep(lake, hour)
    rewind(lake, FEED.name, FEED.keys, H1)
    delta = lake.opened(lake.path(LOG.name))
    delta.optimize.compact()
    delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    delta.create_checkpoint()
    assert rewind_log(lake, LOG, H1) is None
    assert [row[3] for row in told(lake)] == [None, None, H0]
    assert lake.applied_hour(LOG.name) == H0


def test_a_restatement_of_hours_without_lines_takes_the_log_back_too(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    land(lake, H0, DELETED)
    keep(lake, H0)
    land(lake, H1)
    keep(lake, H1)
    rewind(lake, FEED.name, FEED.keys, H1)
    assert rewind_log(lake, LOG, H1) is None
    assert lake.applied_hour(LOG.name) == H0


def test_a_restatement_takes_it_back_and_forward(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    for hour, change in ((H0, DELETED), (H1, BACK)):
        land(lake, hour, change)
        keep(lake, hour)
    rewind(lake, FEED.name, FEED.keys, H1)
    rewind_log(lake, LOG, H1)
    assert [row[3] for row in told(lake)] == [None, None, H0]
    land(lake, H1, {"insert": {"id": 7, "name": "late"}})
    keep(lake, H1)
    assert [(row[0], row[3]) for row in told(lake)[2:]] == [(1, H0), (7, H1)]


def test_a_restatement_does_not_vouch_for_rows_of_a_log_that_somebody_removed(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    for hour, change in ((H0, DELETED), (H1, BACK)):
        land(lake, hour, change)
        keep(lake, hour)
    lake.opened(lake.path(LOG.name)).delete("_hour IS NULL")
    with pytest.raises(ChangedByOthers, match=f"{LOG.name} was changed by somebody else") as refusal:
        change_log.require_own_log(lake, LOG)
    assert "--restate" not in str(refusal.value), "its earlier rows would stay as they are"


def test_log_begins_again_when_an_hour_before_it_is_restated(lake: Lake) -> None:
    land(lake, H0, DELETED)
    apply.apply_feed(no_spark, lake, FEED, H0, landing.decode_hour(lake, (FEED,), H0, 0.01)[FEED.name])
    change_log.begin_log(lake, LOG)
    rewind(lake, FEED.name, FEED.keys, H0)
    assert rewind_log(lake, LOG, H0) == (
        f"bronze_things_log began after {H0}: it begins again with the rows that bronze_things had before that hour"
    )
    assert [(row[0], row[3]) for row in told(lake)] == [(1, None), (2, None)]
    assert lake.applied_hour(LOG.name) is None


WIDER = Feed(keys=("id",), schema=f"{FEED.schema}, size INT", name=FEED.name, doc=FEED.doc)
WIDER_LOG = build([WIDER, ChangeLog(of=FEED.name, source_system="the shop", name=LOG.name, doc="A log.")]).logs[0]


def sizes(lake: Lake) -> list[tuple[int, int]]:
    rows = lake.opened(lake.path(LOG.name)).to_pyarrow_table().to_pylist()
    return sorted((row["id"], row["size"]) for row in rows if row["size"])


def test_a_column_that_is_new_to_the_table_is_new_to_its_log(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    land(lake, H0, {"insert": {"id": 3, "name": "c", "size": 9}})
    keep(lake, H0, WIDER_LOG)
    assert sizes(lake) == [(3, 9)]


def test_log_has_a_new_column_in_the_hours_it_catches_up(lake: Lake) -> None:
    change_log.begin_log(lake, LOG, "/source/snapshot")
    land(lake, H0, {"insert": {"id": 3, "name": "c", "size": 9}})
    apply.apply_feed(no_spark, lake, WIDER, H0, landing.decode_hour(lake, (WIDER,), H0, 0.01)[FEED.name])
    land(lake, H1, {"insert": {"id": 4, "name": "d", "size": 8}})
    keep(lake, H1, WIDER_LOG)
    assert sizes(lake) == [(3, 9), (4, 8)]


def test_the_log_of_what_is_no_feed_is_refused() -> None:
    from medallion.errors import MedallionError

    with pytest.raises(
        MedallionError, match=r"spark_jobs/bronze/x\.py is the log of bronze_y, which is no change feed"
    ):
        build([ChangeLog(of="bronze_y", source_system="", name="bronze_x", doc="A log.")])
