"""What a table is: declarations, the graph of tables, dimensions. Independent of any engine."""
