"""What clients ask about groups, and what they read in the answers."""
