"""Transactions: what happens to each transactional id, decided on what its records say."""
