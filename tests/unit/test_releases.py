"""Releases: one row each, in order, and none over the head of another."""

from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from medallion.errors import MedallionError, UsageError
from medallion.ops import releases
from medallion.ops.releases import Release
from medallion.storage.delta_writes import properties
from medallion.storage.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def publish(lake: Lake, after: Release | None, hour: str | None = None, **versions: int) -> Release:
    return releases.publish(
        lake, after=after, hour=hour, run_id="r", strategy="full", contents=releases.Contents(versions)
    )


def test_releases_are_numbered_in_order_and_the_last_is_the_latest(lake: Lake) -> None:
    assert releases.latest(lake) is None
    first = publish(lake, None, silver_customers=1)
    second = publish(lake, first, "2025-11-30T00", silver_customers=2)
    assert [r.release_id for r in releases.read_all(lake)] == [1, 2]
    assert releases.latest(lake) == second
    assert releases.require_release(lake, 1) == first
    assert releases.require_release(lake, None) == second


def test_a_release_that_is_not_there_names_those_that_are(lake: Lake) -> None:
    with pytest.raises(UsageError, match="has no release yet: run medallion load"):
        releases.require_release(lake, None)
    publish(lake, None)
    with pytest.raises(UsageError, match="there is no release 7: choose 1$"):
        releases.require_release(lake, 7)


def test_a_writer_that_was_overtaken_cannot_publish(lake: Lake) -> None:
    first = publish(lake, None)
    publish(lake, first, "2025-11-30T01")
    with pytest.raises(MedallionError, match="another run published while hour 2025-11-30T00"):
        publish(lake, first, "2025-11-30T00")
    assert [r.hour for r in releases.read_all(lake)] == [None, "2025-11-30T01"]


def test_a_writer_that_is_overtaken_between_its_last_look_and_its_commit_cannot_publish(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = publish(lake, None)
    real, quick = releases.read_newest, []

    def read_and_be_slow(lake: Lake) -> object:
        found = real(lake)
        if not quick:
            quick.append(True)
            quick.append(publish(lake, first, "2025-11-30T01"))
        return found

    monkeypatch.setattr(releases, "read_newest", read_and_be_slow)
    with pytest.raises(MedallionError, match="another run published"):
        publish(lake, first, "2025-11-30T00")
    assert [r.hour for r in releases.read_all(lake)] == [None, "2025-11-30T01"]


@pytest.mark.slow
def test_the_newest_release_is_read_from_one_file_however_many_there_are(lake: Lake) -> None:
    release, versions = None, {f"silver_table_{number}": number for number in range(30)}
    for number in range(60):
        release = publish(lake, release, f"2025-11-{1 + number // 24:02}T{number % 24:02}", **versions)

    def seconds(read: Callable[[Lake], object]) -> float:
        """The processor time of the quickest of a few."""
        times = []
        for _ in range(5):
            began = process_time()
            read(lake)
            times.append(process_time() - began)
        return min(times)

    assert releases.latest(lake) == release == releases.read_all(lake)[-1]
    assert releases.require_release(lake, 7).hour == "2025-11-01T06"
    assert seconds(releases.latest) < seconds(releases.read_all) / 2


def test_an_hour_stays_published_when_its_release_is_gone(lake: Lake) -> None:
    release = None
    for hour in ("2025-11-30T00", "2025-11-30T02", "2025-11-30T01"):  # the last as after a roll back
        release = publish(lake, release, hour)
    delta = lake.opened(lake.releases)
    delta.delete("release_id < 3", commit_properties=properties(upon=delta))  # as upkeep does
    assert releases.was_published(lake, "2025-11-30T02") and not releases.was_published(lake, "2025-11-30T03")
    assert publish(lake, release, "2025-11-30T00").newest_hour == "2025-11-30T02"
