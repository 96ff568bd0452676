"""Operational records under <lake>/ops: event log, releases, writer lock."""
