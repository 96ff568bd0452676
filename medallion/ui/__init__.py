"""Pages as functions of the logs. This package is independent of the scheduler."""
