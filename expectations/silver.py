"""Expectations across the tables of Silver: nothing lost, doubled or stale against Bronze and itself."""

from collections.abc import Mapping

from expectations.values import CUSTOMER_TIERS
from medallion import Expectation, Lookup, RowCount, Sums, adds_up, no_rows, refers_to, sql_list

_CUSTOMER_AS_NOW = no_rows(
    """
    SELECT checked.user_id, checked.customer_tier, customer.customer_tier AS tier_now
    FROM (SELECT DISTINCT user_id, customer_tier FROM {batch}) AS checked
    LEFT JOIN {silver_customers} AS customer ON customer.customer_id = checked.user_id
    WHERE customer.customer_id IS NULL OR checked.customer_tier IS DISTINCT FROM customer.customer_tier
    """,
    "every user is in silver_customers, with the same tier",
    by_change=Lookup((("silver_customers", "customer_id", "user_id"),)),
)
_SUPPLIER_AS_NOW = no_rows(
    """
    SELECT
        checked.supplier_id, checked.supplier_name, checked.lead_time_days,
        supplier.supplier_name AS name_now, supplier.lead_time_days AS lead_time_now
    FROM (SELECT DISTINCT supplier_id, supplier_name, lead_time_days FROM {batch}) AS checked
    LEFT JOIN {bronze_suppliers} AS supplier ON supplier.supplier_id = checked.supplier_id
    WHERE supplier.supplier_id IS NULL
        OR checked.supplier_name IS DISTINCT FROM supplier.supplier_name
        OR checked.lead_time_days IS DISTINCT FROM supplier.lead_time_days
    """,
    "every supplier is in bronze_suppliers, with the same name and lead time",
    by_change=Lookup((("bronze_suppliers", "supplier_id", "supplier_id"),)),
)

SUITE: Mapping[str, tuple[Expectation, ...]] = {
    "silver_customers": (
        refers_to("customer_id", "bronze_customers"),
        adds_up(
            "there are as many customers as bronze_customers has of the four tiers",
            Sums(
                "bronze_customers",
                (("customers", "1", "1"),),
                f"customer_tier IN {sql_list(CUSTOMER_TIERS)}",
            ),
        ),
    ),
    "silver_products": (
        refers_to("product_id", "bronze_products"),
        adds_up("there are as many products as in bronze_products", Sums("bronze_products", (("products", "1", "1"),))),
    ),
    "silver_enriched_clickstream": (
        adds_up(
            "there are as many clicks as bronze_clickstream_events has of known users in the five steps",
            Sums(
                "bronze_clickstream_events",
                (("clicks", "1", "1"),),
                "user_id IS NOT NULL"
                " AND event_type IN ('page_view', 'product_view', 'add_to_cart', 'begin_checkout', 'purchase')",
            ),
        ),
    ),
    "silver_orders_enriched": (
        _CUSTOMER_AS_NOW,
        no_rows(
            """
            SELECT
                checked.order_id,
                checked.order_status, source.order_status AS bronze_status,
                checked.order_total, source.order_total AS bronze_total,
                checked.updated_at, source.updated_at AS bronze_updated_at
            FROM {batch} AS checked
            LEFT JOIN {bronze_orders} AS source ON source.order_id = checked.order_id
            WHERE source.order_id IS NULL
                OR checked.order_status IS DISTINCT FROM source.order_status
                OR checked.order_total IS DISTINCT FROM source.order_total
                OR checked.updated_at IS DISTINCT FROM source.updated_at
            """,
            "every order is as it is in bronze_orders",
            by_change=Lookup((("bronze_orders", "order_id", "order_id"),)),
        ),
        no_rows(
            """
            SELECT
                checked.order_id,
                checked.item_count, source.items AS bronze_items,
                checked.total_quantity, source.units AS bronze_units
            FROM {batch} AS checked
            LEFT JOIN (
                SELECT order_id, COUNT(*) AS items, SUM(quantity) AS units
                FROM {bronze_order_items}
                WHERE quantity > 0 AND unit_price >= 0
                GROUP BY order_id
            ) AS source ON source.order_id = checked.order_id
            WHERE COALESCE(checked.item_count, 0) <> COALESCE(source.items, 0)
                OR COALESCE(checked.total_quantity, 0) <> COALESCE(source.units, 0)
            """,
            "items and units of each order are those of its valid lines in bronze_order_items",
            by_change=Lookup((("bronze_order_items", "order_id", "order_id"),)),
        ),
        no_rows(
            """
            SELECT found.orders, source.orders AS bronze_orders
            FROM (SELECT COUNT(*) AS orders FROM {batch}) AS found
            CROSS JOIN (SELECT COUNT(*) AS orders FROM {bronze_orders}) AS source
            WHERE 2 * found.orders < source.orders
            """,
            "at least half of the orders of Bronze arrive in Silver",
            severity="warning",
            by_change=RowCount(),
        ),
    ),
    "silver_order_items_enriched": (
        _CUSTOMER_AS_NOW,
        _SUPPLIER_AS_NOW,
        refers_to("order_item_id", "bronze_order_items"),
        no_rows(
            """
            SELECT checked.order_item_id, checked.order_id, checked.order_status, source.order_status AS bronze_status
            FROM {batch} AS checked
            LEFT JOIN {bronze_orders} AS source ON source.order_id = checked.order_id
            WHERE checked.order_status IS DISTINCT FROM source.order_status
            """,
            "every line has the status that its order has in bronze_orders",
            by_change=Lookup((("bronze_orders", "order_id", "order_id"),)),
        ),
    ),
    "silver_confirmed_order_items": (
        adds_up(
            "lines and net revenue equal those of silver_order_items_enriched neither cancelled nor returned",
            Sums(
                "silver_order_items_enriched",
                (("lines", "1", "1"), ("net_revenue", "line_net_revenue", "line_net_revenue")),
                "order_status NOT IN ('cancelled', 'returned')",
            ),
        ),
    ),
    "silver_inventory_current": (
        _SUPPLIER_AS_NOW,
        refers_to("product_id", "silver_products"),
        no_rows(
            """
            SELECT found.stock, expected.stock AS expected_stock
            FROM (SELECT COALESCE(SUM(current_stock), 0) AS stock FROM {batch}) AS found
            CROSS JOIN (
                SELECT COALESCE(SUM(event.quantity_change), 0) AS stock
                FROM {bronze_inventory_events} AS event
                INNER JOIN {bronze_products} AS product ON product.product_id = event.product_id
                INNER JOIN {bronze_suppliers} AS supplier ON supplier.supplier_id = product.supplier_id
            ) AS expected
            WHERE found.stock <> expected.stock
            """,
            "stock adds up to the movements of supplied products in bronze_inventory_events",
        ),
    ),
    "silver_inventory_by_supplier": (
        no_rows(
            """
            SELECT
                COALESCE(checked.supplier_id, expected.supplier_id) AS supplier_id,
                checked.total_current_stock, expected.stock AS expected_stock,
                checked.total_sold, expected.sold AS expected_sold,
                checked.total_restocked, expected.restocked AS expected_restocked
            FROM {batch} AS checked
            FULL OUTER JOIN (
                SELECT
                    supplier_id,
                    SUM(current_stock) AS stock, SUM(total_sold) AS sold, SUM(total_restocked) AS restocked
                FROM {silver_inventory_current}
                GROUP BY supplier_id
            ) AS expected ON expected.supplier_id = checked.supplier_id
            WHERE checked.total_current_stock IS DISTINCT FROM expected.stock
                OR checked.total_sold IS DISTINCT FROM expected.sold
                OR checked.total_restocked IS DISTINCT FROM expected.restocked
            """,
            "stock and movements of each supplier add up from silver_inventory_current",
        ),
    ),
}
