"""Trio shell: a sender whose batches are parts of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.sender import Sender, SenderSettings
from quorate.client.transactions.requests import PRODUCE_VERSION_MAX_V1

if TYPE_CHECKING:
    from random import Random

    import trio

    from quorate.client.connections import Cluster
    from quorate.client.sending.batches import Batch
    from quorate.client.transacting import Transactions
    from quorate.client.transactions.accumulator import TransactionalAccumulator
    from quorate.model import TopicPartition
    from quorate.protocol.messages.data import ProduceRequest


class TransactionalSender(Sender):
    """Sends batches of partitions that take part in the transaction."""

    _transactional = True

    def __init__(
        self,
        settings: SenderSettings,
        accumulator: TransactionalAccumulator,
        cluster: Cluster,
        nursery: trio.Nursery,
        rng: Random,
        transactions: Transactions,
    ) -> None:
        super().__init__(settings, accumulator, cluster, nursery, rng)
        self._transactions = transactions
        transactions.settled = self.room
        transactions.wake_sender = self.wake

    def _leader_of(self, topic_partition: TopicPartition) -> int | None:
        if not self._transactions.admits(topic_partition):
            return None
        return super()._leader_of(topic_partition)

    def _produce_request(self, batches: list[Batch], encoded: list[bytearray]) -> ProduceRequest:
        request = super()._produce_request(batches, encoded)
        request.transactional_id = self._transactions.transactional_id
        return request

    def _version_max(self, request: ProduceRequest) -> int | None:
        if self._transactions.machine.version == 1:
            return PRODUCE_VERSION_MAX_V1
        return super()._version_max(request)

    def _identify_if_needed(self) -> None:
        """Do nothing: the coordinator gave a producer id before the first transaction."""
