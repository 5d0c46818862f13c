"""What to send."""
