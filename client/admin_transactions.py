"""Trio shell: what the Admin client asks and changes about transactions (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.client.admin_base import check, error_of
from quorate.client.admin_groups import GroupAdmin
from quorate.client.connections import several
from quorate.client.coordinators import TRANSACTION_KEY, Coordinators
from quorate.client.errors import error_for
from quorate.client.leaders import Question, ask_leaders
from quorate.client.transactions.describing import (
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
    abort_request,
    description_of,
    listing_of,
    marker_code,
    producers_of,
    producers_request,
)
from quorate.client.transactions.requests import init_request
from quorate.errors import MEANINGS, ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quorate.protocol.messages.cluster import (
        DescribeProducersRequest,
        DescribeProducersResponse,
    )

NO_DURATION: Final = -1
NO_COORDINATOR: Final = -1
PRODUCERS: Final = "producers of"
FENCE_TIMEOUT_MS: Final = 1
"""Who only fences has no transactions of its own."""


class TransactionAdmin(GroupAdmin):
    """The part of the Admin client that is about transactions."""

    _transaction_coordinators: Coordinators | None = None

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        open_for_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids of all coordinators, by name; with filters, those that pass.

        Args:
            states: Kafka's names: ``Ongoing``, ``Empty`` and so on.
            producer_ids: Only those that have one of these.
            open_for_ms: Only those with a transaction that is open for longer.
            pattern: Only those whose name matches this regular expression, as the broker reads it.

        Raises:
            KafkaError: A broker does not answer, or refuses.
        """
        request = ListTransactionsRequest(
            state_filters=several("states", states),
            producer_id_filters=list(producer_ids),
            duration_filter=NO_DURATION if open_for_ms is None else open_for_ms,
            transactional_id_pattern=pattern,
        )
        found: list[TransactionListing] = []
        for broker in (await self.describe_cluster()).brokers:
            response: ListTransactionsResponse = await self.connected().call_broker(
                broker.broker_id, ApiKey.LIST_TRANSACTIONS, request
            )
            check(response.error_code, None, f"transactions of broker {broker.broker_id}")
            found += [listing_of(each, broker.broker_id) for each in response.transaction_states]
        return sorted(found, key=lambda listing: listing.transactional_id)

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription | QuorateError]:
        """Return how transactional ids stand.

        Raises:
            KafkaError: A coordinator does not answer.
        """
        wanted = list(dict.fromkeys(several("describe_transactions", transactional_ids)))

        def codes(response: DescribeTransactionsResponse) -> list[int]:
            return [each.error_code for each in response.transaction_states]

        coordinators = self.transaction_coordinators()
        found: dict[str, TransactionDescription | QuorateError] = {}
        responses: list[DescribeTransactionsResponse] = await coordinators.call_many(
            wanted,
            ApiKey.DESCRIBE_TRANSACTIONS,
            lambda ids: DescribeTransactionsRequest(transactional_ids=ids),
            codes,
        )
        for response in responses:
            for told in response.transaction_states:
                name = told.transactional_id
                error = error_of(told.error_code, None, f"transactional id {name!r}")
                coordinator_id = coordinators.known(name)
                found[name] = error or description_of(
                    told, NO_COORDINATOR if coordinator_id is None else coordinator_id
                )
        return {name: found[name] for name in wanted if name in found}

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition | tuple[str, int]],
        *,
        broker_id: int | None = None,
    ) -> dict[TopicPartition, list[ProducerDescription] | QuorateError]:
        """Return who has been writing to partitions, as their leaders remember it.

        Args:
            partitions: Which.
            broker_id: Ask that broker, whether it leads them or only has a copy.
        """
        wanted = {TopicPartition(*each): None for each in partitions}
        if broker_id is None:
            question = Question(ApiKey.DESCRIBE_PRODUCERS, PRODUCERS, _about, producers_of)
            return await ask_leaders(self.connected(), question, wanted)
        response: DescribeProducersResponse = await self.connected().call_broker(
            broker_id, ApiKey.DESCRIBE_PRODUCERS, producers_request(wanted)
        )
        found: dict[TopicPartition, list[ProducerDescription] | QuorateError] = {}
        for topic in response.topics:
            for told in topic.partitions:
                partition = TopicPartition(topic.name, told.partition_index)
                error = error_of(told.error_code, told.error_message, f"{PRODUCERS} {partition}")
                found[partition] = error or producers_of(told)
        return found

    async def abort_transaction(
        self, partition: TopicPartition | tuple[str, int], producer: ProducerDescription
    ) -> None:
        """End a hanging transaction in one partition: its records will not count.

        For transactions that no coordinator will end; their open producers are not told.

        Args:
            partition: Where.
            producer: Whose, as :meth:`describe_producers` tells.

        Raises:
            KafkaError: The leader refuses, or does not answer.
        """
        wanted = TopicPartition(*partition)
        leader = await self.connected().leader_of(wanted)
        response: WriteTxnMarkersResponse = await self.connected().call_broker(
            leader, ApiKey.WRITE_TXN_MARKERS, abort_request(wanted, producer)
        )
        code = marker_code(response)
        if code != ErrorCode.NONE:
            raise error_for(code, f"no marker in {wanted}: {MEANINGS[code]}")

    async def fence_producers(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, QuorateError | None]:
        """Fence whoever has these transactional ids: what they have open is aborted.

        Returns an error or None for each.
        """
        coordinators = self.transaction_coordinators()
        results: dict[str, QuorateError | None] = {}
        for name in several("fence_producers", transactional_ids):
            try:
                response: InitProducerIdResponse = await coordinators.call(
                    name,
                    ApiKey.INIT_PRODUCER_ID,
                    init_request(name, FENCE_TIMEOUT_MS, None),
                    lambda told: (told.error_code,),
                )
            except KafkaError as error:
                results[name] = error
                continue
            # The epoch is another one already while what was open is being aborted.
            done = response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            what = f"transactional id {name!r}"
            results[name] = None if done else error_of(response.error_code, None, what)
        return results

    def transaction_coordinators(self) -> Coordinators:
        """Return who knows which broker coordinates which transactional id."""
        if self._transaction_coordinators is None:
            self._transaction_coordinators = Coordinators(self.connected(), TRANSACTION_KEY)
        return self._transaction_coordinators


def _about(asked: Iterable[tuple[TopicPartition, None]]) -> DescribeProducersRequest:
    return producers_request(partition for partition, _ in asked)
