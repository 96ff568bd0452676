"""Every change of an order line, as received. One row per _source_file and _line."""

from medallion import ChangeLog

TABLE = ChangeLog(of="bronze_order_items", source_system="order service", extra=True)
