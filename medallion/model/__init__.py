"""What a table is: declarations, the graph of tables, dimensions. Knows no engine."""
