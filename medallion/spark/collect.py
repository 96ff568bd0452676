"""Rows of Spark in this process's memory, where they are few and none is wide."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

MAX_ROW_BYTES = 4 << 10  # of the texts, lists and the like in a row: far more than a row of figures has
_TOO_WIDE = "_too_wide"


def collect(rows: "DataFrame", max_rows: int) -> "pa.Table | None":
    """All of ``rows``; None when there are more than ``max_rows``, or one of them is wider than MAX_ROW_BYTES.

    No more than one row too many is fetched, and of a row that is too wide its short values and structs.
    """
    data = _without_wide_values(rows).limit(max_rows + 1).toArrow()
    if data.num_rows > max_rows:
        return None
    if _TOO_WIDE not in data.column_names:
        return data
    return None if any(data[_TOO_WIDE].to_pylist()) else data.drop_columns([_TOO_WIDE])


def _without_wide_values(rows: "DataFrame") -> "DataFrame":
    """``rows`` with null for each value that may be long of a row that is too wide, and a column that says so."""
    from pyspark.sql.types import StructType

    sizes = {field.name: size for field in rows.schema.fields if (size := _size(field)) is not None}
    if not sizes:
        return rows
    is_wide = f"{' + '.join(sizes.values())} > {MAX_ROW_BYTES}"
    values = (
        f"IF({is_wide}, NULL, {quoted(field.name)}) AS {quoted(field.name)}"
        # Arrow takes no null for a struct with a field that must have a value.
        if field.name in sizes and not isinstance(field.dataType, StructType)
        else quoted(field.name)
        for field in rows.schema.fields
    )
    # As text: each function on a column is several calls of the JVM.
    return rows.selectExpr(*values, f"{is_wide} AS {_TOO_WIDE}")


def _size(field: "StructField") -> str | None:
    """The bytes of a value in SQL, 0 for null; None for a type whose values are all short."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    if isinstance(field.dataType, StringType | BinaryType):
        size = f"OCTET_LENGTH({quoted(field.name)})"
    elif isinstance(field.dataType, ArrayType | MapType | StructType):
        size = f"OCTET_LENGTH(TO_JSON({quoted(field.name)}))"
    else:
        return None
    return f"COALESCE(CAST({size} AS BIGINT), 0)"


def quoted(name: str) -> str:
    """Return the name of a column as Spark SQL quotes it."""
    return f"`{name.replace('`', '``')}`"
