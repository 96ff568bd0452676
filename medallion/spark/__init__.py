"""The Spark session: configuration, JVM, reads, the warm server."""
