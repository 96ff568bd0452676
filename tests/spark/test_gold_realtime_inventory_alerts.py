"""gold_realtime_inventory_alerts: the critical rows of gold_inventory_risk, as they are."""

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_only_critical_products_alert(run: "Run") -> None:
    levels = {1: "CRITICAL", 2: "WARNING", 3: "OK"}
    run(
        "gold_realtime_inventory_alerts",
        gold_inventory_risk=[
            {"product_id": i, "stock_risk_level": level, "net_revenue": Decimal("0.008766"), "units_sold": 3}
            for i, level in levels.items()
        ],
    ).gives(
        "product_id, stock_risk_level, net_revenue, gross_margin, units_sold, days_of_stock_remaining",
        (1, "CRITICAL", Decimal("0.008766"), None, 3, None),
    )
