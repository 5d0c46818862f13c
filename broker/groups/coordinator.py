"""GroupCoordinator: the groups of one partition of ``__consumer_offsets``."""

import logging
from typing import TYPE_CHECKING, Final

from quorate.broker.groups.group import GroupContext, GroupProtocol, Surroundings
from quorate.broker.groups.records import key_type
from quorate.broker.shards.effects import Writer

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

GROUPS_TOPIC: Final = "__consumer_offsets"


class GroupCoordinator:
    """The state of the groups that hash to one partition, as its records say.

    State: the groups and the offsets they have committed, which only :meth:`replay` changes; and,
    within the groups, who waits for what, until when.
    """

    def __init__(self, writer: Writer, surroundings: Surroundings) -> None:
        self.context = GroupContext({}, writer, surroundings)
        self._protocols: Mapping[int, GroupProtocol] = {}

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Fold one record into the state; one of a type that is not known is left out."""
        kind = key_type(key)
        protocol = self._protocols.get(kind)
        if protocol is None:
            logger.warning("a record of unknown type %d among those of groups is ignored", kind)
            return
        protocol.replay(kind, key, value)

    def loaded(self) -> None:
        """Begin to serve."""
        for protocol in self._distinct():
            protocol.loaded()

    def unload(self) -> None:
        """Serve no more; who waits hears NOT_COORDINATOR."""
        for protocol in self._distinct():
            protocol.unload()

    def _distinct(self) -> list[GroupProtocol]:
        return list(dict.fromkeys(self._protocols.values()))
