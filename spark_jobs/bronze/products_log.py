"""Every change of a product, as received. One row per _source_file and _line."""

from medallion import Log

TABLE = Log(of="bronze_products", source_system="catalogue", extra=True)
