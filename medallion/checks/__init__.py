"""Great Expectations between the layers: checkpoint, results, report pages, report store."""
