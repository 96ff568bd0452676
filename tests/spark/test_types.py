"""Money is exact in every table; only averages, ratios and rates are DOUBLE; counts are BIGINT."""

import pytest

EXACT = {
    "silver_orders_enriched": {"order_total": "decimal(12,2)", "gross_item_revenue": "decimal(31,2)"},
    "silver_order_items_enriched": {
        "line_gross_revenue": "decimal(21,2)",
        "line_net_revenue": "decimal(31,6)",
        "line_gross_margin": "decimal(22,2)",
    },
    "gold_supplier_performance": {"total_net_revenue": "decimal(38,6)", "total_gross_margin": "decimal(38,2)"},
    "gold_inventory_risk": {"net_revenue": "decimal(38,6)", "gross_margin": "decimal(32,2)"},
    "gold_order_status_summary": {"total_revenue": "decimal(22,2)"},
    "gold_weekly_revenue_trend": {
        "weekly_net_revenue": "decimal(38,6)",
        "weekly_gross_margin": "decimal(32,2)",
        "revenue_wow_change": "decimal(38,6)",
        "cumulative_ytd_revenue": "decimal(38,6)",
    },
    "gold_cancellation_impact": {
        "weekly_cancelled_revenue": "decimal(38,6)",
        "weekly_total_revenue": "decimal(38,6)",
        "cumulative_cancelled_revenue": "decimal(38,6)",
    },
}
