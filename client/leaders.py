"""Trio shell: asks the leaders of partitions, anew where leaders change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from quorate.client.connections import RETRY, Cluster
from quorate.client.errors import error_for, in_words
from quorate.client.routing.retries import Remedy, remedy_for
from quorate.dataclass import dataclass
from quorate.errors import (
    MEANINGS,
    ErrorCode,
    NetworkError,
    QuorateError,
    RequestTimedOutError,
    known_code,
)
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quorate.protocol.apis import ApiKey

Asked = TypeVar("Asked")
Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class Question(Generic[Asked, Told]):
    """What only leaders answer, by partition.

    Attributes:
        api_key: Of its requests.
        what: What is asked for; errors begin with it, and go on with the partition.
        request: Makes the request to one leader of what is asked about its partitions.
        told: Reads the answer about one partition, if that is not an error.
    """

    api_key: ApiKey
    what: str
    request: Callable[[list[tuple[TopicPartition, Asked]]], Any]
    told: Callable[[Any], Told]


async def ask_leaders(
    cluster: Cluster, question: Question[Asked, Told], asked: Mapping[TopicPartition, Asked]
) -> dict[TopicPartition, Told | QuorateError]:
    """Ask the leaders of partitions, anew where leaders change, until each gave a result.

    Whoever answers is not held up by a leader that does not: those of the same moment are asked at
    the same time, and what is not answered within ``request_timeout_ms`` is an error of its own.
    """
    asking = _Asking(cluster, question, dict(asked))
    attempts = 0
    with trio.move_on_after(cluster.settings.request_timeout_ms / 1000):
        while True:
            await asking.ask_once()
            if not asking.pending:
                break
            attempts += 1
            cluster.refresh_soon()
            await trio.sleep(cluster.pause_s(RETRY, attempts))
    asking.give_up()
    return {partition: asking.results[partition] for partition in asked}


class _Asking(Generic[Asked, Told]):
    """What is known already, and what is still to be asked."""

    def __init__(
        self,
        cluster: Cluster,
        question: Question[Asked, Told],
        pending: dict[TopicPartition, Asked],
    ) -> None:
        self.pending = pending
        self.results: dict[TopicPartition, Told | QuorateError] = {}
        self._cluster = cluster
        self._question = question
        self._troubles: dict[TopicPartition, QuorateError] = {}

    async def ask_once(self) -> None:
        """Ask who leads now; what another attempt may help with stays pending.

        Leaders that are not known are waited for, of all partitions at the same time, and beside
        the answers of the others.
        """
        led: dict[int, list[TopicPartition]] = {}
        found: dict[int, list[TopicPartition]] = {}
        async with trio.open_nursery() as nursery:
            for partition in self.pending:
                leader = self._cluster.leader_if_known(partition)
                if leader is None:
                    nursery.start_soon(self._find_leader, partition, found)
                else:
                    led.setdefault(leader.broker_id, []).append(partition)
            self._ask_each(led, nursery)
        async with trio.open_nursery() as nursery:
            self._ask_each(found, nursery)

    async def _find_leader(
        self, partition: TopicPartition, found: dict[int, list[TopicPartition]]
    ) -> None:
        try:
            leader_id = await self._cluster.leader_of(partition)
        except QuorateError as error:  # it has been waited for already
            self._settle(partition, error)
        else:
            found.setdefault(leader_id, []).append(partition)

    def _ask_each(
        self, by_leader: Mapping[int, list[TopicPartition]], nursery: trio.Nursery
    ) -> None:
        for leader_id, partitions in by_leader.items():
            nursery.start_soon(self._ask, leader_id, partitions)

    async def _ask(self, leader_id: int, partitions: list[TopicPartition]) -> None:
        request = self._question.request([(each, self.pending[each]) for each in partitions])
        try:
            connection = await self._cluster.reach(leader_id)
            response = await connection.call(
                self._question.api_key,
                request,
                timeout_ms=self._cluster.settings.request_timeout_ms,
            )
        except NetworkError as error:  # somebody else may lead by now: not the same one for ever
            self._troubles.update(dict.fromkeys(partitions, error))
            return
        except QuorateError as error:
            for partition in partitions:
                self._settle(partition, error)
            return
        wanted = set(partitions)
        for topic in response.topics:
            for answer in topic.partitions:
                partition = TopicPartition(topic.name, answer.partition_index)
                if partition in wanted:
                    self._take(partition, answer)

    def _take(self, partition: TopicPartition, answer: Any) -> None:
        code = known_code(answer.error_code)
        if code == ErrorCode.NONE:
            self._settle(partition, self._question.told(answer))
            return
        why = getattr(answer, "error_message", None) or MEANINGS[code]
        error = error_for(code, f"{self._question.what} {partition}: {why}")
        if remedy_for(code) is Remedy.GIVE_UP:
            self._settle(partition, error)
        else:
            self._troubles[partition] = error

    def _settle(self, partition: TopicPartition, result: Told | QuorateError) -> None:
        self.results[partition] = result
        del self.pending[partition]

    def give_up(self) -> None:
        """Make errors of what is pending."""
        within = f"no answer within {self._cluster.settings.request_timeout_ms} ms"
        for partition in list(self.pending):
            trouble = self._troubles.get(partition)
            why = f"; {in_words(trouble)}" if trouble else ""
            message = f"{self._question.what} {partition}: {within}{why}"
            self._settle(partition, RequestTimedOutError(message))
