"""Expectations across the tables of Gold: its figures add up to those of Silver."""

from collections.abc import Mapping

from medallion import Expectation, Lookup, Rows, Sums, Window, adds_up, no_rows, refers_to

SUITE: Mapping[str, tuple[Expectation, ...]] = {
    "gold_order_status_summary": (
        adds_up(
            "orders and revenue of each status equal those of silver_orders_enriched",
            Sums(
                "silver_orders_enriched",
                (("orders", "order_count", "1"), ("revenue", "total_revenue", "order_total")),
                by="order_status",
            ),
        ),
    ),
    "gold_weekly_revenue_trend": (
        adds_up(
            "units and net revenue add up to silver_confirmed_order_items",
            Sums(
                "silver_confirmed_order_items",
                (("units", "units_sold", "quantity"), ("net_revenue", "weekly_net_revenue", "line_net_revenue")),
            ),
        ),
    ),
    "gold_cancellation_impact": (
        adds_up(
            "total and cancelled revenue add up to silver_order_items_enriched",
            Sums(
                "silver_order_items_enriched",
                (
                    ("total_revenue", "weekly_total_revenue", "line_net_revenue"),
                    (
                        "cancelled_revenue",
                        "weekly_cancelled_revenue",
                        "CASE WHEN order_status = 'cancelled' THEN line_net_revenue END",
                    ),
                ),
            ),
        ),
        no_rows(
            "SELECT * FROM {batch} WHERE weekly_cancelled_orders > weekly_total_orders",
            "no week has more cancelled orders than orders",
            by_change=Rows(),
        ),
    ),
    "gold_supplier_performance": (
        adds_up(
            "units and net revenue of each supplier with stock equal those of silver_confirmed_order_items",
            Sums(
                "silver_confirmed_order_items",
                (("units", "total_units_sold", "quantity"), ("net_revenue", "total_net_revenue", "line_net_revenue")),
                by="supplier_id",
                within="silver_inventory_by_supplier",
            ),
        ),
    ),
    "gold_inventory_risk": (
        adds_up(
            "units of each stocked product equal those of silver_confirmed_order_items",
            Sums(
                "silver_confirmed_order_items",
                (("units", "units_sold", "quantity"),),
                by="product_id",
                within="silver_inventory_current",
            ),
        ),
        no_rows(
            """
            SELECT checked.product_id, checked.total_stock_all_warehouses, expected.stock AS expected_stock
            FROM {batch} AS checked
            LEFT JOIN (
                SELECT product_id, SUM(current_stock) AS stock
                FROM {silver_inventory_current}
                GROUP BY product_id
            ) AS expected ON expected.product_id = checked.product_id
            WHERE checked.total_stock_all_warehouses IS DISTINCT FROM expected.stock
            """,
            "stock of each product equals that of silver_inventory_current",
            by_change=Lookup((("silver_inventory_current", "product_id", "product_id"),)),
        ),
    ),
    "gold_realtime_inventory_alerts": (
        no_rows(
            """
            SELECT
                COALESCE(checked.product_id, expected.product_id) AS product_id,
                checked.total_stock_all_warehouses, expected.total_stock_all_warehouses AS expected_stock,
                checked.lead_time_days, expected.lead_time_days AS expected_lead_time_days
            FROM {batch} AS checked
            FULL OUTER JOIN (
                SELECT product_id, total_stock_all_warehouses, lead_time_days
                FROM {gold_inventory_risk}
                WHERE stock_risk_level = 'CRITICAL'
            ) AS expected ON expected.product_id = checked.product_id
            WHERE checked.product_id IS NULL
                OR expected.product_id IS NULL
                OR checked.total_stock_all_warehouses IS DISTINCT FROM expected.total_stock_all_warehouses
                OR checked.lead_time_days IS DISTINCT FROM expected.lead_time_days
            """,
            "the alerts are the CRITICAL rows of gold_inventory_risk, all of them and no others",
        ),
    ),
    "gold_product_demand_surge": (
        refers_to("product_id", "silver_products", allowed_percent=5, severity="warning"),
        no_rows(
            """
            SELECT found.events, expected.events AS expected_events
            FROM (
                SELECT COALESCE(SUM(recent_views + recent_add_to_carts + recent_checkouts), 0) AS events FROM {batch}
            ) AS found
            CROSS JOIN (
                SELECT COUNT(*) AS events
                FROM {silver_enriched_clickstream}
                WHERE product_id IS NOT NULL
                    AND event_type IN ('product_view', 'add_to_cart', 'begin_checkout')
                    AND event_timestamp
                        > (SELECT MAX(event_timestamp) FROM {silver_enriched_clickstream}) - INTERVAL '1' DAY
            ) AS expected
            WHERE found.events <> expected.events
            """,
            "views, carts and checkouts add up to the last day of silver_enriched_clickstream",
            by_change=Window("silver_enriched_clickstream", "event_timestamp", days=1),
        ),
    ),
}
