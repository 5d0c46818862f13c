"""The topics that coordinators keep their state in."""

from typing import Final

GROUPS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC})
"""Topics that only brokers write to; coordinators make them when they are needed."""
