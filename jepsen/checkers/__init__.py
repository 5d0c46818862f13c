"""Judges of histories: pure functions that name what cannot have happened in a correct cluster."""
