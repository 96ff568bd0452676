"""Analyse queries before any rows exist: each table is an empty frame with its columns."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medallion.model.table import Node, Table
from medallion.model.writable_columns import require_writable_columns
from medallion.spark.session import explained
from medallion.sql_text import backquoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class EmptyFrames:
    """Empty frames for the tables of ``nodes``: Bronze with its declared columns, other tables with their query's.

    The query of a table is analysed when its frame is first needed, after the queries of its inputs.
    """

    def __init__(self, spark: "SparkSession", nodes: Mapping[str, Node]) -> None:
        self._spark, self._nodes = spark, nodes
        self._types: dict[str, list[tuple[str, str]]] = {}

    def analyse(self, table: Table) -> list[tuple[str, str]]:
        """Return the columns of ``table``, each with its type.

        Raises MedallionError if Spark cannot analyse the query of the table or of one of its inputs, or if Delta could
        not write its columns.
        """
        frames: dict[str, Any] = {name: self._frame(name) for name in table.inputs}
        with explained(f"the query of {table.name} is wrong"):
            schema = self._spark.sql(table.query, **frames).schema
        columns = [(field.name, field.dataType.simpleString()) for field in schema]
        require_writable_columns(table, columns)
        return columns

    def _frame(self, name: str) -> "DataFrame":
        if name not in self._types:
            node = self._nodes[name]
            self._types[name] = (
                self.analyse(node) if isinstance(node, Table) else [(c.name, c.type) for c in node.columns]
            )
        # Not createDataFrame from a list: even for an empty one Spark would start a Python worker.
        return self._spark.range(0).selectExpr(
            *(f"CAST(NULL AS {kind}) AS {backquoted(column)}" for column, kind in self._types[name])
        )
