"""silver_enriched_clickstream: known users, known event types."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from medallion.testing import Run


def test_only_the_five_known_event_types_are_kept(run: "Run") -> None:
    types = ["page_view", "product_view", "add_to_cart", "begin_checkout", "purchase", "scroll", "Purchase", None]
    run(
        "silver_enriched_clickstream",
        bronze_clickstream_events=[{"event_id": i, "event_type": kind} for i, kind in enumerate(types)],
    ).gives(
        "event_id, event_type",
        (0, "page_view"),
        (1, "product_view"),
        (2, "add_to_cart"),
        (3, "begin_checkout"),
        (4, "purchase"),
    )


def test_a_click_needs_a_user_but_no_product(run: "Run") -> None:
    run(
        "silver_enriched_clickstream",
        bronze_clickstream_events=[
            {"event_id": 1, "event_type": "page_view", "user_id": None},
            {"event_id": 2, "event_type": "page_view", "user_id": 404, "product_id": None},
        ],
    ).gives("event_id, user_id, product_id", (2, 404, None))
