"""Every change of an order, as received. One row per _source_file and _line."""

from medallion import ChangeLog

TABLE = ChangeLog(of="bronze_orders", source_system="order service", extra=True)
