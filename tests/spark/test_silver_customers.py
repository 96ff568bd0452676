"""silver_customers: the four known tiers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_only_customers_of_the_four_known_tiers_are_kept(run: "Run") -> None:
    tiers = ["standard", "silver", "gold", "platinum", "bronze", "Gold", "", None]
    run(
        "silver_customers",
        bronze_customers=[{"customer_id": i, "customer_tier": tier} for i, tier in enumerate(tiers)],
    ).gives("customer_id, customer_tier", (0, "standard"), (1, "silver"), (2, "gold"), (3, "platinum"))


def test_a_customer_needs_nothing_but_a_tier(run: "Run") -> None:
    run("silver_customers", bronze_customers=[{"customer_id": 7}]).gives(
        "customer_id, email, signup_date, geo_country, geo_region", (7, None, None, None, None)
    )
