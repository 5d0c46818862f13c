"""What the admin screen shows, as values: rows, cells, filters, what has changed between two."""
