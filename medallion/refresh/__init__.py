"""How Silver and Gold are refreshed: full, or incrementally."""
