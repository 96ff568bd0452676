"""Every change of a product, as received. One row per _source_file and _line."""

from medallion import ChangeLog

TABLE = ChangeLog(of="bronze_products", source_system="catalogue", extra=True)
