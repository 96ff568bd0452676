"""What lies under <lake>/ops: event log, releases, writer lock."""
