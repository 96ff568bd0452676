"""Operational records under <lake>/ops: event log, releases, check records, writer lock."""
