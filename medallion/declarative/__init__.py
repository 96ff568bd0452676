"""The same tables as a Spark Declarative Pipeline."""
