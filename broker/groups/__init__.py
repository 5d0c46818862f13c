"""Groups: who is in them, what they have read."""
