"""Expectations as plain values: the words they are written in, and what changed rows prove of them."""
