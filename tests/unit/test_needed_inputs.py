"""What is read for some values of the key: rows that meet the conditions, with partners, and no other keys."""

from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from medallion.model.methods import ByKey, Via
from medallion.model.needs import Link, Needs, Read
from medallion.refresh.needed_inputs import NeededInputs, values_in
from medallion.refresh.plan import Target
from medallion.storage.keyed_rows import KeyedRows
from medallion.storage.lake import TableState, state_of

# Orders by customer, lines by order; the countries of the customers are in a small table.
TABLES = {
    "countries": pa.table({"country": pa.array([1, 2], pa.int64()), "name": ["here", "there"]}),
    "customers": pa.table({"customer": pa.array(range(20), pa.int64()), "lives_in": pa.array([1, 2] * 10, pa.int64())}),
    "orders": pa.table(
        {"id": pa.array(range(60), pa.int64()), "by": pa.array([n % 20 for n in range(60)], pa.int64())}
    ),
    "lines": pa.table(
        {"order": pa.array([n // 2 for n in range(120)], pa.int64()), "n": pa.array(range(120), pa.int64())}
    ),
}
BY = ByKey(
    "id",
    {"customers": Via("customer", "orders", "by"), "countries": Via("country", "customers", "lives_in")},
    {"orders": "id", "lines": "order"},
)
HERE = "\"name\" = 'here'"


def needs(condition: str = HERE, required: tuple[int, ...] = (0, 1, 2, 3)) -> Needs:
    """Return what an inner join of the four needs."""
    reads = (
        Read("orders", "", (Link("by", 1, "customer"), Link("id", 3, "order"))),
        Read("customers", "", (Link("customer", 0, "by"), Link("lives_in", 2, "country"))),
        Read("countries", condition, (Link("country", 1, "lives_in"),)),
        Read("lines", '"n" < 100', (Link("order", 0, "id"),)),
    )
    return Needs(reads, required)


@pytest.fixture
def states(tmp_path: Path) -> dict[str, TableState]:
    for name, rows in TABLES.items():
        write_deltalake(str(tmp_path / name), rows)
    return {name: state_of(DeltaTable(str(tmp_path / name))) for name in TABLES}


def read(folder: Path, states: dict[str, TableState], values: tuple[int, ...], of: Needs) -> tuple[dict[str, Any], Any]:
    """Return, by input, the first column of the rows that are read, and the values of the key that are left."""
    columns = {name: [(column, "bigint", True) for column in rows.column_names] for name, rows in TABLES.items()}
    run = SimpleNamespace(rows=KeyedRows(), columns_read=lambda _: frozenset[str]())
    proof = SimpleNamespace(columns_of=lambda name, _: columns[name], needs_of=lambda _: of)
    lake = SimpleNamespace(folder=folder.joinpath)
    target = cast(Target, SimpleNamespace(proof=proof, lake=lake, run=run))
    needed = NeededInputs(target, BY, BY.columns, [states], values)
    rows = needed.read()
    firsts = {name: sides and sides[0][TABLES[name].column_names[0]].to_pylist() for name, sides in rows.items()}
    return {name: sides and sorted(sides) for name, sides in firsts.items()}, [*needed.values]


def test_nothing_but_keys_and_paths_restricts_rows_where_needs_are_unknown(
    tmp_path: Path, states: dict[str, TableState]
) -> None:
    rows, values = read(tmp_path, states, (3, 4, 55), Needs())
    assert rows == {"orders": [3, 4, 55], "lines": [3, 3, 4, 4, 55, 55], "customers": [3, 4, 15], "countries": [1, 2]}
    assert values == [3, 4, 55]


def test_values_of_a_floating_column_restrict_nothing() -> None:
    """A join takes 0.0 for -0.0; a list of values does not."""
    rows = pa.table({"rate": pa.array([0.0, 1.5]), "n": [1, 2]})
    assert values_in([rows], "rate") is None
    assert values_in([rows], "n") == (1, 2)


def test_a_condition_on_one_input_restricts_those_that_are_joined_with_it(
    tmp_path: Path, states: dict[str, TableState]
) -> None:
    rows, values = read(tmp_path, states, (3, 4, 6, 54, 55), needs())
    # 3 and 55 are of customers there, and the lines of 54 are not needed.
    assert rows == {"orders": [4, 6], "lines": [4, 4, 6, 6], "customers": [4, 6], "countries": [1]}
    assert values == [4, 6]


def test_a_key_stays_if_its_rows_may_be_there_without_a_partner(tmp_path: Path, states: dict[str, TableState]) -> None:
    rows, values = read(tmp_path, states, (3, 4), needs(required=()))
    assert values == [3, 4]
    assert rows["orders"] == [4]


def test_no_value_is_left_if_no_row_can_matter(tmp_path: Path, states: dict[str, TableState]) -> None:
    _, values = read(tmp_path, states, (3, 5), needs())
    assert values == []
    _, values = read(tmp_path, states, (4,), needs("\"name\" = 'nowhere'"))
    assert values == []


def test_a_date_after_the_year_9999_restricts_nothing() -> None:
    days = pa.table({"day": pa.array([1, 2_932_897], pa.date32())})
    assert values_in([days.slice(0, 1)], "day") == (date(1970, 1, 2),)
    assert values_in([days], "day") is None


def test_of_two_reads_of_an_input_each_keeps_its_own_rows(tmp_path: Path, states: dict[str, TableState]) -> None:
    of = Needs(
        (*needs("").reads[:3], Read("lines", '"n" < 10', (Link("order", 0, "id"),)), Read("lines", '"n" = 40')), (4,)
    )
    rows, values = read(tmp_path, states, (3, 4, 20), of)
    assert (rows["lines"], values) == ([20], [20]), "there is no row of the second one for another key"
    rows, values = read(tmp_path, states, (3, 4, 20), Needs(of.reads))
    assert (rows["lines"], values) == ([3, 3, 4, 4, 20], [3, 4, 20]), "what either of them needs"
