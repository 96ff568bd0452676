"""silver_products_history: a version of a product for each period without changes."""

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


FIRST, SECOND, THIRD = (datetime(2025, 11, day) for day in (1, 2, 3))


def line(number: int, at: datetime, price: str, *, deleted: bool = False) -> dict[str, object]:
    """A change of product 7: of the snapshot, or in the file of hour 2025-11-05T00 where it was deleted."""
    return {
        "product_id": 7,
        "list_price": Decimal(price),
        "updated_at": at,
        "_line": number,
        "_source_file": "f",
        "_deleted": deleted,
        "_hour": datetime(2025, 11, 5) if deleted else None,
    }


def test_a_version_lasts_until_a_column_changes(run: "Run") -> None:
    run(
        "silver_products_history",
        bronze_products_log=[line(1, FIRST, "1.00"), line(2, SECOND, "1.00"), line(3, THIRD, "2.00")],
    ).gives(
        "product_id, list_price, __START_AT, __END_AT",
        (7, Decimal("1.00"), FIRST, THIRD),
        (7, Decimal("2.00"), THIRD, None),
    )


def test_a_deleted_product_has_a_version_that_ends_with_the_hour_of_its_deletion(run: "Run") -> None:
    run(
        "silver_products_history",
        bronze_products_log=[line(1, FIRST, "1.00"), line(2, FIRST, "1.00", deleted=True)],
    ).gives("product_id, __START_AT, __END_AT", (7, FIRST, datetime(2025, 11, 5, 1)))
