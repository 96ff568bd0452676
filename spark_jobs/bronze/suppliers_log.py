"""Every change of a supplier, as it came. One row per _source_file and _line."""

from spark_jobs.core.table import Log

TABLE = Log(of="bronze_suppliers", source_system="purchasing", extra=True)
