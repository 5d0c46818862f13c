"""Clusters of several processes on one machine: their layout and their picture (pure)."""
