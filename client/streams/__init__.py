"""Streams of records: what becomes of them, and the windows they are counted in (pure)."""
