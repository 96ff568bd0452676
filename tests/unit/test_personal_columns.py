"""Persons in declarations: what is refused, and which columns above Bronze tell of them."""

from typing import Any

import pytest

from medallion import no_personal_columns
from medallion.errors import MedallionError
from medallion.inspect.column_lineage import ColumnOf
from medallion.inspect.personal_columns import personal_columns, require_no_personal_columns, subject_columns
from medallion.model.registry import Registry
from medallion.model.table import Feed, Table
from tests.shop import build, registry

ORDERS = "id BIGINT NOT NULL, user_id BIGINT, email STRING, total INT NOT NULL, place STRUCT<x: INT>"


def feed(name: str = "bronze_orders", schema: str = ORDERS, **declared: Any) -> Feed:
    return Feed(keys=("id",), schema=schema, name=name, doc="One row per id.", **declared)


def table(query: str, **declared: Any) -> Table:
    return Table(keys=("id",), query=query, name="silver_orders", layer="silver", doc="One row per id.", **declared)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"subject": "buyer"}, "declares buyer as personal, which is no column of its schema"),
        ({"subject": "user_id", "personal": ("phone",)}, "declares phone as personal, which is no column"),
        ({"subject": "user_id", "erase": "hide"}, "declares erase='hide': it is 'delete' or 'blank'"),
        ({"subject": "id", "erase": "blank"}, "blanks id, which must have a value"),
        ({"subject": "user_id", "personal": ("total",), "erase": "blank"}, "blanks total, which must have a value"),
        ({"subject": "place"}, "a person is named by a whole number or a STRING"),
        ({"personal": ("email",)}, "declares what is personal and no subject"),
        ({"subject": "id", "subject_of": "bronze_users"}, "declares subject_of='bronze_users', which is no feed with"),
        ({"subject": "id", "subject_of": "bronze_orders"}, "declares a subject that leads back to itself"),
    ],
)
def test_feed_is_refused_when_a_person_could_not_be_erased_as_declared(declared: dict[str, Any], why: str) -> None:
    with pytest.raises(MedallionError, match=why) as refused:
        build([feed(**declared)])
    assert "spark_jobs/bronze/orders.py" in str(refused.value)


def orders_and(query: str, **declared: Any) -> Registry:
    return build([feed(subject="user_id", personal=("email",), erase="blank"), table(query, **declared)])


@pytest.mark.parametrize(
    ("expression", "is_personal"),
    [
        ("email", True),
        ("LOWER(email)", True),
        ("MAX(email)", True),
        ("COALESCE(email, 'none')", True),
        ("CASE WHEN total > 1 THEN email END", True),
        ("MAX(email) OVER (PARTITION BY total)", True),
        ("COUNT(email)", False),
        ("COUNT(DISTINCT user_id)", False),
        ("SUM(user_id)", False),
        ("email IS NULL", False),
        ("CASE WHEN email LIKE '%@x' THEN 1 ELSE 0 END", False),
        ("ROW_NUMBER() OVER (PARTITION BY email ORDER BY total)", False),
        ("total", False),
    ],
)
def test_column_is_personal_when_values_of_a_personal_one_show_in_it(expression: str, is_personal: bool) -> None:
    group = " GROUP BY id" if expression.startswith(("COUNT", "SUM", "MAX(email)")) and "OVER" not in expression else ""
    tables = orders_and(f"SELECT id, {expression} AS found FROM {{bronze_orders}}{group}")
    assert (ColumnOf("silver_orders", "found") in personal_columns(tables)) is is_personal


def test_promise_of_no_personal_columns_names_column_and_origin_when_broken() -> None:
    query = "WITH o AS (SELECT id, email AS contact FROM {bronze_orders}) SELECT id, contact FROM o"
    with pytest.raises(MedallionError, match=r"silver_orders .* contact is copied from bronze_orders\.email"):
        require_no_personal_columns(orders_and(query, expect=(no_personal_columns(),)), {})
    require_no_personal_columns(orders_and(query), {})
    with pytest.raises(MedallionError, match="contact"):  # of a suite
        require_no_personal_columns(orders_and(query), {"silver_orders": (no_personal_columns(),)})


def test_personal_columns_of_the_shop_reach_gold_by_copies_alone() -> None:
    tables = registry(extras=True)
    personal = personal_columns(tables)
    assert personal[ColumnOf("gold_dim_customer", "email")] == {ColumnOf("bronze_customers", "email")}
    assert ColumnOf("silver_orders_enriched", "coupon_code") in personal
    assert ColumnOf("silver_order_items_enriched", "user_id") in subject_columns(tables)
    assert not [column for column in personal if column.table in {"gold_daily_orders", "gold_revenue_by_region"}]
