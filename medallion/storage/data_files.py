"""Write Parquet files of a Delta table in this process, with the statistics for their log entry."""

import json
import math
import time
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from medallion.storage.files import Place, write_new
from medallion.storage.log_entries import Action

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_INDEXED_COLUMNS = 32  # Delta's default
_MAX_TEXT = 32  # most characters of a text in the statistics


def write_data_file(folder: Place, rows: "pa.Table", columns: Iterable[str], *, data_change: bool = True) -> Action:
    """Write ``rows`` as a new data file of the table in ``folder``, and return its ``add``.

    columns: the columns with statistics. data_change: whether the rows are new to the table.
    """
    name = f"part-00000-{uuid4()}-c000.snappy.parquet"
    return {
        "path": name,
        "partitionValues": {},
        "size": _write(folder / name, rows),
        "modificationTime": time.time_ns() // 1_000_000,
        "dataChange": data_change,
        "stats": json.dumps(statistics(rows, columns)),
    }


def write_change_file(folder: Place, rows: "pa.Table") -> Action:
    """Write ``rows``, which also have ``_change_type``, as a file of the change data feed; return its ``cdc``."""
    name = f"_change_data/cdc-00000-{uuid4()}.c000.snappy.parquet"
    return {"path": name, "partitionValues": {}, "size": _write(folder / name, rows), "dataChange": False}


def indexed_columns(delta: "DeltaTable") -> list[str]:
    """Return the columns for which files of the table have statistics."""
    names, configuration = [field.name for field in delta.schema().fields], delta.metadata().configuration
    if column_list := configuration.get("delta.dataSkippingStatsColumns"):
        wanted = {name.strip().strip("`") for name in column_list.split(",")}
        return [name for name in names if name in wanted]
    count = int(configuration.get("delta.dataSkippingNumIndexedCols", _INDEXED_COLUMNS))
    return names if count < 0 else names[:count]


def statistics(rows: "pa.Table", columns: Iterable[str]) -> dict[str, Any]:
    """Return the number of rows, and the nulls and bounds of ``columns``, in the form of a log entry."""
    import pyarrow as pa
    import pyarrow.compute as pc

    least, most, nulls = dict[str, Any](), dict[str, Any](), dict[str, int]()
    for name in columns:
        values = rows[name]
        if pa.types.is_nested(values.type):
            continue
        nulls[name] = values.null_count
        if pa.types.is_boolean(values.type) or pa.types.is_binary(values.type) or values.null_count == len(values):
            continue
        bounds = pc.min_max(values)
        low, high = _bound(bounds["min"].as_py(), is_least=True), _bound(bounds["max"].as_py(), is_least=False)
        if low is not None:
            least[name] = low
        if high is not None:
            most[name] = high
    return {"numRecords": len(rows), "minValues": least, "maxValues": most, "nullCount": nulls}


def _bound(value: Any, *, is_least: bool) -> Any:
    """Return a bound for JSON, which may lie outside of the values; None if there is none."""
    if isinstance(value, datetime):
        # Spark reads bounds in whole milliseconds.
        rounded = value.replace(microsecond=value.microsecond // 1000 * 1000)
        if not is_least and rounded < value:
            rounded += timedelta(milliseconds=1)
        return rounded.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else value[:_MAX_TEXT] if is_least else None
    return value if isinstance(value, int) else None


def _number(value: Decimal) -> int | float | None:
    """Return a decimal as a JSON number; None if that would not be the same value."""
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    return number if Decimal(repr(number)) == value else None


def _write(place: Place, rows: "pa.Table") -> int:
    import pyarrow.parquet as pq

    content = BytesIO()
    # As Spark and delta-rs write them. With Arrow's schema stored, readers would use its types instead of the table's.
    pq.write_table(rows, content, compression="snappy", store_schema=False, coerce_timestamps="us")
    write_new(place, content.getvalue())
    return content.tell()
