"""The engine of the Feldera that stands in for the real one: its SQL and its rules for rows, computed by DuckDB.

DuckDB computes as Spark does where Feldera does not, so what differs is written out here: weeks that begin on Sunday,
sums and averages of the type of their values, integer division, casts that cut, GREATEST with a null, runtime errors.
"""

import json
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from bench.feldera.program import FelderaSQL

WHOLE = exp.DataType.INTEGER_TYPES
FLOAT = {exp.DataType.Type.DOUBLE, exp.DataType.Type.FLOAT}
LIMITS = {"INT": 2**31, "BIGINT": 2**63}
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d+)?|T\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d))")


class SqlError(Exception):
    """What the compiler refuses."""


class Engine:
    """Tables that changes go into, and views that are computed in steps."""

    def __init__(self, program: str) -> None:
        self.connection = duckdb.connect()
        self.columns: dict[str, dict[str, Column]] = {}
        self.keys: dict[str, tuple[str, ...]] = {}
        self.views: dict[str, str] = {}
        self.types: dict[str, dict[str, str]] = {}
        for statement in sqlglot.parse(program, read=FelderaSQL):
            assert isinstance(statement, exp.Create)
            self._refuse(statement)
            try:
                (self._table if statement.kind == "TABLE" else self._view)(statement)
            except (duckdb.Error, SqlglotError) as error:
                raise SqlError(str(error)) from None

    @staticmethod
    def _refuse(statement: exp.Create) -> None:
        for node in statement.walk():
            if isinstance(node, exp.DataType) and node.this in {
                exp.DataType.Type.TIMESTAMPTZ,
                exp.DataType.Type.TIMESTAMPLTZ,
            }:
                raise SqlError("TIMESTAMP has no time zone")
            if isinstance(node, exp.TryCast):
                raise SqlError("No match found for function signature TRY_CAST")
            if isinstance(node, exp.DateTrunc | exp.TimestampTrunc) and isinstance(node.this, exp.Literal):
                raise SqlError(f"{node.this.name} is no date: DATE_TRUNC takes a date and a unit")

    def _table(self, statement: exp.Create) -> None:
        table = statement.find(exp.Table).name
        columns = list(statement.find_all(exp.ColumnDef))
        self.columns[table] = {column.name: Column.of(column) for column in columns}
        self.keys[table] = tuple(one.name for one in statement.find(exp.PrimaryKey).expressions)
        self.types[table] = {column.name: column.kind.sql("duckdb") for column in columns}
        statement.find(exp.PrimaryKey).pop()  # DuckDB's index of it refuses to delete and insert in one go
        self.connection.execute(statement.sql("duckdb"))

    def _view(self, statement: exp.Create) -> None:
        name = statement.find(exp.Table).name
        query = _for_duckdb(statement.expression.sql(FelderaSQL), json.dumps(self.types))
        self.connection.execute(f"CREATE TABLE {name} AS {query}")
        described = self.connection.execute(f"DESCRIBE {name}").fetchall()
        self.types[name] = {column: kind for column, kind, *_ in described}
        assert "HUGEINT" not in self.types[name].values(), "a type that the real one does not have"
        self.views[name] = query

    def step(self) -> None:
        """Compute all views. Raises duckdb.Error as the pipeline would end."""
        for name, query in self.views.items():
            self.connection.execute(f"DELETE FROM {name}")
            self.connection.execute(f"INSERT INTO {name} {query}")

    def clear(self) -> None:
        for name in (*self.views, *self.columns):
            self.connection.execute(f"DELETE FROM {name}")

    def take(self, table: str, lines: list[bytes]) -> list[dict[str, Any]]:
        """Take in the lines that can be read; what is wrong with the others."""
        errors = []
        latest: dict[tuple[Any, ...], dict[str, Any] | None] = {}  # by key, the last one wins
        for number, line in enumerate(lines, 1):
            try:
                key, row = self._change(table, line)
            except (ValueError, KeyError, TypeError, InvalidOperation, AttributeError) as error:
                errors.append({"event_number": number, "description": f"{error}", "tag": line.decode()[:80]})
            else:
                latest[key] = row
        self._merge(table, latest)
        return errors

    def _change(self, table: str, line: bytes) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
        """The key of a change, and the row that is there after it."""
        ((operation, row),) = json.loads(line, parse_float=float).items()  # as it reads numbers with a fraction
        if operation not in {"insert", "delete"}:
            raise ValueError(f"unknown operation {operation}")
        columns, keys = self.columns[table], self.keys[table]
        wanted = keys if operation == "delete" else tuple(columns)
        values = {name: columns[name].value(row.get(name)) for name in wanted}
        return tuple(values[key] for key in keys), values if operation == "insert" else None

    def _merge(self, table: str, latest: dict[tuple[Any, ...], dict[str, Any] | None]) -> None:
        if not latest:
            return
        schema = self.connection.execute(f"SELECT * FROM {table} LIMIT 0").to_arrow_table().schema
        keys = self.keys[table]
        gone = pa.Table.from_pylist(
            [dict(zip(keys, key, strict=True)) for key in latest], pa.schema([schema.field(key) for key in keys])
        )
        come = pa.Table.from_pylist([row for row in latest.values() if row is not None], schema)
        for name, rows in (("gone", gone), ("come", come)):
            self.connection.register(name, rows)
        on = " AND ".join(f"{table}.{key} = gone.{key}" for key in keys)
        self.connection.execute(f"DELETE FROM {table} USING gone WHERE {on}")
        self.connection.execute(f"INSERT INTO {table} SELECT * FROM come")


@dataclass(frozen=True)
class Column:
    """A column of a table, and how a value of a line becomes one of it."""

    name: str
    kind: str
    digits: tuple[int, ...]
    required: bool

    @classmethod
    def of(cls, column: exp.ColumnDef) -> "Column":
        digits = tuple(int(one.name) for one in column.kind.expressions)
        return cls(column.name, column.kind.this.name, digits, column.find(exp.NotNullColumnConstraint) is not None)

    def value(self, value: Any) -> Any:
        """The value as the table takes it; ValueError or TypeError where it cannot be read."""
        if value is None:
            if self.required:
                raise ValueError(f"null for the column {self.name}, which is not null")
            return None
        wanted = {"BOOLEAN": bool, "INT": int, "BIGINT": int, "DECIMAL": (int, float, str)}.get(self.kind, str)
        if not isinstance(value, wanted) or (isinstance(value, bool) and self.kind != "BOOLEAN"):
            raise TypeError(f"{self.name}: invalid type of {value!r}")
        if self.kind in LIMITS and not -LIMITS[self.kind] <= value < LIMITS[self.kind]:
            raise ValueError(f"{self.name}: {value} is out of range")
        match self.kind:
            case "DECIMAL":
                precision, scale = self.digits
                number = Decimal(str(value))
                number = number.quantize(Decimal(1).scaleb(-scale), ROUND_DOWN if isinstance(value, str) else None)
                if abs(number) >= 10 ** (precision - scale):
                    raise ValueError(f"{self.name}: {value} does not fit DECIMAL({precision}, {scale})")
                return number
            case "DATE":
                return date.fromisoformat(value)
            case "TIMESTAMP":
                if not TIMESTAMP.fullmatch(value):
                    raise ValueError(f"{self.name}: {value!r} is no timestamp")
                moment = datetime.fromisoformat(value)
                return moment.replace(tzinfo=None) - (moment.utcoffset() or timedelta())
        return value


@cache
def _for_duckdb(query: str, types: str) -> str:
    schema = json.loads(types)
    typed = qualify(sqlglot.parse_one(query, read=FelderaSQL), schema=schema, dialect=FelderaSQL)
    return annotate_types(typed, schema=schema, dialect=FelderaSQL).transform(_as_duckdb).sql("duckdb")


def _as_duckdb(node: exp.Expr) -> exp.Expr:
    """Write out for DuckDB what Feldera computes otherwise."""
    day = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="DAY"))
    match node:
        case exp.TimestampTrunc() if node.unit.name.upper() == "WEEK":
            cut = exp.func("DATE_TRUNC", exp.Literal.string("week"), exp.paren(node.this + day), dialect="duckdb")
            return exp.paren(exp.Sub(this=cut, expression=day.copy()))
        case exp.Sum() if node.this.is_type(*WHOLE) and not isinstance(node.parent, exp.Filter | exp.Window):
            return exp.cast(node.copy(), node.this.type)
        case exp.Filter() | exp.Window() if isinstance(node.this, exp.Sum) and node.this.this.is_type(*WHOLE):
            return exp.cast(node.copy(), node.this.this.type)
        case exp.Avg() if not node.this.is_type(*FLOAT):
            return _cut(node.copy(), node.this.type)
        case exp.Div() if not (node.this.is_type(*FLOAT) or node.expression.is_type(*FLOAT)):
            whole = node.this.is_type(*WHOLE) and node.expression.is_type(*WHOLE)
            divided = exp.IntDiv(this=node.this, expression=node.expression) if whole else node.copy()
            zero = exp.EQ(this=exp.paren(node.expression.copy()), expression=exp.Literal.number(0))
            return exp.case().when(zero, exp.func("ERROR", exp.Literal.string("Division by zero"))).else_(divided)
        case exp.Greatest() | exp.Least():
            null = exp.or_(*(one.copy().is_(exp.null()) for one in (node.this, *node.expressions)))
            return exp.case().when(null, exp.null()).else_(node.copy())
        case exp.Cast() if node.this.is_type("DECIMAL", *FLOAT) and node.to.is_type("DECIMAL", *WHOLE):
            return _cut(node.this, node.to)
    return node


def _cut(value: exp.Expr, kind: exp.DataType) -> exp.Expr:
    """A cast that drops digits and does not round them."""
    scale = int(kind.expressions[1].name) if kind.is_type("DECIMAL") and kind.expressions else 0
    step = exp.Literal.number(10**scale)
    return exp.cast(exp.func("TRUNC", exp.paren(value) * step) / exp.cast(step.copy(), "DOUBLE"), kind)
