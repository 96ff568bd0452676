"""Parts of a value are values of their own: fields of structs, variables of lambdas, what a subquery reads."""

import pytest

from medallion.errors import MedallionError
from medallion.model.proof import Node
from medallion.model.table import Additive, ByKey, Feed, Table
from tests.proving import keyed, prove

PEOPLE = Feed(
    keys=("id",),
    schema="id BIGINT NOT NULL, n INT, xs ARRAY<INT>, address STRUCT<city: STRING, country: STRING>",
    name="bronze_people",
)
NODES: dict[str, Node] = {PEOPLE.name: PEOPLE}


def refusal(query: str, method: ByKey | Additive | None = None) -> str:
    table = Table(keys=("k",), query=query, incremental=method, name="gold_x", layer="gold")
    try:
        prove([keyed(table, NODES)], NODES)
    except MedallionError as error:
        return str(error)
    return ""


BY_CITY = "SELECT address.city AS city, address.country AS country, SUM(n) AS n FROM {bronze_people} GROUP BY ALL"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT * FROM ({BY_CITY}) AS s ORDER BY city LIMIT 3",
        f"SELECT *, ROW_NUMBER() OVER (ORDER BY s.city) AS place FROM ({BY_CITY}) AS s",
        "SELECT id, ROW_NUMBER() OVER (PARTITION BY FILTER(xs, (x, i) -> x > 1) ORDER BY FILTER(xs, (x, i) -> i > 1))"
        " AS place FROM {bronze_people}",
        "SELECT id FROM {bronze_people} ORDER BY (SELECT MAX(n) FROM {bronze_people}) LIMIT 3",
    ],
)
def test_an_order_with_ties_is_refused_whatever_part_it_goes_by(query: str) -> None:
    assert "ties" in refusal(query) or "order" in refusal(query).lower()


def test_an_order_by_every_part_is_accepted() -> None:
    assert refusal(f"SELECT * FROM ({BY_CITY}) AS s ORDER BY city, country LIMIT 3") == ""


def test_a_group_by_a_field_that_is_not_selected_is_refused() -> None:
    query = "WITH a AS ({}) SELECT * FROM a"
    both = "SELECT address.city AS k, SUM(n) AS n FROM {bronze_people} GROUP BY address.city, address.country"
    one = "SELECT address.city AS k, SUM(n) AS n FROM {bronze_people} GROUP BY address.city"
    assert "address.country" in refusal(query.replace("{}", both), Additive(("a",)))
    assert refusal(query.replace("{}", one), Additive(("a",))) == ""
