"""Data of TPC-H as a source: a snapshot, and hours of changes."""
