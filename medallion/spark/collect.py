"""Collect Spark rows into the memory of this process if they are few and none is wide."""

from typing import TYPE_CHECKING

from medallion.sql_text import backquoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

MAX_ROW_BYTES = 4 << 10  # total of a row's strings, binaries and nested values; rows of numbers have far less
MAX_BYTES = 2 << 30  # of all rows together: of many rows, each may be less wide
_TOO_WIDE = "_too_wide"


def collect(rows: "DataFrame", max_rows: int) -> "pa.Table | None":
    """Return all of ``rows``, or None if there are more than ``max_rows`` or one is too wide.

    A row is too wide from MAX_ROW_BYTES on, or from its share of MAX_BYTES. At most ``max_rows`` + 1 rows are fetched,
    and of a row that is too wide only its short values and structs.
    """
    import pyarrow.compute as pc

    data = _without_wide_values(rows, min(MAX_ROW_BYTES, MAX_BYTES // max(1, max_rows))).limit(max_rows + 1).toArrow()
    if data.num_rows > max_rows:
        return None
    if _TOO_WIDE not in data.column_names:
        return data
    return None if pc.any(data[_TOO_WIDE]).as_py() else data.drop_columns([_TOO_WIDE])


def _without_wide_values(rows: "DataFrame", max_row_bytes: int) -> "DataFrame":
    """Replace values of variable length by null in rows that are too wide, and add a column that flags those rows."""
    from pyspark.sql.types import StructType

    sizes = {field.name: size for field in rows.schema.fields if (size := _size(field)) is not None}
    if not sizes:
        return rows
    is_wide = f"{' + '.join(sizes.values())} > {max_row_bytes}"
    values = (
        f"IF({is_wide}, NULL, {backquoted(field.name)}) AS {backquoted(field.name)}"
        # Arrow does not accept null for a struct with a NOT NULL field.
        if field.name in sizes and not isinstance(field.dataType, StructType)
        else backquoted(field.name)
        for field in rows.schema.fields
    )
    # SQL text, because each function on a Column object takes several calls to the JVM.
    return rows.selectExpr(*values, f"{is_wide} AS {_TOO_WIDE}")


def _size(field: "StructField") -> str | None:
    """Return SQL for the size of a value in bytes, 0 for null; None for types whose values are always short."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    if isinstance(field.dataType, StringType | BinaryType):
        size = f"OCTET_LENGTH({backquoted(field.name)})"
    elif isinstance(field.dataType, ArrayType | MapType | StructType):
        size = f"OCTET_LENGTH(TO_JSON({backquoted(field.name)}))"
    else:
        return None
    return f"COALESCE(CAST({size} AS BIGINT), 0)"
