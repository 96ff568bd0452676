"""State plus the difference that a change makes is the state of after: TPC-H's queries, by DuckDB alone.

What is kept, over which keys and paths, is what ``refresh.lock`` has; DuckDB follows the changes and computes pieces.
"""

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import sqlglot

from medallion.model.kept_text import counters_of, group_names, inputs_of, relation_text, state_text, view_text
from medallion.model.methods import ByKey, Kept, KeptPart
from medallion.model.refresh_lock import read_lock
from tests.shop import PROJECT

EXAMPLE = PROJECT / "examples" / "tpch"
LOCK = read_lock(EXAMPLE / "refresh.lock")
KEPT = {name: entry.method for name, entry in LOCK.entries.items() if isinstance(entry.method, Kept)}


def in_duckdb(text: str, **names: str) -> str:
    """A text of Spark over tables called otherwise."""
    read = {name: f"__{name}__" for name in inputs_of(text)}
    (sql,) = sqlglot.transpile(text.format_map(read), read="spark", write="duckdb")
    sql = sql.replace("GENERATE_SERIES(1, _rows)", "GENERATE_SERIES(1, CAST(_rows AS BIGINT))")
    for name, marked in read.items():
        sql = sql.replace(marked, names[name])
    return re.sub(r"RAISE_ERROR\(", "ERROR(", sql)


@pytest.fixture(scope="module")
def connection() -> Iterator[Any]:
    """The tables before and after two hours, in schemas of these names, and in ``changed`` what differs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        from tpch_source.data import TABLES, change_hour, tpch

        with tpch(0.01) as found:
            for schema in ("before", "after", "changed"):
                found.execute(f"CREATE SCHEMA {schema}")
            for table in TABLES:
                found.execute(f"CREATE TABLE before.bronze_{table} AS FROM main.{table}")
            for number in (1, 2):
                change_hour(found, number)
            for table in TABLES:
                name = f"bronze_{table}"
                found.execute(f"CREATE TABLE after.{name} AS FROM main.{table}")
                gone, new = (
                    f"(FROM {a}.{name} EXCEPT ALL FROM {b}.{name})"
                    for a, b in (("before", "after"), ("after", "before"))
                )
                found.execute(f"CREATE TABLE changed.{name} AS FROM {gone} UNION ALL FROM {new}")
                found.execute(f"CREATE TABLE changed.gone_{name} AS FROM {gone}")
                found.execute(f"CREATE TABLE changed.new_{name} AS FROM {new}")
            yield found


def keys_of(by: ByKey, name: str, rows: str) -> list[str]:
    """Queries of the values of the key that rows of an input have or lead to."""
    if name in by.columns:
        return [f"SELECT {by.columns[name]} FROM ({rows})"]
    return [
        query
        for way in by.via[name].ways
        for query in keys_of(
            by,
            way.through,
            f"FROM after.{way.through} WHERE {way.as_column} IN (SELECT {way.column} FROM ({rows}))",
        )
    ]


def sides_of(part: KeptPart, connection: Any) -> tuple[str, str]:
    """What the touched rows give, before and after."""
    names, by = inputs_of(relation_text(part)), part.by
    if by is None:
        (name,) = names
        return tuple(in_duckdb(state_text(part), **{name: f"changed.{side}_{name}"}) for side in ("gone", "new"))  # type: ignore[return-value]
    touched = " UNION ".join(query for name in names for query in keys_of(by, name, f"FROM changed.{name}"))
    connection.execute(f"CREATE OR REPLACE TABLE touched AS {touched}")
    sides = []
    for schema in ("before", "after"):
        for name in names:
            where = f" WHERE {by.columns[name]} IN (FROM touched)" if name in by.columns else ""
            connection.execute(f"CREATE OR REPLACE TABLE {schema}_{name} AS FROM {schema}.{name}{where}")
        sides.append(in_duckdb(state_text(part), **{name: f"{schema}_{name}" for name in names}))
    return sides[0], sides[1]


def rows_of(connection: Any, query: str) -> list[tuple[Any, ...]]:
    plain = [
        tuple(float(value) if isinstance(value, Decimal) else value for value in row)
        for row in connection.execute(query).fetchall()
    ]
    return sorted(plain, key=lambda row: [f"{v:.6g}" if isinstance(v, float) else str(v) for v in row])


@pytest.mark.parametrize("table", sorted(KEPT))
def test_state_and_difference_give_the_rows_of_the_query(table: str, connection: Any) -> None:
    method = KEPT[table]
    for part in method.parts:
        older, newer = sides_of(part, connection)
        groups, counters = group_names(part), [name for name, _ in counters_of(part)]
        names = inputs_of(relation_text(part))
        whole = in_duckdb(state_text(part), **{name: f"before.{name}" for name in names})
        rows = " UNION ALL ".join(
            f"SELECT {', '.join([*groups, *(f'{sign}COALESCE({c}, 0) AS {c}' for c in counters)])} FROM ({side})"
            for sign, side in (("", whole), ("-", older), ("", newer))
        )
        sums = ", ".join([*groups, *(f"COALESCE(SUM({c}), 0) AS {c}" for c in counters)])
        by = f" GROUP BY {', '.join(groups)}" if groups else ""
        connection.execute(f"CREATE OR REPLACE TABLE state AS SELECT {sums} FROM ({rows}){by}")
        connection.execute(f"CREATE OR REPLACE TABLE {part.name} AS {in_duckdb(view_text(part), state='state')}")
    after = {name: f"after.{name}" for name in inputs_of(method.rest)} | {part.name: part.name for part in method.parts}
    module = (EXAMPLE / "spark_jobs" / "gold" / f"{table.removeprefix('gold_')}.py").read_text(encoding="utf-8")
    query = module.partition('query="""')[2].partition('"""')[0]
    found = rows_of(connection, in_duckdb(method.rest, **after))
    wanted = rows_of(connection, in_duckdb(query, **{name: f"after.{name}" for name in inputs_of(query)}))
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            same = math.isclose(one, other, rel_tol=1e-9) if isinstance(one, float) else str(one) == str(other)
            assert same, (ours, theirs)


def test_most_of_tpch_is_kept_by_key() -> None:
    assert len(KEPT) >= 21, json.dumps(sorted(KEPT))
