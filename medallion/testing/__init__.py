"""Tests of a project's tables, over literal rows: pytest finds the fixtures by itself where medallion is installed."""

from medallion.testing.table_tests import Found, Given, Run

__all__ = ["Found", "Given", "Run"]
