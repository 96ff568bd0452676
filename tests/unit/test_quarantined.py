"""What is kept aside is counted: rejected lines by feed and hour, dropped rows by table."""

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from medallion.inspect.quarantined import Quarantined, count_dropped_rows, count_rejected_lines
from medallion.ops import releases
from medallion.storage.lake import Lake
from tests.unit.small_lake import H0, Shop


def test_rejected_lines_are_counted_by_reason(shop: Shop) -> None:
    shop.put(H0, '{"insert": {"id": 1}}\n' * 199 + '{"insert": {"name": "no key"}}\n')
    shop.step("land", H0)
    shop.step("apply", H0)
    (count,) = count_rejected_lines(shop.lake, shop.tables)
    assert (count.name, count.kind, count.hour, count.count) == ("orders", "rejected lines", H0, 1)


def test_dropped_rows_are_those_of_the_newest_release(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    assert [*count_dropped_rows(lake)] == []
    rows = pa.table({"id": [2, 3, 4], "_broken": ["no name", "no name", "too long"]})
    write_deltalake(lake.path("quarantine_silver_orders"), rows)
    write_deltalake(lake.path("silver_orders"), pa.table({"id": [1]}))
    versions = {"quarantine_silver_orders": 0, "silver_orders": 0}
    releases.publish(lake, after=None, hour=H0, run_id="r", strategy="full", contents=releases.Contents(versions))
    assert [*count_dropped_rows(lake)] == [
        Quarantined("silver_orders", "dropped rows", None, "no name", 2),
        Quarantined("silver_orders", "dropped rows", None, "too long", 1),
    ]
