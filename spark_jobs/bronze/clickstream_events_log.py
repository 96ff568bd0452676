"""Every change of a click, as received. One row per _source_file and _line."""

from medallion import ChangeLog

TABLE = ChangeLog(of="bronze_clickstream_events", source_system="tracker", extra=True)
