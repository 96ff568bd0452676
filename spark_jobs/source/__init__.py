"""The shop's side: where snapshot and change files come from, and the demo shop that makes them."""
