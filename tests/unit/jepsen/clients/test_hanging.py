"""Transactions that are not at their end, as coordinators and leaders tell of them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from quorate.errors import ErrorCode
from quorate.jepsen.clients import hanging
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.cluster import (
    DescribeProducersPartitionResponse,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    ProducerState,
)
from quorate.protocol.messages.transactions import (
    ListTransactionsResponse,
    ListTransactionsTransactionState,
)

WHERE = TopicPartition("t", 0)
BROKER = Endpoint("h", 1)


class Asked:
    """As much of a client as is used: one broker, which has these transactions."""

    def __init__(
        self, states: Mapping[str, str], starts: Mapping[int, int], error: int = 0
    ) -> None:
        self._states = states
        self._starts = starts
        self._error = error

    def learn(self, topics: Sequence[str]) -> None:
        if not topics:
            raise NotNowError("nobody answers")

    def brokers(self) -> Mapping[int, Endpoint]:
        return {101: BROKER}

    def leader(self, where: TopicPartition) -> Endpoint:
        del where
        return BROKER

    def ask(self, endpoint: Endpoint, api_key: int, version: int, body: Any) -> Any:
        del endpoint, version, body
        if api_key == ApiKey.LIST_TRANSACTIONS:
            listed = [
                ListTransactionsTransactionState(
                    transactional_id=name, producer_id=1, transaction_state=state
                )
                for name, state in self._states.items()
            ]
            return ListTransactionsResponse(error_code=self._error, transaction_states=listed)
        producers = [
            ProducerState(
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                current_txn_start_offset=start,
            )
            for producer_id, start in self._starts.items()
        ]
        told = DescribeProducersPartitionResponse(
            partition_index=0, error_code=0, active_producers=producers
        )
        topic = DescribeProducersTopicResponse(name="t", partitions=[told])
        return DescribeProducersResponse(topics=[topic])


def unfinished(asked: Asked, where: Sequence[TopicPartition] = (WHERE,)) -> list[str]:
    return hanging.unfinished(cast("Raw", asked), where, "mine-")


def test_what_is_at_its_end_is_not_told_nor_what_others_do() -> None:
    states = {"mine-1": "CompleteCommit", "mine-2": "Empty", "other": "Ongoing"}
    assert unfinished(Asked(states, {7: -1})) == []


def test_what_is_not_at_its_end_is_told_by_coordinators_and_by_leaders() -> None:
    found = unfinished(Asked({"mine-1": "PrepareCommit"}, {7: 0}))
    assert found == [
        "mine-1 is PrepareCommit at broker 101",
        "producer 7 has a transaction open in t-0 since offset 0",
    ]


def test_what_nobody_knows_is_not_taken_for_nothing() -> None:
    assert unfinished(Asked({}, {}), ()) == ["nobody knows what is open: nobody answers"]
    loading = Asked({}, {}, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    (sentence,) = unfinished(loading)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in sentence
