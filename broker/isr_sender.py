"""Trio shell: proposes changes of ISRs to the controller, as many as there are in one request."""

import logging
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

import trio

from quorate.broker.handlers.context import Broker
from quorate.broker.replication.leader import LeaderReplica
from quorate.control.partition_messages import (
    AlterPartition,
    AlterPartitionAnswer,
    PartitionAlteration,
)
from quorate.errors import KafkaError
from quorate.net.bell import Bell

if TYPE_CHECKING:
    from quorate.broker.controller_link import Call

logger = logging.getLogger(__name__)

REVIEW_S: Final = 0.5
RETRY_S: Final = 0.05
TIMEOUT_S: Final = 10.0
PROPOSALS_MAX: Final = 1000
"""So many go in one request: a controller takes no larger one than 1 MiB, however often it comes,
and a follower that is back may be in sync with tens of thousands of partitions at once."""

Proposal = tuple[LeaderReplica, PartitionAlteration]


class IsrSender:
    """Sends what leaders propose, one request after the other; they hear what became of it."""

    def __init__(
        self,
        broker: Broker,
        call: "Call",
        begin_turn: Callable[[], int],
        end_turn: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._call = call
        self._begin_turn = begin_turn
        self._end_turn = end_turn
        self._bell = Bell()
        broker.replicas.on_alterations = self._bell.ring

    async def run(self) -> None:
        """Work until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._review)
            while True:
                await self._bell.wait()
                while self._broker.replicas.news.alterations:
                    proposals = self._take()
                    if proposals and not await self._send(proposals):
                        await trio.sleep(RETRY_S)

    async def _review(self) -> None:
        """Look now and then who fell behind, and who has caught up."""
        replicas = self._broker.replicas
        while True:
            await trio.sleep(min(REVIEW_S, replicas.host.lag_time_max_ms / 2000))
            self._begin_turn()
            replicas.review()
            self._end_turn()

    def _take(self) -> list[Proposal]:
        alterations = self._broker.replicas.news.alterations
        leaders = list(islice(alterations, PROPOSALS_MAX))
        for leader in leaders:
            del alterations[leader]
        proposed = ((leader, leader.alteration()) for leader in leaders)
        return [(leader, alteration) for leader, alteration in proposed if alteration is not None]

    async def _send(self, proposals: list[Proposal]) -> bool:
        """Send proposals; return whether there is an answer to each, or none is worth waiting."""
        request = AlterPartition(
            broker_id=self._broker.config.node_id,
            broker_epoch=self._broker.replicas.host.broker_epoch,
            partitions=tuple(alteration for _, alteration in proposals),
        )
        try:
            answer: AlterPartitionAnswer = await self._call(request, TIMEOUT_S)
        except KafkaError as error:
            logger.warning("the controller takes no change of an ISR, trying again: %s", error)
            for leader, _ in proposals:
                if self._broker.replicas.hosts(leader):
                    leader.retry_alteration()
            return False
        self._begin_turn()
        for (leader, alteration), altered in zip(proposals, answer.partitions, strict=True):
            if self._broker.replicas.hosts(leader):
                leader.altered(alteration, altered)
        self._end_turn()
        again = self._broker.replicas.news.alterations
        return not any(leader in again for leader, _ in proposals)
