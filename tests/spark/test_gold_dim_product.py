"""gold_dim_product: products of the star schema, by version."""

from datetime import datetime
from hashlib import md5
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


FIRST, SECOND = datetime(2025, 11, 3), datetime(2025, 11, 4, 12)
VERSIONS = [
    {"product_id": 7, "category": "lamps", "__START_AT": FIRST, "__END_AT": SECOND},
    {"product_id": 7, "category": "light", "__START_AT": SECOND, "__END_AT": None},
]


def test_the_first_version_also_stands_for_earlier_dates(run: "Run") -> None:
    run("gold_dim_product", silver_products_history=VERSIONS).gives(
        "product_id, category, valid_from, valid_to, is_current",
        (7, "lamps", datetime(1900, 1, 1), SECOND, False),
        (7, "light", SECOND, None, True),
    )


def test_the_key_follows_from_the_product_and_the_start_of_the_version(run: "Run") -> None:
    # 2025-11-03T00:00:00Z in microseconds
    key = md5(b"7@1762128000000000", usedforsecurity=False).hexdigest()

    run("gold_dim_product", silver_products_history=VERSIONS[:1]).gives("product_key", key)


def test_versions_of_other_products_are_no_former_versions(run: "Run") -> None:
    other = {"product_id": 8, "__START_AT": SECOND}

    run("gold_dim_product", silver_products_history=[VERSIONS[0], other]).gives(
        "product_id, valid_from", (7, datetime(1900, 1, 1)), (8, datetime(1900, 1, 1))
    )
