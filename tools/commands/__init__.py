"""What each command understands; what it does is in the modules above."""
