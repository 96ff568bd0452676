"""Files in folders and buckets, lake paths, Delta reads without Spark, the change feed, DuckDB views."""
