"""Clicks as a stream: each counts once, also when the stream ends between writing a batch and noting that it did."""

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from bench.streaming import stream


def click(number: int, **given: Any) -> dict[str, Any]:
    row = {"event_id": number, "user_id": 1, "event_type": "product_view"}
    return row | {"event_timestamp": "2025-11-30T00:00:01", "ingested_at": "2025-11-30T00:00:02"} | given


def arrive(folder: Path, hour: str, *changes: dict[str, Any]) -> None:
    (folder / f"{hour}.json").write_text("".join(f"{json.dumps(change)}\n" for change in changes))


@pytest.mark.long
def test_a_stream_that_ends_at_the_worst_moment_has_every_click_once(spark: Any, tmp_path: Path) -> None:
    source, silver, checkpoint = (tmp_path / name for name in ("source", "silver", "checkpoint"))
    source.mkdir()
    arrive(source, "2025-11-30T00", *({"insert": click(n)} for n in (1, 2, 3)), {"insert": click(4, user_id=None)})

    def fail_once(number: int) -> None:
        raise RuntimeError("power is gone")

    query = stream(spark, source, silver, checkpoint, fail_once)
    with pytest.raises(StreamingQueryException, match="power is gone"):
        query.processAllAvailable()
    query.stop()
    assert [one["operation"] for one in DeltaTable(str(silver)).history()].count("MERGE") == 1, "its rows are there"

    changed = click(2, page_url="/new")
    again = ({"delete": click(3)}, {"insert": click(3, event_type="scroll")})  # which Silver does not keep
    arrive(source, "2025-11-30T01", {"delete": click(1)}, {"delete": click(2)}, {"insert": changed}, *again)
    query = stream(spark, source, silver, checkpoint)
    query.processAllAvailable()
    query.stop()
    rows = DeltaTable(str(silver)).to_pyarrow_table().to_pylist()
    assert [(row["event_id"], row["page_url"]) for row in rows] == [(2, "/new")]
    assert [one["operation"] for one in DeltaTable(str(silver)).history()].count("MERGE") == 2
