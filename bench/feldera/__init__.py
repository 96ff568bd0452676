"""Feldera, an incremental engine outside of our lake, on the same tables and hours: program, service, driver."""
