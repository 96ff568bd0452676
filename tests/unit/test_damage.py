"""A table is set aside on proof that its log is damaged, and never because it could not be opened for a moment."""

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from medallion.errors import MedallionError
from medallion.inspect.query import open_release
from medallion.model.table import Table
from medallion.ops import releases
from medallion.refresh.full import former_or_moved
from medallion.settings import Settings
from medallion.storage import files
from medallion.storage.damage import log_damage
from medallion.storage.delta_writes import properties
from medallion.storage.lake import Lake
from medallion.storage.log_repair import take_repairs
from medallion.storage.s3 import S3Access
from tests.commits import origin_of
from tests.refresh_run import refresh_run

LIMITS = resource.getrlimit(resource.RLIMIT_NOFILE)
TABLE = Table(keys=("x",), query="SELECT 1 AS x", name="gold_x", layer="gold", doc="One.")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited between attempts; nobody waits."""
    waited: list[float] = []
    monkeypatch.setattr(files, "sleep", waited.append)
    return waited


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table of four versions, of which a release names the second, with a checkpoint of the third."""
    made = Lake(str(tmp_path / "lake"))
    for x in range(4):
        write_deltalake(made.path("gold_x"), pa.table({"x": [x]}), mode="append")
        if x == 2:
            DeltaTable(made.path("gold_x")).create_checkpoint()
    releases.publish(
        made, after=None, hour=None, run_id="r", strategy="full", contents=releases.Contents({"gold_x": 1})
    )
    return made


def log_file(lake: Lake, name: str) -> Path:
    return Path(lake.path("gold_x"), "_delta_log", name)


def commit(lake: Lake, version: int) -> Path:
    return log_file(lake, f"{version:020}.json")


def checkpoint(lake: Lake) -> Path:
    return log_file(lake, f"{2:020}.checkpoint.parquet")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:60])


DAMAGE: dict[str, tuple[Callable[[Lake], Any], str]] = {
    "commit of other bytes": (lambda lake: commit(lake, 3).write_bytes(b"\0" * 80), "commit 3 is damaged"),
    "commit cut off": (lambda lake: cut(commit(lake, 3)), "commit 3 is damaged"),
    "checkpoint cut off, an entry gone": (
        lambda lake: (cut(checkpoint(lake)), commit(lake, 0).unlink()),
        "checkpoint 2 is damaged",
    ),
    "checkpoint gone, an entry gone": (
        lambda lake: (checkpoint(lake).unlink(), commit(lake, 0).unlink()),
        "checkpoint 2 is missing",
    ),
}
CHECKPOINT_DAMAGE: dict[str, tuple[Callable[[Lake], Any], str]] = {
    "cut off": (lambda lake: cut(checkpoint(lake)), "checkpoint 2 is damaged"),
    "empty": (lambda lake: checkpoint(lake).write_bytes(b""), "checkpoint 2 is damaged"),
    "cut off without its hint": (
        lambda lake: (cut(checkpoint(lake)), log_file(lake, "_last_checkpoint").unlink()),
        "checkpoint 2 is damaged",
    ),
    "named by a hint only": (lambda lake: checkpoint(lake).unlink(), "checkpoint 2 is missing"),
}


def published(lake: Lake) -> list[int]:
    with open_release(lake, releases.require_release(lake, None)) as connection:
        return [x for (x,) in connection.execute("SELECT x FROM gold_x ORDER BY x").fetchall()]


@pytest.mark.parametrize(("damage", "told"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_log_is_proven_and_its_table_set_aside(damage: Callable[[Lake], Any], told: str, lake: Lake) -> None:
    damage(lake)
    with pytest.raises(MedallionError, match="cannot be read"):
        lake.version("gold_x")
    assert log_damage(lake.folder("gold_x")) == told
    _, note = former_or_moved(refresh_run(lake), TABLE)
    assert note is not None
    assert note.startswith(f"rebuilt, as {told} in the log of gold_x; what was there is in ")
    assert lake.open(lake.path("gold_x")) is None


@pytest.mark.parametrize(("damage", "wrong"), CHECKPOINT_DAMAGE.values(), ids=CHECKPOINT_DAMAGE)
def test_checkpoint_is_written_again_from_the_entries_when_it_cannot_be_read(
    damage: Callable[[Lake], Any], wrong: str, lake: Lake
) -> None:
    damage(lake)
    (checkpoint(lake).parent / f".{checkpoint(lake).name}.crc").write_bytes(b"of another checkpoint")
    delta = lake.opened(lake.path("gold_x"))
    assert sorted(delta.to_pyarrow_table()["x"].to_pylist()) == [0, 1, 2, 3]
    ((folder, note),) = take_repairs()
    assert folder == str(lake.folder("gold_x"))
    assert note.startswith(f"{wrong} in the log of ")
    assert log_damage(lake.folder("gold_x")) is None
    for version in range(3):
        commit(lake, version).unlink()
    assert sorted(lake.opened(lake.path("gold_x")).to_pyarrow_table()["x"].to_pylist()) == [0, 1, 2, 3]
    assert take_repairs() == []
    assert not [*checkpoint(lake).parent.glob(".*.crc")], "Hadoop would compare it with the new checkpoint"


def test_a_commit_that_is_missing_is_proven(lake: Lake) -> None:
    write_deltalake(lake.path("gold_x"), pa.table({"x": [4]}), mode="append")
    commit(lake, 3).unlink()
    assert log_damage(lake.folder("gold_x")) == "commit 3 is missing"


def test_readers_keep_the_release_of_a_table_that_was_set_aside(lake: Lake) -> None:
    commit(lake, 3).write_text("{broken")
    assert published(lake) == [0, 1]
    former_or_moved(refresh_run(lake), TABLE)
    assert published(lake) == [0, 1], "while the table is rebuilt"
    write_deltalake(lake.path("gold_x"), pa.table({"x": [7]}))
    write_deltalake(lake.path("gold_x"), pa.table({"x": [8]}), mode="overwrite")
    assert published(lake) == [0, 1], "and until it is published"
    releases.publish(
        lake,
        after=releases.latest(lake),
        hour=None,
        run_id="r",
        strategy="full",
        contents=releases.Contents({"gold_x": 1}),
    )
    assert published(lake) == [8]


def test_a_sound_log_proves_nothing(lake: Lake) -> None:
    assert log_damage(lake.folder("gold_x")) is None
    log_file(lake, "_last_checkpoint").write_text("nonsense")
    assert log_damage(lake.folder("gold_x")) is None, "readers do without a damaged hint"


def test_a_damaged_commit_under_a_checkpoint_holds_up_nothing(lake: Lake) -> None:
    commit(lake, 2).write_text("{broken")
    delta = lake.opened(lake.path("gold_x"))
    assert origin_of(delta) == {}, "nothing is known, so the table is recomputed"
    write_deltalake(delta, pa.table({"x": [9]}), mode="overwrite", commit_properties=properties('{"hour": "now"}'))
    assert origin_of(delta) == {"hour": "now"}


# -- errors that are not of the table


@pytest.fixture
def no_more_files() -> Iterator[Callable[[], None]]:
    """Called, let this process open no further file until the end of the test."""

    def limit() -> None:
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, LIMITS[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, LIMITS)


def test_too_many_open_files_for_a_moment_are_waited_out(
    lake: Lake, no_more_files: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.version("gold_x")  # so that all modules are loaded
    waited = Mock(side_effect=lambda _: resource.setrlimit(resource.RLIMIT_NOFILE, LIMITS))
    monkeypatch.setattr(files, "sleep", waited)
    no_more_files()
    assert former_or_moved(refresh_run(lake), TABLE)[1] is None
    assert waited.call_count == 1
    assert published(lake) == [0, 1]


def test_too_many_open_files_set_nothing_aside(
    lake: Lake, no_more_files: Callable[[], None], pauses: list[float]
) -> None:
    lake.version("gold_x")
    no_more_files()
    try:
        former_or_moved(refresh_run(lake), TABLE)
    except MedallionError as error:
        told = str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, LIMITS)
    assert "Too many open files" in told
    assert len(pauses) == 4 and 0.7 < sum(pauses) < 2.3
    assert lake.version("gold_x") == 3 and not lake.at(lake.ops("damaged")).exists()


FAILURES = {
    "EACCES": OSError("Kernel error -> Generic LocalFileSystem error\n ↳ Permission denied (os error 13)"),
    "503": OSError("Kernel error -> Generic S3 error\n ↳ Server returned non-2xx status code: 503: SlowDown"),
    "a newer writer": DeltaError("Kernel error: Unsupported: Unknown TableFeatures: someFeature"),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_table_that_cannot_be_opened_now_stays_where_it_is(failure: Exception, lake: Lake) -> None:
    with patch.object(deltalake, "DeltaTable", side_effect=failure), pytest.raises(MedallionError, match="cannot be"):
        former_or_moved(refresh_run(lake), TABLE)
    assert lake.version("gold_x") == 3
    assert published(lake) == [0, 1]


def test_a_failure_of_storage_that_passes_is_no_failure(lake: Lake, pauses: list[float]) -> None:
    sound = DeltaTable(lake.path("gold_x"))
    with patch.object(deltalake, "DeltaTable", side_effect=[FAILURES["503"], FAILURES["EACCES"], sound]):
        assert lake.version("gold_x") == 3
    assert len(pauses) == 2


def test_a_log_that_cannot_be_looked_at_proves_nothing(lake: Lake) -> None:
    commit(lake, 3).write_text("{broken")
    with (
        patch.object(Path, "read_bytes", side_effect=PermissionError(13, "Permission denied")),
        pytest.raises(MedallionError, match="cannot be read"),
    ):
        former_or_moved(refresh_run(lake), TABLE)
    assert not lake.at(lake.ops("damaged")).exists()


@pytest.mark.usefixtures("lake_bucket")
def test_damage_in_a_bucket_is_proven_and_its_release_still_read() -> None:
    lake = Lake("s3a://lakes/shop", S3Access.of(Settings.from_environment()))
    options = lake.storage_options
    for x in range(3):
        write_deltalake(lake.path("gold_x"), pa.table({"x": [x]}), mode="append", storage_options=options)
    releases.publish(
        lake, after=None, hour=None, run_id="r", strategy="full", contents=releases.Contents({"gold_x": 1})
    )
    files.write_text(lake.folder("gold_x", "_delta_log", f"{2:020}.json"), "{broken")
    _, note = former_or_moved(refresh_run(lake), TABLE)
    assert note is not None
    assert note.startswith("rebuilt, as commit 2 is damaged in the log of gold_x")
    assert published(lake) == [0, 1]
