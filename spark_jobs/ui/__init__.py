"""Pages over the lake, as HTML: pure functions of what the logs tell. They know neither Airflow nor Spark."""
