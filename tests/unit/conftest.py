"""What unit tests share: a small lake that needs no Spark, loaded once and copied for each test."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit import small_lake


@pytest.fixture(scope="session")
def loaded_shop(tmp_path_factory: pytest.TempPathFactory) -> small_lake.Shop:
    """The shop that each test gets a copy of."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        small_lake.without_spark(monkeypatch)
        return small_lake.load(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def shop(loaded_shop: small_lake.Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> small_lake.Shop:
    """A loaded shop whose source has no change file yet."""
    small_lake.without_spark(monkeypatch)
    shutil.copytree(loaded_shop.root, tmp_path, dirs_exist_ok=True)
    return replace(loaded_shop, root=tmp_path)
