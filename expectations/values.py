"""The values that columns may have, for expectations and for the queries that keep others out."""

from collections.abc import Sequence

from expectations.vocabulary import spark_text

ORDER_STATUSES = ("pending", "confirmed", "shipped", "delivered", "cancelled", "returned")
CUSTOMER_TIERS = ("standard", "silver", "gold", "platinum")


def sql_list(values: Sequence[str]) -> str:
    """Return ``values`` as a list of SQL literals in parentheses."""
    return f"({', '.join(map(spark_text, values))})"
