"""What a person sees of the controllers, and what they may change (pure)."""
