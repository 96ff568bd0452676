"""Schema evolution: bring a Bronze table to the columns that its feed declares."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from medallion.errors import MedallionError
from medallion.ingest.decode import arrow_type
from medallion.model.table import Column, Feed, Log
from medallion.storage.lake import Lake

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession


def arrow_schema(columns: Iterable[Column]) -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([pa.field(c.name, arrow_type(c), nullable=not c.required) for c in columns])


def evolve(spark: "Callable[[], SparkSession]", lake: Lake, table: Feed | Log, delta: "DeltaTable") -> None:
    """Bring a table that has these columns to the declared ones: add the new, rewrite it where a type was widened.

    delta: the table as it was opened; it follows. Raises MedallionError for any other change of a type, and for a new
    column that must have a value.
    """
    import pyarrow as pa
    from deltalake import Schema

    found = {f.name: f.type for f in pa.schema(delta.schema().to_arrow())}
    new = [column for column in table.columns if column.name not in found]
    if new:
        if required := [column.name for column in new if column.required]:
            raise MedallionError(
                f"{table.name} cannot take in {required[0]} as NOT NULL: rows of before have no value in it"
            )
        delta.alter.add_columns(Schema.from_arrow(arrow_schema(new)).fields)
    other = [c for c in table.columns if c.name in found and not same_type(found[c.name], arrow_type(c))]
    if narrowed := [c for c in other if not is_wider(found[c.name], arrow_type(c))]:
        column = narrowed[0]
        raise MedallionError(
            f"{table.name} has {column.name} as {found[column.name]}, which does not fit into {column.type}:"
            " declare a wider type, or load the lake anew"
        )
    if other:
        _rewrite(spark(), lake.path(table.name), table.columns)
        delta.update_incremental()


def _rewrite(spark: "SparkSession", path: str, columns: Iterable[Column]) -> None:
    """Write the whole table with the declared types, in one commit; its ledger stays."""
    from pyspark.sql.types import StructType

    declared = StructType.fromDDL(", ".join(f"{c.name} {c.type}{' NOT NULL' * c.required}" for c in columns))
    assert isinstance(declared, StructType)
    rows = spark.read.format("delta").load(path).to(declared)
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)


def is_wider(found: Any, wanted: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_decimal(found) and pa.types.is_decimal(wanted):
        whole = found.precision - found.scale
        return bool(wanted.scale >= found.scale and wanted.precision - wanted.scale >= whole)
    return bool((found, wanted) == (pa.int32(), pa.int64()))


def same_type(found: Any, wanted: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(found))
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found))
    return bool(found == wanted)
