"""Every change of a product, as it came. One row per _source_file and _line."""

from spark_jobs.core.table import Log

TABLE = Log(of="bronze_products", source_system="catalogue", extra=True)
