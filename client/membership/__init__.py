"""Being in a group."""
