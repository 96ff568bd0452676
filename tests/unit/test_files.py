"""The files of a lake: the same promises on a disk and in a bucket, and what a bucket's errors say."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from medallion.cli.main import cli
from medallion.errors import MedallionError
from medallion.ops import releases, writer_lock
from medallion.settings import Settings
from medallion.storage import files
from medallion.storage.files import Place
from medallion.storage.lake import Lake
from medallion.storage.mirrored_folder import mirrored
from medallion.storage.s3 import S3Access, S3Path
from medallion.ui.reports import report_file


@pytest.fixture(params=["disk", "bucket"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return tmp_path / "lake"
    request.getfixturevalue("lake_bucket")
    return files.at("s3a://lakes/a shop", access=S3Access.of(Settings.from_environment()))


def names(folder: Place, pattern: str) -> list[str]:
    return [str(place.relative_to(folder)) for place in files.glob(folder, pattern)]  # type: ignore[arg-type]


def test_what_is_written_is_read_listed_and_removed(folder: Place) -> None:
    for name in ("landing/orders/1.json", "landing/orders/2.json", "landing/_hours/1.json"):
        files.write_text(folder / name, f"ü {name}")
    file = folder / "landing/orders/1.json"
    assert (file.name, file.stem, file.read_text(encoding="utf-8")) == ("1.json", "1", "ü landing/orders/1.json")
    assert file.exists() and not (folder / "landing/orders").with_name("customers").exists()
    assert file.stat().st_size == 24
    assert names(folder, "landing/[a-z]*/*.json") == ["landing/orders/1.json", "landing/orders/2.json"]
    assert names(folder / "landing", "*") == ["_hours", "orders"]
    assert sorted(place.name for place in (folder / "landing").rglob("1.*")) == ["1.json", "1.json"]
    file.unlink()
    file.unlink(missing_ok=True)
    assert names(folder, "landing/orders/*") == ["landing/orders/2.json"]
    files.remove_tree(folder / "landing")
    files.remove_tree(folder / "landing")
    assert [place.name for place in folder.rglob("*.json")] == []


def test_a_file_is_whole_or_not_there(folder: Place) -> None:
    def fail(place: Place) -> None:
        with files.whole(place) as partial:
            partial.write_text("half")
            raise OSError("cut off")

    with pytest.raises(OSError, match="cut off"):
        fail(folder / "x.json")
    assert not (folder / "x.json").exists()
    files.write_json(folder / "x.json", {"hour": 1})
    with pytest.raises(OSError, match="cut off"):
        fail(folder / "x.json")
    assert files.read_json(folder / "x.json") == {"hour": 1}
    assert [place.name for place in folder.rglob("*")] == ["x.json"]


def test_a_folder_is_moved_with_all_that_is_in_it(folder: Place) -> None:
    files.write_text(folder / "gold/x/_delta_log/0.json", "{}")
    files.move(folder / "gold/x", folder / "ops/damaged/x-1")
    assert [str(place) for place in folder.rglob("*.json")] == [str(folder / "ops/damaged/x-1/_delta_log/0.json")]


def test_a_copy_on_this_machine_brings_its_changes_back(folder: Place) -> None:
    for name in ("old", "stays", "changes"):
        files.write_text(folder / "gx" / name, name)
    with mirrored(folder / "gx") as here:
        (here / "old").unlink()
        (here / "changes").write_text("changed")
        (here / "new").write_text("new")
    assert {place.name: place.read_text() for place in (folder / "gx").rglob("*")} == {
        "stays": "stays",
        "changes": "changed",
        "new": "new",
    }


def test_lines_are_read_as_from_a_file(folder: Place) -> None:
    files.write_text(folder / "x", "one\ntwo\nthree")
    with (folder / "x").open("rb") as stream:
        assert (stream.readline(), stream.readline(2), stream.read()) == (b"one\n", b"tw", b"o\nthree")


@pytest.mark.usefixtures("lake_bucket")
def test_a_release_in_a_bucket_is_not_written_over_another(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake("s3a://lakes/shop", S3Access.of(Settings.from_environment()))
    hour = {"hour": "2025-11-30T00", "strategy": "full", "contents": releases.Contents({"gold_x": 1})}
    first = releases.publish(lake, after=None, run_id="a", **hour)  # type: ignore[arg-type]
    seen = releases.read_newest(lake)
    releases.publish(lake, after=first, run_id="b", **hour)  # type: ignore[arg-type]
    with monkeypatch.context() as slow:
        slow.setattr(releases, "read_newest", lambda _: seen)  # what it looked at, before it wrote
        with pytest.raises(MedallionError, match="release 2 could not be written"):
            releases.publish(lake, after=first, run_id="c", **hour)  # type: ignore[arg-type]
    assert [release.run_id for release in releases.read_all(lake)] == ["a", "b"]


@pytest.mark.usefixtures("lake_bucket")
def test_table_in_a_bucket_is_opened_or_none_when_missing() -> None:
    lake = Lake("s3a://lakes/shop", S3Access.of(Settings.from_environment()))
    path = lake.path("gold_x")
    assert lake.open(path) is None
    write_deltalake(path, pa.table({"x": [1, 2]}), storage_options=lake.storage_options)
    assert lake.state("gold_x").rows == 2  # type: ignore[union-attr]
    assert lake.is_whole("gold_x", 0)
    next(lake.at(path).glob("*.parquet")).unlink()
    assert not lake.is_whole("gold_x", 0)
    aside = lake.move_damaged_table("gold_x")
    assert lake.open(path) is None and str(aside).startswith("s3a://lakes/shop/ops/damaged/gold_x-")


@pytest.mark.usefixtures("lake_bucket")
def test_the_lock_of_a_lake_in_a_bucket_is_kept_on_this_machine(tmp_path: Path) -> None:
    lake = Lake("s3a://lakes/shop", S3Access.of(Settings.from_environment()))
    with (
        writer_lock.writer_lock(lake, "first", 1, "load", wait=0),
        pytest.raises(MedallionError, match="load of run first"),
        writer_lock.writer_lock(lake, "second", 1, "load", wait=0),
    ):
        pass
    (file,) = (tmp_path / "state" / "medallion").iterdir()
    assert file.suffix == ".lock"
    other = Lake("s3a://lakes/another", lake.access)
    with writer_lock.writer_lock(other, "third", 1, "load", wait=0):
        assert writer_lock.current_writer(lake) is None


@pytest.mark.usefixtures("lake_bucket")
def test_a_report_is_found_in_the_bucket_and_nothing_outside_of_the_folder() -> None:
    lake = Lake("s3a://lakes/shop", S3Access.of(Settings.from_environment()))
    files.write_text(lake.reports / "2025-11-30T00" / "gold.html", "a report")
    files.write_text(lake.at(lake.root, "ops", "secret.json"), "{}")
    found = report_file(lake, "2025-11-30T00/gold.html")
    assert isinstance(found, S3Path) and found.read_text() == "a report"
    for name in ("", "2025-11-30T00", "../../ops/secret.json", "x/../../../ops/secret.json", "//ops", "no.html"):
        assert report_file(lake, name) is None, name


@pytest.mark.usefixtures("lake_bucket")
@pytest.mark.parametrize("command", [["status"], ["maintain"], ["query", "SELECT 1"], ["refresh"]])
def test_missing_bucket_is_an_error_of_one_line(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_LAKE", "s3a://no-such-lake/shop")
    error = CliRunner().invoke(cli, command).exception
    assert isinstance(error, MedallionError)
    said = "the server answered NoSuchBucket; see MEDALLION_LAKE, and MEDALLION_S3_ENDPOINT for a server of your own"
    assert str(error).endswith(said) and "\n" not in str(error)
    assert str(error).startswith("s3a://no-such-lake/shop")


def test_a_bucket_that_denies_says_what_may_help(lake_bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_LAKE", "s3a://lakes/shop")
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::lakes/*"}
    lake_bucket.Policy().put(Policy=json.dumps({"Statement": [deny]}))
    try:
        error = CliRunner().invoke(cli, ["refresh"]).exception
    finally:
        lake_bucket.Policy().delete()
    assert isinstance(error, MedallionError)
    said = r"s3a://lakes/shop/\S+ cannot be (read|written): the server answered 403; it needs credentials that .*"
    assert re.fullmatch(said, str(error))
