"""The values that columns may have, for expectations and for the queries that keep others out."""

ORDER_STATUSES = ("pending", "confirmed", "shipped", "delivered", "cancelled", "returned")
CUSTOMER_TIERS = ("standard", "silver", "gold", "platinum")
