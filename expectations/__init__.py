"""Expectations between the tables of the shop: a suite per layer, and the values that columns may have."""
