"""platinum_top_customers_by_region: the ten customers of each region with the highest lifetime value."""

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_a_region_has_its_ten_best_customers_and_no_eleventh(run: "Run") -> None:
    customers = [{"user_id": n, "customer_region": "north", "lifetime_value": Decimal(n)} for n in range(1, 12)]

    run("platinum_top_customers_by_region", gold_customer_ltv=customers).gives(
        "customer_region, place, user_id", *(("north", place, 12 - place) for place in range(1, 11))
    )


def test_the_lower_id_wins_a_tie(run: "Run") -> None:
    run(
        "platinum_top_customers_by_region",
        gold_customer_ltv=[{"user_id": n, "lifetime_value": Decimal("5.00")} for n in (9, 3)],
    ).gives("place, user_id", (1, 3), (2, 9))


def test_customers_without_a_region_form_one_of_their_own(run: "Run") -> None:
    run(
        "platinum_top_customers_by_region",
        gold_customer_ltv=[{"user_id": 1, "customer_region": None}, {"user_id": 2, "customer_region": "north"}],
    ).gives("customer_region, place, user_id", (None, 1, 1), ("north", 1, 2))
