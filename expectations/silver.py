"""What Silver promises across tables: nothing lost, nothing doubled, nothing stale against Bronze and itself."""

from collections.abc import Mapping

from expectations.vocabulary import Expectation, no_rows, refers_to

_CUSTOMER_AS_NOW = no_rows(
    """
    SELECT checked.*, customer.customer_tier AS tier_now
    FROM (SELECT DISTINCT user_id, customer_tier FROM {batch}) AS checked
    LEFT JOIN {silver_customers} AS customer ON customer.customer_id = checked.user_id
    WHERE customer.customer_id IS NULL OR checked.customer_tier IS DISTINCT FROM customer.customer_tier
    """,
    "every user is in silver_customers, with the same tier",
)
_SUPPLIER_AS_NOW = no_rows(
    """
    SELECT checked.*, supplier.supplier_name AS name_now, supplier.lead_time_days AS lead_time_now
    FROM (SELECT DISTINCT supplier_id, supplier_name, lead_time_days FROM {batch}) AS checked
    LEFT JOIN {bronze_suppliers} AS supplier ON supplier.supplier_id = checked.supplier_id
    WHERE supplier.supplier_id IS NULL
        OR checked.supplier_name IS DISTINCT FROM supplier.supplier_name
        OR checked.lead_time_days IS DISTINCT FROM supplier.lead_time_days
    """,
    "every supplier is in bronze_suppliers, with the same name and lead time",
)

SUITE: Mapping[str, tuple[Expectation, ...]] = {
    "silver_customers": (
        refers_to("customer_id", "bronze_customers"),
        no_rows(
            """
            SELECT found.customers, expected.customers AS expected_customers
            FROM (SELECT COUNT(*) AS customers FROM {batch}) AS found
            CROSS JOIN (
                SELECT COUNT(*) AS customers
                FROM {bronze_customers}
                WHERE customer_tier IN ('standard', 'silver', 'gold', 'platinum')
            ) AS expected
            WHERE found.customers <> expected.customers
            """,
            "there are as many customers as bronze_customers has of the four tiers",
        ),
    ),
    "silver_products": (
        refers_to("product_id", "bronze_products"),
        no_rows(
            """
            SELECT found.products, expected.products AS expected_products
            FROM (SELECT COUNT(*) AS products FROM {batch}) AS found
            CROSS JOIN (SELECT COUNT(*) AS products FROM {bronze_products}) AS expected
            WHERE found.products <> expected.products
            """,
            "there are as many products as in bronze_products",
        ),
    ),
    "silver_enriched_clickstream": (
        no_rows(
            """
            SELECT found.clicks, expected.clicks AS expected_clicks
            FROM (SELECT COUNT(*) AS clicks FROM {batch}) AS found
            CROSS JOIN (
                SELECT COUNT(*) AS clicks
                FROM {bronze_clickstream_events}
                WHERE user_id IS NOT NULL
                    AND event_type IN ('page_view', 'product_view', 'add_to_cart', 'begin_checkout', 'purchase')
            ) AS expected
            WHERE found.clicks <> expected.clicks
            """,
            "there are as many clicks as bronze_clickstream_events has of known users in the five steps",
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
        ),
        no_rows(
            """
            SELECT found.items, expected.items AS expected_items, found.units, expected.units AS expected_units
            FROM (
                SELECT COALESCE(SUM(item_count), 0) AS items, COALESCE(SUM(total_quantity), 0) AS units FROM {batch}
            ) AS found
            CROSS JOIN (
                SELECT COUNT(*) AS items, COALESCE(SUM(item.quantity), 0) AS units
                FROM {bronze_order_items} AS item
                WHERE item.quantity > 0
                    AND item.unit_price >= 0
                    AND item.order_id IN (SELECT order_id FROM {batch})
            ) AS expected
            WHERE found.items <> expected.items OR found.units <> expected.units
            """,
            "items and units add up to the valid lines of these orders in bronze_order_items",
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
        ),
    ),
    "silver_confirmed_order_items": (
        no_rows(
            """
            SELECT
                found.lines, expected.lines AS expected_lines,
                found.net_revenue, expected.net_revenue AS expected_net_revenue
            FROM (
                SELECT COUNT(*) AS lines, COALESCE(SUM(line_net_revenue), 0) AS net_revenue FROM {batch}
            ) AS found
            CROSS JOIN (
                SELECT COUNT(*) AS lines, COALESCE(SUM(line_net_revenue), 0) AS net_revenue
                FROM {silver_order_items_enriched}
                WHERE order_status NOT IN ('cancelled', 'returned')
            ) AS expected
            WHERE found.lines <> expected.lines OR found.net_revenue <> expected.net_revenue
            """,
            "lines and net revenue equal those of silver_order_items_enriched neither cancelled nor returned",
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
