"""Every change of a click, as it came. One row per _source_file and _line."""

from spark_jobs.core.table import Log

TABLE = Log(of="bronze_clickstream_events", source_system="tracker", extra=True)
