"""The pure part of ``quorate groups``: lag, plans of resets, tables."""
