"""Silver: cleaned, checked and joined. One module is one table; reads Bronze and Silver."""
