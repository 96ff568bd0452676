"""How computed tables are refreshed: full, or incrementally."""
