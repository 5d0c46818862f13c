"""Connectors between topics and files or databases: what they decide (pure)."""
