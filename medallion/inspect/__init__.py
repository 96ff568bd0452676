"""Read the lake for people: status, queries, check history, validation of a release."""
