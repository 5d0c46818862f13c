"""Partitions: which are in trouble, where they should go, whether replicas agree (pure)."""
