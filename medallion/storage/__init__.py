"""Files in folders and buckets, lake paths, Delta reads and writes without Spark, the change feed, DuckDB views."""
