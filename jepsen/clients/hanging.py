"""Transactions that are not at their end, as coordinators and leaders tell of them (KIP-664)."""

from collections.abc import Sequence
from typing import Final

from quorate.client.transactions.describing import OVER
from quorate.errors import ErrorCode, known_code
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.wire import ClosedError
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.cluster import (
    DescribeProducersRequest,
    DescribeProducersTopicRequest,
)
from quorate.protocol.messages.transactions import ListTransactionsRequest

LIST_TRANSACTIONS_VERSION: Final = 0
DESCRIBE_PRODUCERS_VERSION: Final = 0
NONE_IS_OPEN: Final = -1


def partitions(raw: Raw, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic; none if there is no such topic, or nobody says."""
    try:
        raw.learn([topic])
    except NotNowError:
        return []
    return [TopicPartition(topic, number) for number in range(raw.partition_count(topic))]


def unfinished(raw: Raw, where: Sequence[TopicPartition], prefix: str) -> list[str]:
    """Say what is open: of ids with this prefix, and of producers in these partitions."""
    try:
        topics = sorted({each.topic for each in where})
        raw.learn(topics)
        found = _of_coordinators(raw, prefix)
        for each in where:
            found += _of_leader(raw, each)
    except (NotNowError, ClosedError) as error:
        return [f"nobody knows what is open: {error}"]
    return found


def _of_coordinators(raw: Raw, prefix: str) -> list[str]:
    """Ask all brokers which transactional ids they coordinate."""
    found: list[str] = []
    for broker_id, endpoint in raw.brokers().items():
        answer = raw.ask(
            endpoint,
            ApiKey.LIST_TRANSACTIONS,
            LIST_TRANSACTIONS_VERSION,
            ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
        )
        if answer.error_code != ErrorCode.NONE:
            raise NotNowError(f"broker {broker_id}: {known_code(answer.error_code).name}")
        found += [
            f"{each.transactional_id} is {each.transaction_state} at broker {broker_id}"
            for each in answer.transaction_states
            if each.transactional_id.startswith(prefix) and each.transaction_state not in OVER
        ]
    return found


def _of_leader(raw: Raw, where: TopicPartition) -> list[str]:
    """Ask who leads a partition for producers that have something open in it."""
    topic = DescribeProducersTopicRequest(name=where.topic, partition_indexes=[where.partition])
    answer = raw.ask(
        raw.leader(where),
        ApiKey.DESCRIBE_PRODUCERS,
        DESCRIBE_PRODUCERS_VERSION,
        DescribeProducersRequest(topics=[topic]),
    )
    told = answer.topics[0].partitions[0]
    if told.error_code != ErrorCode.NONE:
        raise NotNowError(f"{where}: {known_code(told.error_code).name}")
    return [
        f"producer {each.producer_id} has a transaction open in {where} since offset"
        f" {each.current_txn_start_offset}"
        for each in told.active_producers
        if each.current_txn_start_offset != NONE_IS_OPEN
    ]
