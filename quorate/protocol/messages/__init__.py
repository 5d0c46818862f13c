"""Message declarations, one module per family."""
