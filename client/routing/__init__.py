"""Whom to ask."""
