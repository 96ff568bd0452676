"""Every change of a customer, as received. One row per _source_file and _line."""

from medallion import ChangeLog

TABLE = ChangeLog(of="bronze_customers", source_system="account service", extra=True)
