"""Who is to read which partitions, decided by the broker (KIP-848)."""
