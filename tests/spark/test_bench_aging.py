"""The comparison of a young lake with an old one."""

import re
from typing import TYPE_CHECKING

import pytest

from bench import aging
from medallion.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_both_lakes_are_refreshed_in_turns(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(aging, "spark_session", lambda _: spark)
    monkeypatch.setattr(aging, "YOUNG", 1)
    monkeypatch.setattr(aging, "UPKEEP", 2)
    aging.compare_ages(Settings(), hours=2, rounds=1)
    printed = capsys.readouterr().out
    assert re.search(r"young: [\d,]+ data files.*\nold: [\d,]+ data files", printed)
    assert re.search(r"\nwarm-up: old .* young .*\nround 1: young .* old ", printed)
    assert re.search(r"\nmedian ratio of 1 round: \d\.\d\d in seconds, \d\.\d\d in CPU seconds\n$", printed)
