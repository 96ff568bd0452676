"""The benchmark in another source format: the same changes, read by the same project, and what decoding costs."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.source_formats import decoding_costs, describe_costs, project_in_format, source_in_format
from demo.generate import generate
from medallion.ingest.decode import DELETED, decode_file
from medallion.ingest.parts import Parts
from medallion.ingest.put_together import Reading, land_files
from medallion.ingest.source import FolderSource
from medallion.ingest.sources import columns_in_hours
from medallion.model.table import Feed
from medallion.project import find_project


def last_images(source: Path, feed: Feed, hour: str, folder: Path) -> dict[object, object]:
    """The rows that an hour leaves, by key; None for one that is deleted."""
    name = feed.delivery.layout.path(feed.topic, hour)
    parts = land_files(FolderSource(str(source)), [name], folder / "landed.json", Reading(columns_in_hours(feed))).parts
    decoded = decode_file(folder / "landed.json", feed, hour, folder / "decoded.parquet", None, Parts(parts))
    assert decoded.rejected == []
    rows = {}
    for row in pq.read_table(folder / "decoded.parquet").to_pylist():
        key = tuple(row[name] for name in feed.keys)
        rows[key] = None if row[DELETED] else {n: v for n, v in row.items() if not n.startswith("_")}
    return rows


@pytest.mark.parametrize("form", ["debezium", "dms"])
def test_same_changes_are_read_in_each_format(tmp_path: Path, form: str) -> None:
    source, hour = tmp_path / "source", "2025-11-30T00"
    generate(source, days=1, hours=1, scale=0.05, seed=0)
    usual = {feed.topic: feed for feed in find_project().registry().feeds}
    other = source_in_format(source, form)
    with project_in_format(form):
        assert {feed.delivery.format for feed in find_project().registry().feeds} == {form}
        for feed in find_project().registry().feeds:
            if (source / "cdc" / feed.topic / f"{hour}.json").exists():
                assert last_images(other, feed, hour, tmp_path) == last_images(
                    source, usual[feed.topic], hour, tmp_path
                )
    assert find_project().registry().feeds == (*usual.values(),)
    (file,) = (other / "cdc" / "orders").iterdir()
    updates = '"op": "u"' if form == "debezium" else "\nU,"
    assert updates in file.read_text()


def test_cost_of_decoding_is_said_per_record_and_compared(tmp_path: Path) -> None:
    generate(tmp_path / "source", days=1, hours=1, scale=0.02, seed=0)
    costs = decoding_costs(tmp_path / "source", "debezium", 1)
    assert [cost.format for cost in costs] == ["insert_delete", "debezium"]
    assert all(cost.records > 0 and cost.microseconds > 0 for cost in costs)
    assert describe_costs(costs).startswith("decoding: insert_delete ")
