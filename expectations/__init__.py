"""Checks between the layers: a vocabulary, a suite per layer, and the checkpoint that runs them."""
