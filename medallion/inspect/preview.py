"""Preview the rows that a table's query returns for the published inputs; nothing is written.

An input that is not in the release yet, such as another new table, is computed by its own query.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from medallion.errors import MedallionError, UsageError
from medallion.model.parsed_query import Schemas, parse
from medallion.model.plan import Column, declared_columns
from medallion.model.registry import Registry
from medallion.model.table import Table
from medallion.model.unknown_columns import without_braces
from medallion.model.writable_columns import require_writable_columns
from medallion.ops.releases import Release
from medallion.spark.delta_reads import read_table
from medallion.spark.plans import unknown_relation
from medallion.spark.session import explained
from medallion.sql_text import backquoted
from medallion.storage.lake import Lake, state_of
from medallion.storage.named_versions import NamedVersion, open_current

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Rows:
    """Some rows by column name, in the order of the table's keys."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Difference:
    """How the rows of a query differ from the published ones.

    inserted, deleted, changed: numbers of keys. columns: one line per changed column; rows are compared by the columns
    that both sides have. sample: differing rows by key, marked ``-`` for published rows and ``+`` for new ones.
    """

    inserted: int
    deleted: int
    changed: int
    columns: list[str] = field(default_factory=list)
    sample: Rows = field(default_factory=lambda: Rows([], []))


@dataclass(frozen=True)
class Preview:
    """The query of ``table`` over the table versions of ``release``, computed by ``spark``."""

    spark: "SparkSession"
    lake: Lake
    tables: Registry
    release: Release
    table: Table

    def rows(self, limit: int) -> Rows:
        """Return the first ``limit`` rows of the query, ordered by the table's keys."""
        with explained(f"{self.table.name} could not be computed"):
            return _collect(self._computed(self.table), self.table.keys, limit)

    def difference(self, limit: int) -> Difference:
        """Compare the query's rows with the published ones; the sample has the first ``limit`` differing rows.

        Raises UsageError if the table is not published, or was published with other keys.
        """
        name = self.table.name
        published = self.release.version_of(name)
        if published is None:
            raise UsageError(f"release {self.release.release_id} has no {name}: preview it without --diff")
        with explained(f"{name} could not be computed"):
            new, old = self._computed(self.table), self._published(published)
            types = [{f.name: f.dataType.simpleString() for f in side.schema} for side in (old, new)]
            both = [column for column in types[0] if types[0][column] == types[1].get(column)]
            if other := [key for key in self.table.keys if key not in both]:
                raise UsageError(f"{name} has another key {other[0]} now: its rows cannot be compared by key")
            columns = ", ".join(map(backquoted, both))
            return self._compare(old.selectExpr(*map(backquoted, both)), new, columns, limit, _changed_columns(*types))

    def _compare(self, old: "DataFrame", new: "DataFrame", columns: str, limit: int, notes: list[str]) -> Difference:
        computed = new.cache()  # it is read several times
        try:
            sides: dict[str, Any] = {"old": old, "new": computed}
            select_old, select_new = f"SELECT {columns} FROM {{old}}", f"SELECT {columns} FROM {{new}}"  # noqa: S608
            gone = self.spark.sql(f"{select_old} EXCEPT {select_new}", **sides)
            come = self.spark.sql(f"{select_new} EXCEPT {select_old}", **sides)
            same = " AND ".join(f"gone.{backquoted(key)} <=> come.{backquoted(key)}" for key in self.table.keys)
            pairs = f"SELECT 1 FROM {{gone}} AS gone INNER JOIN {{come}} AS come ON {same}"  # noqa: S608 (quoted)
            changed = self.spark.sql(pairs, gone=gone, come=come).count()
            both = "SELECT '-' AS side, * FROM {gone} UNION ALL SELECT '+' AS side, * FROM {come}"
            rows = self.spark.sql(both, gone=gone, come=come)
            sample = _collect(rows, self.table.keys, limit, "side DESC")
            return Difference(come.count() - changed, gone.count() - changed, changed, notes, sample)
        finally:
            computed.unpersist()

    def _computed(self, table: Table) -> "DataFrame":
        from pyspark.errors import AnalysisException

        frames: dict[str, Any] = {name: self._input(name) for name in table.inputs}
        try:
            rows = self.spark.sql(table.query, **frames)
            columns = rows.dtypes
        except AnalysisException as error:
            if (relation := unknown_relation(error)) is not None:
                raise MedallionError(without_braces(table, relation, self.tables.tables)) from None
            if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
                self._require_current_inputs(table, {name: frame.columns for name, frame in frames.items()})
            raise
        require_writable_columns(table, columns)
        return rows

    def _require_current_inputs(self, table: Table, columns: Mapping[str, Iterable[str]]) -> None:
        """Raise MedallionError if the query names a column of an input's definition that the published table lacks.

        columns: of the published inputs, by input.
        """
        schemas = Schemas(self.tables.tables)
        try:
            used = {column.name.lower() for column in parse(table.query, table.inputs).find_all(exp.Column)}
            declared = {name: used & schemas.of(name).keys() for name in columns}
        except MedallionError:  # only Spark can parse it
            return
        for name, published in columns.items():
            if lacking := sorted(declared[name] - {*map(str.lower, published)}):
                raise MedallionError(
                    f"{table.name} could not be computed: the published {name} has no {' and '.join(lacking)} yet, as"
                    " its definition changed: run medallion reprocess first, which rebuilds and publishes it"
                )

    def _input(self, name: str) -> "DataFrame":
        published, node = self.release.version_of(name), self.tables[name]
        if published is not None:
            # As in a refresh, only declared columns: a table may still have columns that are no longer declared.
            return self._published(published, None if isinstance(node, Table) else declared_columns(node))
        if not isinstance(node, Table):
            raise MedallionError(f"{self.table.name} reads {name}, which no release has: refresh an hour first")
        return self._computed(node)

    def _published(self, version: NamedVersion, columns: tuple[Column, ...] | None = None) -> "DataFrame":
        state = state_of(open_current(self.lake, version))
        return read_table(self.spark, self.lake.path(version.table), state, columns=columns)


def _collect(rows: "DataFrame", keys: tuple[str, ...], limit: int, *last: str) -> Rows:
    """Return the first ``limit`` of ``rows``, ordered by ``keys`` and then by ``last``, which is SQL."""
    order = ", ".join([*map(backquoted, keys), *last])
    records = rows.sparkSession.sql(f"SELECT * FROM {{rows}} ORDER BY {order} LIMIT {int(limit)}", rows=rows).collect()  # noqa: S608
    return Rows(rows.columns, [tuple(row) for row in records])


def _changed_columns(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Say which columns exist on one side only, or have different types."""
    notes = [f"new column {name} {kind} in every row" for name, kind in new.items() if name not in old]
    notes += [f"column {name} {kind} is gone" for name, kind in old.items() if name not in new]
    return notes + [
        f"column {name} is {new[name]}, was {kind}" for name, kind in old.items() if new.get(name, kind) != kind
    ]
