"""From the source to Bronze: landing, the ledger of hours, decoding, quarantine, apply, change logs."""
