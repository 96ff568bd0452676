"""Every change of a stock movement, as received. One row per _source_file and _line."""

from medallion import ChangeLog

TABLE = ChangeLog(of="bronze_inventory_events", source_system="warehouse system", extra=True)
