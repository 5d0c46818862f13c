"""What happens to transactions, as events in a node's log."""

from typing import Final

from quorate.broker.shards.telling import Teller

tell: Final = Teller("quorate.broker.transactions")
