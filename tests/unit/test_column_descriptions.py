"""What columns mean: declared once, carried along the lineage, and told wherever a table is shown."""

from dataclasses import replace

import pytest

from medallion.errors import BadDeclaration
from medallion.inspect.column_descriptions import column_descriptions, undescribed
from medallion.inspect.column_lineage import ColumnOf
from medallion.model.table import ChangeLog, Feed, Node, Table
from tests.shop import build, registry

FEED = Feed(
    keys=("id",),
    schema="""
        id BIGINT NOT NULL COMMENT 'Identifies it, for good',
        price DECIMAL(10,2) COMMENT "The customer's price",
        note STRING
    """,
    name="bronze_things",
    doc="One row per id.",
)
SILVER = Table(
    keys=("id",),
    query="""
        WITH found AS (SELECT t.id AS thing, t.price, t.price * 2 AS twice, t.note FROM {bronze_things} AS t)
        SELECT thing AS id, price AS list_price, twice, COALESCE(note, '-') AS note FROM found
    """,
    descriptions={"twice": "Two of them"},
    name="silver_things",
    doc="One row per id.",
)


def described(*tables: Node) -> dict[str, str]:
    found = column_descriptions(build(tables))
    return {f"{column.table}.{column.column}": text for column, text in found.items()}


def test_every_column_of_the_shop_says_what_it_means() -> None:
    assert undescribed(registry(extras=True)) == []


def test_column_that_is_passed_on_means_what_it_meant_and_one_that_is_computed_does_not() -> None:
    assert described(FEED, SILVER) == {
        "bronze_things.id": "Identifies it, for good",
        "bronze_things.price": "The customer's price",
        "silver_things.id": "Identifies it, for good",
        "silver_things.list_price": "The customer's price",
        "silver_things.twice": "Two of them",
    }
    assert undescribed(build([FEED, SILVER])) == [ColumnOf("bronze_things", "note"), ColumnOf("silver_things", "note")]


def test_description_of_its_own_overrides_the_one_that_is_passed_on() -> None:
    own = replace(SILVER, descriptions={"list_price": "As in the catalogue"})
    assert described(FEED, own)["silver_things.list_price"] == "As in the catalogue"


def test_log_says_what_its_feed_says_and_what_a_change_is() -> None:
    log = ChangeLog(of="bronze_things", source_system="shop", name="bronze_things_log", doc="One row per line.")
    found = described(FEED, log)
    assert found["bronze_things_log.price"] == "The customer's price"
    assert found["bronze_things_log._line"] == "The line of the change file, from 1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"descriptions": {"price": "x"}},
            r"spark_jobs/silver/things\.py describes price, which it does not have: id, ",
        ),
        ({"descriptions": {"twice": " "}}, r"spark_jobs/silver/things\.py describes twice without one line of text"),
        ({"descriptions": {"twice": "a\nb"}}, r"spark_jobs/silver/things\.py describes twice without one line of text"),
        ({"tags": ("Stock",)}, r"spark_jobs/silver/things\.py has the tag 'Stock': tags are small letters"),
        ({"owner": "a\nb"}, r"spark_jobs/silver/things\.py has an owner that is not one line of text"),
    ],
)
def test_what_is_told_of_a_table_is_refused_where_it_cannot_be_right(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadDeclaration, match=message):
        build([FEED, replace(SILVER, **changes)])


def test_column_behind_a_star_that_is_not_there_is_refused_when_it_is_looked_up() -> None:
    star = Table(
        keys=("id",),
        query="SELECT * FROM {bronze_things}",
        descriptions={"colour": "Red or blue"},
        name="silver_things",
        doc="One row per id.",
    )
    with pytest.raises(BadDeclaration, match="silver_things describes colour, which its query does not give"):
        column_descriptions(build([FEED, star]))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, note AS twice FROM {bronze_things} UNION ALL SELECT id, price FROM {bronze_things}",
        "SELECT id, price IS DISTINCT FROM id AS twice FROM {bronze_things}",
        "SELECT DISTINCT id, price * 2 AS `twice` FROM {bronze_things}",
        'SELECT id, "it, from" AS twice /* , which */ FROM {bronze_things}',
        "SELECT 1 AS id, 2 AS twice",
    ],
)
def test_columns_are_known_in_whatever_way_a_query_names_them(query: str) -> None:
    named = build([FEED, replace(SILVER, query=query)])
    assert ColumnOf("silver_things", "twice") in column_descriptions(named)
    with pytest.raises(BadDeclaration, match="describes price, which it does not have: id, twice"):
        build([FEED, replace(SILVER, query=query, descriptions={"price": "The price"})])


@pytest.mark.parametrize("comment", ["COMMENT", "COMMENT x", "COMMENT 'it' s'", "COMMENT 'a' NOT NULL"])
def test_comment_that_is_no_text_in_quotes_is_refused(comment: str) -> None:
    with pytest.raises(BadDeclaration, match="cannot be read"):
        build([replace(FEED, schema=f"id BIGINT NOT NULL, note STRING {comment}")])
