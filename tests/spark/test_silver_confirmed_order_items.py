"""silver_confirmed_order_items: what was sold and not taken back."""

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_cancelled_and_returned_lines_are_left_out(run: "Run") -> None:
    statuses = ["pending", "confirmed", "shipped", "delivered", "cancelled", "returned"]
    run(
        "silver_confirmed_order_items",
        silver_order_items_enriched=[{"order_item_id": i, "order_status": status} for i, status in enumerate(statuses)],
    ).gives("order_item_id, order_status", (0, "pending"), (1, "confirmed"), (2, "shipped"), (3, "delivered"))


def test_a_line_passes_as_it_is(run: "Run") -> None:
    net = Decimal("0.008766")
    run("silver_confirmed_order_items", silver_order_items_enriched=[{"line_net_revenue": net}]).gives(
        "line_net_revenue, line_gross_margin, category, customer_tier", (net, None, None, "standard")
    )
