"""The demo shop: a deterministic source."""
