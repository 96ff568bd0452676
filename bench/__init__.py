"""Strategies side by side on the same hours, with proof that their rows are equal."""
