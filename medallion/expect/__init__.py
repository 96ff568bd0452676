"""Expectations as plain values: the functions that declare them, and what a check of changed rows proves."""
