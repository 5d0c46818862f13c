"""What the controllers have agreed on, for people: the log of records, and a tree to walk in."""
