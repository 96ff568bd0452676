"""Derive the refresh method of each table from its query, with the reasons, for the whole graph of tables at once."""
