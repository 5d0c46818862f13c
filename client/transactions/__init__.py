"""How transactions go."""
