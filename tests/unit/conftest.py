"""What unit tests share: a small lake that needs no Spark."""

from pathlib import Path

import pytest

from tests.unit import small_lake


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> small_lake.Shop:
    """A loaded shop whose source has no change file yet."""
    small_lake.without_spark(monkeypatch)
    return small_lake.load(tmp_path)
