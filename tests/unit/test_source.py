"""Reading a source: what it lists, and copies that are whole or not there."""

import hashlib
import io
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import pytest

from medallion.errors import MedallionError, UsageError
from medallion.ingest import source as source_module
from medallion.ingest.listing import change_files
from medallion.ingest.source import FolderSource, SourceFile, copy_file, open_source
from medallion.settings import Settings
from tests.unit.small_lake import feeds


def put(root: Path, name: str, content: str = "x") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(content)


def test_hours_are_listed_in_order_with_the_files_of_known_feeds(tmp_path: Path) -> None:
    put(tmp_path, "cdc/orders/2025-11-30T01.json")
    put(tmp_path, "cdc/orders/2025-11-30T00.json")
    put(tmp_path, "cdc/suppliers/2025-11-30T01.json")
    for stray in ("cdc/orders/readme.txt", "cdc/orders/2025-11-30T02.json.tmp", "cdc/unknown/2025-11-30T03.json"):
        put(tmp_path, stray)
    listing = change_files(FolderSource(str(tmp_path)), feeds("orders", "suppliers"))
    assert listing.ignored == (), "none of these could be taken for a change file"
    assert listing.refused == {}
    assert listing.files["cdc/orders/2025-11-30T00.json"].bytes == 1
    assert listing.hours == {
        "2025-11-30T00": {"orders": ("cdc/orders/2025-11-30T00.json",)},
        "2025-11-30T01": {
            "orders": ("cdc/orders/2025-11-30T01.json",),
            "suppliers": ("cdc/suppliers/2025-11-30T01.json",),
        },
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("orders/2025-11-31T00.json", "2025-11-31 is not on the calendar"),
        ("orders/2099-01-01T00.json", "hour 2099-01-01T00 lies in the future"),
        ("orders/2099-01-01T00.json.gz", "hour 2099-01-01T00 lies in the future"),
        ("orders/..json", "a change file is named YYYY-MM-DDTHH.json"),
        ("orders/dt=2025-11-30/hour=01/part-0.json", "'dt=2025-11-30' is a folder"),
        ("order/2025-11-30T01.json", "no feed is called order: did you mean cdc/orders/?"),
        ("2025-11-30T01.json", "a change file lies in the folder of its feed"),
    ],
)
def test_a_stray_name_at_the_source_is_ignored_with_a_warning(tmp_path: Path, name: str, reason: str) -> None:
    put(tmp_path, "cdc/orders/2025-11-30T00.json")
    put(tmp_path, f"cdc/{name}")
    listing = change_files(FolderSource(str(tmp_path)), feeds("orders"))
    assert list(listing.hours) == ["2025-11-30T00"]
    (warning,) = listing.ignored
    assert warning.startswith(f"ignored {f'cdc/{name}'!r} at the source: ")
    assert reason in warning


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("orders/2025-11-30T01.json.gz", "is not compressed: unpack it"),
        ("orders/2025-11-30T01.zip", "is not compressed: unpack it"),
        ("orders/2025-11-30T01.parquet", "a change file is named YYYY-MM-DDTHH.json"),
        ("orders/2025-11-30T01", "a change file is named YYYY-MM-DDTHH.json"),
        ("orders/2025-11-30T01 (1).json", "a change file is named YYYY-MM-DDTHH.json"),
        ("orders/2025-11-30T01:30.json", "a change file is named YYYY-MM-DDTHH.json"),
        ("orders/2025-11-30T013000Z.json", "a change file is named YYYY-MM-DDTHH.json"),
        ("orders/orders-2025-11-30T01.json", "a change file is named YYYY-MM-DDTHH.json"),
        ("orders/２０２５-11-30T01.json", "in plain digits"),
        ("orders/2025-11-30T01.JSON", "a change file is named YYYY-MM-DDTHH.json"),
        ("orders/2025-11-30t01.json", "a change file is named YYYY-MM-DDTHH.json"),
        ("orders/2025-11-30T01\n.json", "a change file is named YYYY-MM-DDTHH.json"),
        ("Orders/2025-11-30T01.json", "the folder of this feed is cdc/orders"),
        ("orders/2025-11-30T01.json/part-0.json", "'2025-11-30T01.json' is a folder"),
        ("orders/2025-11-30T01/part-0.json", "'2025-11-30T01' is a folder"),
    ],
)
def test_a_file_that_bears_an_hours_name_and_is_not_understood_refuses_the_hour(
    tmp_path: Path, name: str, reason: str
) -> None:
    put(tmp_path, "cdc/orders/2025-11-30T00.json")
    put(tmp_path, f"cdc/{name}")
    listing = change_files(FolderSource(str(tmp_path)), feeds("orders"))
    assert (listing.hours["2025-11-30T01"], listing.ignored) == ({}, ())
    listing.require_understood("2025-11-30T00")
    with pytest.raises(MedallionError, match="hour 2025-11-30T01 is refused") as refused:
        listing.require_understood("2025-11-30T01")
    assert repr(f"cdc/{name}") in str(refused.value)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("suffix", [".tmp", ".part", "~", ".md5", ".sha256", ".ok", ".done"])
def test_marks_and_files_that_are_being_written_refuse_no_hour(tmp_path: Path, suffix: str) -> None:
    for stray in (f"2025-11-30T01.json{suffix}", f"2025-11-30T01.json{suffix}/part-0.json"):
        put(tmp_path, f"cdc/orders/{stray}" if "/" not in stray else f"cdc/items/{stray}")
    listing = change_files(FolderSource(str(tmp_path)), feeds("orders", "items"))
    assert (listing.hours, listing.refused, listing.ignored) == ({}, {}, ())


@pytest.mark.parametrize("how", ["{}.tmp", "{}.TMP", "{}.part", "{}~", ".{}.swp", ".{}.Xy12aB", "{}.crdownload"])
def test_a_file_that_is_being_written_refuses_the_hour_that_another_feed_has(tmp_path: Path, how: str) -> None:
    unfinished = [f"orders/{how.format(f'2025-11-30T0{hour}.json')}" for hour in (5, 6)]
    for name in ("customers/2025-11-30T05.json", *unfinished):
        (tmp_path / "cdc" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "cdc" / name).write_text("{}")
    topics = feeds("customers", "orders")
    listing = change_files(FolderSource(str(tmp_path)), topics)
    assert [*listing.hours] == ["2025-11-30T05"]
    with pytest.raises(MedallionError, match=f"{re.escape(unfinished[0])}.*is still being written"):
        listing.require_understood("2025-11-30T05")
    (tmp_path / "cdc/orders/2025-11-30T05.json").write_text("{}")
    change_files(FolderSource(str(tmp_path)), topics).require_understood("2025-11-30T05")


def test_a_folder_that_cannot_be_listed_is_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "cdc/orders/2025-11-30T00.json")
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("orders"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(MedallionError, match="cdc/orders cannot be listed: Permission denied"):
        change_files(FolderSource(str(tmp_path)), feeds("orders"))
    assert FolderSource(str(tmp_path)).list_files("absent/") == {}


def test_a_link_to_a_folder_is_no_silence(tmp_path: Path) -> None:
    put(tmp_path, "elsewhere/part-0.json")
    put(tmp_path, "cdc/items/2025-11-30T00.json")
    (tmp_path / "cdc/items/2025-11-30T01.json").symlink_to(tmp_path / "elsewhere")
    source = FolderSource(str(tmp_path))
    (name,) = change_files(source, feeds("items")).hours["2025-11-30T01"]["items"]
    with pytest.raises(MedallionError, match="cannot be read: Is a directory"):
        source.open(name)
    (tmp_path / "cdc/orders").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MedallionError, match="cdc/orders is a file, or a link, which is not followed"):
        change_files(source, feeds("items", "orders"))


def test_a_file_of_the_running_hour_is_listed_without_a_warning(tmp_path: Path) -> None:
    put(tmp_path, "cdc/orders/2025-11-30T01.json")
    listing = change_files(FolderSource(str(tmp_path)), feeds("orders"), datetime(2025, 11, 30, 1, 30, tzinfo=UTC))
    assert (list(listing.hours), listing.ignored) == (["2025-11-30T01"], ())


def test_a_copy_carries_its_size_and_checksum(tmp_path: Path) -> None:
    put(tmp_path, "source/a.json", "content")
    landed = copy_file(FolderSource(str(tmp_path / "source")), "a.json", tmp_path / "landing" / "a.json")
    assert (landed.bytes, landed.sha256) == (7, hashlib.sha256(b"content").hexdigest())
    assert (tmp_path / "landing" / "a.json").read_text() == "content"


class Cut:
    root = "s3://cut"

    def list_files(self, prefix: str) -> dict[str, SourceFile]:
        return {}

    def open(self, name: str) -> tuple[IO[bytes], int]:
        return io.BytesIO(b"half"), 8


def test_a_copy_that_was_cut_off_leaves_what_was_there_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "BACK_OFF_SECONDS", 0)
    put(tmp_path, "a.json", "before")
    with pytest.raises(MedallionError, match="4 of 8 bytes arrived"):
        copy_file(Cut(), "a.json", tmp_path / "a.json")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "before"


def test_a_source_that_does_not_exist_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="medallion source generate"):
        open_source(Settings(source=str(tmp_path / "absent")))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MedallionError, match=r"gone\.json cannot be read: No such file"):
        FolderSource(str(tmp_path)).open("gone.json")


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "2025-11-30T00.json")
    with pytest.raises(MedallionError, match=r"2025-11-30T00\.json is no regular file"):
        FolderSource(str(tmp_path)).open("2025-11-30T00.json")


def test_a_link_that_leads_out_of_the_source_is_not_read(tmp_path: Path) -> None:
    put(tmp_path, "secret")
    put(tmp_path / "source", "cdc/orders/real.json")
    (tmp_path / "source" / "cdc" / "orders" / "2025-11-30T00.json").symlink_to(tmp_path / "secret")
    (tmp_path / "source" / "cdc" / "orders" / "2025-11-30T01.json").symlink_to("real.json")
    source = FolderSource(str(tmp_path / "source"))
    with pytest.raises(MedallionError, match="leads out of the source"):
        source.open("cdc/orders/2025-11-30T00.json")
    with source.open("cdc/orders/2025-11-30T01.json")[0] as stream:
        assert stream.read() == b"x"
