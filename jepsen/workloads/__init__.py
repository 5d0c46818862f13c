"""What clients do to a cluster: each writes a history of it."""
