"""From the source to Bronze: landing, ledger of hours, decoding, quarantine, apply, change logs."""
