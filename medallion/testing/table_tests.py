"""One table over literal rows: a test states the columns that matter, and gets the rows the query makes of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from medallion.model.registry import Registry
from medallion.model.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

Given = Mapping[str, Any]  # the columns of a row that matter


@dataclass(frozen=True)
class Found:
    """The rows a table's query gave."""

    rows: "list[Row]"

    def gives(self, columns: str, *expected: tuple[Any, ...] | Any) -> None:
        """Assert that the rows are exactly ``expected``, in any order, types and decimal scales included.

        Args:
            columns: Those that matter, with commas.
            expected: A tuple of their values for each row; for one column its value alone.
        """
        names = [name.strip() for name in columns.split(",")]
        wanted = [row if isinstance(row, tuple) else (row,) for row in expected]
        # repr tells 2 from 2.0 and 1.5 from 1.50, where == does not
        assert sorted(repr(tuple(row[n] for n in names)) for row in self.rows) == sorted(map(repr, wanted))


Run = Callable[..., Found]


@dataclass
class TableTests:
    """Runs queries of ``tables`` over rows that are given.

    defaults: what a row has in columns that its test does not state; null in all others.
    """

    spark: "SparkSession"
    tables: Registry
    defaults: Mapping[str, Any] = field(default_factory=dict)
    _schemas: "dict[str, StructType]" = field(default_factory=dict)

    def schema(self, name: str) -> "StructType":
        """Return a table's columns: as declared for one that is fed, found by its query over nothing for another."""
        if name not in self._schemas:
            self._schemas[name] = self._find_schema(name)
        return self._schemas[name]

    def run(self, name: str, **inputs: Iterable[Given]) -> Found:
        """Return what the query of ``name`` makes of rows: ``run("silver_visits", bronze_visits=[{"visit_id": 7}])``.

        An input that is not given is empty.
        """
        table = self.tables[name]
        assert isinstance(table, Table), f"{name} is fed from the source: it has no query to run"
        unread = set(inputs) - set(table.inputs)
        assert not unread, f"{name} does not read {', '.join(sorted(unread))}: it reads {', '.join(table.inputs)}"
        frames: dict[str, Any] = {source: self._frame(source, inputs.get(source, ())) for source in table.inputs}
        return Found(self.spark.sql(table.query, **frames).collect())

    def _find_schema(self, name: str) -> "StructType":
        from pyspark.sql.types import StructField, StructType

        table = self.tables[name]
        if not isinstance(table, Table):
            declared = StructType.fromDDL(", ".join(f"{column.name} {column.type}" for column in table.columns))
            assert isinstance(declared, StructType)
            return declared
        nothing: dict[str, Any] = {
            source: self.spark.createDataFrame([], self.schema(source)) for source in table.inputs
        }
        fields = self.spark.sql(table.query, **nothing).schema
        # stored tables promise no value, so a test may leave any column out
        return StructType([StructField(field.name, field.dataType) for field in fields])

    def _frame(self, name: str, rows: Iterable[Given]) -> "DataFrame":
        rows, columns = [*rows], self.schema(name)
        unknown = {column for row in rows for column in row} - set(columns.names)
        assert not unknown, f"{name} has no column {', '.join(sorted(unknown))}: it has {', '.join(columns.names)}"
        values = [tuple({**self.defaults, **row}.get(column) for column in columns.names) for row in rows]
        return self.spark.createDataFrame(values, columns)
