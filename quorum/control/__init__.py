"""Decisions: (image, request) -> Decision(records, response)."""
