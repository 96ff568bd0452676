"""Schema evolution: bring a Bronze table to the columns that its feed declares."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medallion.errors import MedallionError
from medallion.ingest.arrow_types import arrow_type, is_wider, same_type
from medallion.ingest.row_decoder import shown_name
from medallion.model.columns import Column
from medallion.model.table import ChangeLog, Feed
from medallion.storage.deletion_vectors import may_have_vectors
from medallion.storage.delta_writes import identifier, properties
from medallion.storage.foreign_commits import require_ours, stamped
from medallion.storage.lake import Lake
from medallion.storage.replaced_rows import bronze_metadata
from medallion.storage.table_features import (
    features_for_spark,
    note_of,
    require_known_features,
    require_writable_here,
    unreadable_here,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from medallion.spark.sessions import Sessions


def arrow_schema(columns: Iterable[Column]) -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([pa.field(c.name, arrow_type(c), nullable=not c.required) for c in columns])


@dataclass(frozen=True)
class Evolution:
    """The changes that give a table its declared columns.

    new: columns to add, which are null in existing rows. widened: columns whose type is widened. nullable: columns that
    lose NOT NULL. undeclared: columns that the table keeps although they are no longer declared; they are null in new
    rows.
    """

    new: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()
    nullable: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()


def plan_evolution(table: Feed | ChangeLog, delta: "DeltaTable") -> Evolution:
    """Plan the changes that give ``delta`` the columns that ``table`` declares; nothing is changed.

    Raises MedallionError for other keys, a type that cannot hold the values, a new column that is NOT NULL, and for
    NOT NULL on a column that is null in some row.
    """
    import pyarrow as pa

    _require_same_keys(table, delta)
    fields = {f.name: f for f in pa.schema(delta.schema().to_arrow())}
    declared = {c.name: c for c in table.columns}
    new = tuple(c for c in table.columns if c.name not in fields)
    if required := [c.name for c in new if c.required]:
        raise MedallionError(f"cannot add NOT NULL column {required[0]} to {table.name}: existing rows have no value")
    known = [c for c in table.columns if c.name in fields]
    other = tuple(c for c in known if not same_type(fields[c.name].type, arrow_type(c)))
    if unfit := [c for c in other if not is_wider(fields[c.name].type, arrow_type(c))]:
        column = unfit[0]
        raise MedallionError(
            f"{table.name} has {column.name} as {fields[column.name].type}, which does not fit into {column.type}:"
            " declare a wider type, or load a new lake"
        )
    for column in known:
        if column.required and fields[column.name].nullable and (nulls := _count_nulls(delta, column.name)):
            raise MedallionError(
                f"{column.name} of {table.name} cannot be NOT NULL: {nulls:,} rows have no value; declare it without"
            )
    nullable = (n for n, f in fields.items() if not f.nullable and not (n in declared and declared[n].required))
    return Evolution(new, other, tuple(nullable), tuple(name for name in fields if name not in declared))


def require_evolvable(lake: Lake, tables: Iterable[Feed | ChangeLog]) -> list[str]:
    """Return a warning for each column that a table keeps although it is no longer declared, and other notes.

    Raises, before anything is applied, MedallionError if one of ``tables`` cannot be brought to its declaration,
    ChangedByOthers if somebody else has changed one.
    """
    notes = []
    for table in tables:
        if (delta := lake.open(lake.path(table.name))) is not None:
            require_ours(lake, table.name, delta.version(), has_hours=isinstance(table, Feed))
            require_known_features(table.name, lake.path(table.name), delta)
            if isinstance(table, ChangeLog):
                require_writable_here(table.name, lake.path(table.name), delta)
            elif note := note_of(delta):
                notes.append(f"{table.name} is {note}")
            undeclared = plan_evolution(table, delta).undeclared
            if isinstance(table, Feed):  # a log would repeat the warnings of its table
                notes += [
                    f"{table.name} keeps the column {shown_name(name)}, which is not declared any more: it is null in"
                    " rows that are inserted or updated"
                    for name in undeclared
                ]
    return notes


def evolve(sessions: "Callable[[], Sessions]", lake: Lake, table: Feed | ChangeLog, delta: "DeltaTable") -> Evolution:
    """Bring a table to its declared columns: add new ones, drop NOT NULL, rewrite the table if a type was widened.

    delta: the opened table, which is updated to the new version. Raises as plan_evolution does.
    """
    from deltalake import Schema

    evolution = plan_evolution(table, delta)
    path = lake.path(table.name)
    if evolution.new:
        fields = Schema.from_arrow(arrow_schema(evolution.new)).fields
        if features_for_spark(delta):
            _alter(sessions(), table.name, path, f"ADD COLUMNS ({_columns(evolution.new)})", delta)
        else:
            delta.alter.add_columns(fields, commit_properties=properties(upon=delta))
    if evolution.nullable:
        _drop_not_null(sessions(), table.name, path, evolution.nullable, delta)
    if evolution.widened:
        _rewrite(sessions().full, path, table.columns, delta)
        delta.update_incremental()
    return evolution


def _drop_not_null(sessions: "Sessions", table: str, path: str, columns: Iterable[str], delta: "DeltaTable") -> None:
    for name in columns:
        _alter(sessions, table, path, f"ALTER COLUMN {name} DROP NOT NULL", delta)


def _alter(sessions: "Sessions", table: str, path: str, change: str, delta: "DeltaTable") -> None:
    # The metadata of an ALTER TABLE commit is a setting of its session.
    metadata = {"spark.databricks.delta.commitInfo.userMetadata": stamped(None, delta)}
    sessions.for_table(table, metadata).sql(f"ALTER TABLE {identifier(path)} {change}")
    delta.update_incremental()


def _columns(columns: Iterable[Column]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def _require_same_keys(table: Feed | ChangeLog, delta: "DeltaTable") -> None:
    """Raise MedallionError for other keys than those that rows were merged by: rows would be duplicated or lost."""
    if isinstance(table, ChangeLog):
        return
    keys = ", ".join(table.keys)
    loaded = keys_in(delta, len(table.keys))
    if loaded not in (None, keys):
        raise MedallionError(
            f"{table.name} was loaded with the keys {loaded}, not {keys}: its rows cannot be merged by other keys;"
            " declare those, or load a new lake"
        )


def description(feed: Feed) -> str:
    """Return the description of a feed's Delta table, which ends with the keys it is merged by."""
    return f"{feed.doc} Keys: {', '.join(feed.keys)}"


def keys_in(delta: "DeltaTable", number: int) -> str | None:
    """Return the keys that a Bronze table was loaded with, according to its description; None if they are unknown.

    number: of declared keys. The description of an older table lacks the keys: they are then the first columns with
    statistics.
    """
    metadata = delta.metadata()
    _, described, keys = (metadata.description or "").rpartition("Keys: ")
    if described:
        return str(keys)
    columns = metadata.configuration.get("delta.dataSkippingStatsColumns", "").split(",")
    return ", ".join(columns[:number]) or None


def _count_nulls(delta: "DeltaTable", column: str) -> int:
    import pyarrow.compute as pc

    if unreadable_here(delta) or may_have_vectors(delta):
        from deltalake import QueryBuilder

        query = f"SELECT COUNT(*) FROM t WHERE {column} IS NULL"  # noqa: S608 (of declared column names)
        rows = QueryBuilder().register("t", delta).execute(query).read_all()
        return int(rows.column(0)[0].as_py())
    return int(delta.to_pyarrow_dataset().count_rows(filter=pc.field(column).is_null()))


def _rewrite(spark: "SparkSession", path: str, columns: Iterable[Column], delta: "DeltaTable") -> None:
    """Write the whole table with the declared types, in one commit; other columns and the ledger entry stay."""
    from pyspark.sql.types import StructField, StructType

    rows = spark.read.format("delta").load(path)
    declared = StructType.fromDDL(", ".join(f"{c.name} {c.type}{' NOT NULL' * c.required}" for c in columns))
    assert isinstance(declared, StructType)
    own = {field.name: field for field in declared}
    schema = StructType([own.get(f.name, StructField(f.name, f.dataType, True)) for f in rows.schema])
    written = rows.to(schema).write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    written.option("userMetadata", stamped(bronze_metadata(None, "rewrite"), delta)).save(path)
