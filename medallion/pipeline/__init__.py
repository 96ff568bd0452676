"""The steps of an hour and what drives them: run, follow, maintain."""
