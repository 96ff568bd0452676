"""Every change of a supplier, as received. One row per _source_file and _line."""

from medallion import ChangeLog

TABLE = ChangeLog(of="bronze_suppliers", source_system="purchasing", extra=True)
