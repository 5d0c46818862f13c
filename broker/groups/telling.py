"""What happens to groups, as events in a node's log."""

from typing import Final

from quorate.broker.shards.telling import Teller

tell: Final = Teller("quorate.broker.groups")
