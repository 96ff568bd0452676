"""From a table's query to how it is refreshed, with the reasons: for the whole graph of tables at once."""
