"""What to fetch."""
