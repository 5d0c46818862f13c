"""Partition replicas, over the log."""
