"""Expectations across the tables of Bronze: warnings, as Bronze has what the sources sent, and sources run late."""

from collections.abc import Mapping

from expectations.values import ORDER_STATUSES
from medallion import Expectation, Grouped, no_rows, refers_to

SUITE: Mapping[str, tuple[Expectation, ...]] = {
    "bronze_orders": (
        refers_to("user_id", "bronze_customers", "customer_id", allowed_percent=5, severity="warning"),
        no_rows(
            """
            WITH unknown AS (
                SELECT order_status, COUNT(*) AS orders
                FROM {batch}
                WHERE order_status NOT IN {ORDER_STATUSES}
                GROUP BY order_status
            )
            SELECT *
            FROM unknown
            WHERE 100 * (SELECT SUM(orders) FROM unknown) > 5 * (SELECT COUNT(*) FROM {batch})
            ORDER BY orders DESC
            """,
            "at most 5 % of orders have a status that Silver does not know",
            severity="warning",
            grouped=Grouped("order_status", "orders"),
            values={"ORDER_STATUSES": ORDER_STATUSES},
        ),
    ),
    "bronze_order_items": (
        # A line may be hours ahead of its order.
        refers_to("order_id", "bronze_orders", allowed_percent=5, severity="warning"),
        refers_to("product_id", "bronze_products", allowed_percent=5, severity="warning"),
    ),
    "bronze_clickstream_events": (refers_to("product_id", "bronze_products", allowed_percent=5, severity="warning"),),
    "bronze_inventory_events": (refers_to("product_id", "bronze_products", allowed_percent=5, severity="warning"),),
    "bronze_products": (refers_to("supplier_id", "bronze_suppliers", allowed_percent=5, severity="warning"),),
}
