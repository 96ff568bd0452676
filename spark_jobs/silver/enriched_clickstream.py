"""Clicks of known users in the five steps of the purchase funnel. One row per event_id."""

from medallion import Table, in_set, not_null

TABLE = Table(
    keys=("event_id",),
    expect=(
        not_null("user_id"),
        not_null("event_timestamp"),
        in_set("event_type", ("page_view", "product_view", "add_to_cart", "begin_checkout", "purchase")),
    ),
    pruned_by=("event_timestamp",),
    query="""
        SELECT
            event_id, user_id, session_id, event_type, page_url, product_id, device_type, geo_country, geo_region,
            event_timestamp
        FROM {bronze_clickstream_events}
        WHERE user_id IS NOT NULL
            AND event_type IN ('page_view', 'product_view', 'add_to_cart', 'begin_checkout', 'purchase')
    """,
)
