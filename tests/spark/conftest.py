"""One table over literal rows: a test states the columns that matter, and gets the rows the query makes of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructField, StructType

from medallion.model.table import Feed, Log
from tests.shop import registry

# What a row has in the columns its test does not state, null elsewhere: it passes every filter and meets every join.
MONDAY = datetime(2025, 11, 3)
DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("order_id", "order_item_id", "user_id", "customer_id", "product_id", "supplier_id"), 1),
    **dict.fromkeys(("event_id", "inventory_event_id", "warehouse_id"), 1),
    **dict.fromkeys(("created_at", "updated_at", "ingested_at", "event_timestamp", "order_created_at"), MONDAY),
    "order_status": "delivered",
    "order_total": Decimal("10.00"),
    "quantity": 1,
    "unit_price": Decimal("10.00"),
    "product_name": "lamp",
    "is_active": True,
    "supplier_name": "Acme",
    "customer_tier": "standard",
}


@dataclass(frozen=True)
class Found:
    """The rows a table's query gave."""

    rows: list[Row]

    def gives(self, columns: str, *expected: tuple[Any, ...] | Any) -> None:
        """The rows are exactly ``expected`` in these ``columns``, in any order, types and decimal scales included."""
        names = columns.split(", ")
        wanted = [row if isinstance(row, tuple) else (row,) for row in expected]
        # repr tells 2 from 2.0 and 1.5 from 1.50, where == does not
        assert sorted(repr(tuple(row[n] for n in names)) for row in self.rows) == sorted(map(repr, wanted))


Given = Mapping[str, Any]
Run = Callable[..., Found]
Schema = Callable[[str], StructType]


@pytest.fixture(scope="session")
def schema(spark: SparkSession) -> Schema:
    """A table's columns by its name: declared in Bronze, found by running the query over nothing above it."""

    @cache
    def of(name: str) -> StructType:
        table = registry(extras=True)[name]
        if isinstance(table, Feed | Log):
            return StructType.fromDDL(", ".join(f"{column.name} {column.type}" for column in table.columns))
        nothing = {source: spark.createDataFrame([], of(source)) for source in table.inputs}
        fields = spark.sql(table.query, **nothing).schema
        # stored tables promise no value, so a test may leave any column out
        return StructType([StructField(field.name, field.dataType) for field in fields])

    return of


@pytest.fixture(scope="session")
def run(spark: SparkSession, schema: Schema) -> Run:
    """``run("silver_products", bronze_products=[{"product_id": 7}])``: what the query makes of these rows.

    An input that is not given is empty.
    """

    def frame(name: str, rows: Iterable[Given]) -> DataFrame:
        columns = schema(name)
        unknown = {column for row in rows for column in row} - set(columns.names)
        assert not unknown, f"{name} has no column {unknown}"
        return spark.createDataFrame([tuple((DEFAULTS | row).get(c) for c in columns.names) for row in rows], columns)

    def of(name: str, **inputs: Iterable[Given]) -> Found:
        table = registry(extras=True)[name]
        unread = set(inputs) - set(table.inputs)
        assert not unread, f"{name} does not read {unread}"
        frames = {source: frame(source, inputs.get(source, ())) for source in table.inputs}
        return Found(spark.sql(table.query, **frames).collect())

    return of
