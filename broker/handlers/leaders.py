"""Who leads instead: said along with errors, to save clients asking for metadata (KIP-951)."""

from quorate.broker.handlers.context import Broker
from quorate.errors import ErrorCode
from quorate.model import NO_LEADER
from quorate.protocol.messages.data import LeaderIdAndEpoch, NodeEndpoint


class LeaderHints:
    """The leaders that one answer names, and where they are."""

    __slots__ = ("_broker", "_listener", "endpoints")

    def __init__(self, broker: Broker, listener: str) -> None:
        self._broker = broker
        self._listener = listener
        self.endpoints: list[NodeEndpoint] = []

    def leader_of(self, topic: str | None, partition: int) -> LeaderIdAndEpoch | None:
        """Return who leads a partition as far as we know, if that is anybody."""
        image = self._broker.replicas.image
        found = image.topics.get(topic) if topic is not None else None
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        state = found.partitions[partition]
        node = image.brokers.get(state.leader_id)
        endpoint = node.endpoints.get(self._listener) if node is not None else None
        if state.leader_id == NO_LEADER or node is None or endpoint is None:
            return None
        if all(known.node_id != state.leader_id for known in self.endpoints):
            self.endpoints.append(
                NodeEndpoint(
                    node_id=state.leader_id, host=endpoint.host, port=endpoint.port, rack=node.rack
                )
            )
        return LeaderIdAndEpoch(leader_id=state.leader_id, leader_epoch=state.leader_epoch)


WRONG_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors that say that the client knows an old leader."""
