"""Expectations: a vocabulary and one suite per layer."""
