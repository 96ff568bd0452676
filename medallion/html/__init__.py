"""The HTML of pages, reports and certificates: templates, and the values that tables and links show."""
