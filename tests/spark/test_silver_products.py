"""silver_products: the whole catalogue, fewer columns."""

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_every_product_is_kept_active_or_not_with_or_without_a_supplier(run: "Run") -> None:
    run(
        "silver_products",
        bronze_products=[
            {"product_id": 1, "category": "home", "brand": "Lux", "list_price": Decimal("9.99")},
            {"product_id": 2, "is_active": False},
            {"product_id": 3, "is_active": None, "supplier_id": None},
        ],
    ).gives(
        "product_id, product_name, category, brand, list_price",
        (1, "lamp", "home", "Lux", Decimal("9.99")),
        (2, "lamp", None, None, None),
        (3, "lamp", None, None, None),
    )
