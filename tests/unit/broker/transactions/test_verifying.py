"""Coordinators are asked about many transactions at a time."""

from quorate.broker.shards.errors import CoordinatorNotAvailableError
from quorate.broker.transactions.verifying import (
    BATCH_MAX,
    IN_FLIGHT_MAX,
    WAITING_MAX,
    Verified,
    Verifier,
)
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.promise import Promise
from quorate.protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.unit.broker.transactions.senders import Asked, Brokers

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Asking:
    """A verifier, and the coordinators that it asks; those of ids with an x are unknown."""

    def __init__(self) -> None:
        self.brokers = Brokers()
        self.verifier = Verifier(self._coordinator_of, self.brokers.ask)

    @staticmethod
    def _coordinator_of(transactional_id: str) -> int:
        if "x" in transactional_id:
            raise CoordinatorNotAvailableError
        return len(transactional_id)

    def verify(
        self, transactional_id: str, *partitions: TopicPartition, add: bool = False
    ) -> Promise[Verified]:
        return self.verifier.verify(transactional_id, 7, 3, partitions or (T0,), add=add)


def answer(asked: Asked, code: ErrorCode = NONE, **of_ids: ErrorCode) -> None:
    request: AddPartitionsToTxnRequest = asked.request
    asked.promise.resolve(
        AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=int(
                                        of_ids.get(transaction.transactional_id, code)
                                    ),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in transaction.topics
                    ],
                )
                for transaction in request.transactions
            ]
        )
    )


def ids(asked: Asked) -> list[str]:
    return [transaction.transactional_id for transaction in asked.request.transactions]


def test_a_coordinator_is_asked_and_the_answer_told() -> None:
    asking = Asking()
    verified = asking.verify("a", T0, T1, U0, add=True)
    asked = asking.brokers.one()
    (transaction,) = asked.request.transactions
    assert (asked.broker_id, transaction.producer_id, transaction.producer_epoch) == (1, 7, 3)
    assert not transaction.verify_only
    assert [(t.name, t.partitions) for t in transaction.topics] == [("t", [0, 1]), ("u", [0])]
    answer(asked)
    assert verified.value == {T0: NONE, T1: NONE, U0: NONE}


def test_what_waits_goes_together() -> None:
    asking = Asking()
    first = [asking.verify("a") for _ in range(IN_FLIGHT_MAX)]
    waiting = [asking.verify(name) for name in "bcd"]
    other = asking.verify("ee")
    *under_way, elsewhere = asking.brokers.take()
    assert (len(under_way), elsewhere.broker_id) == (IN_FLIGHT_MAX, 2)
    answer(under_way[0])
    together = asking.brokers.one()
    assert ids(together) == ["b", "c", "d"]
    assert together.request.transactions[0].verify_only
    answer(together, c=FENCED)
    assert [each.value[T0] for each in waiting] == [NONE, FENCED, NONE]
    assert (first[0].value, first[1].resolved, other.resolved) == ({T0: NONE}, False, False)


def test_one_request_has_each_id_once_and_not_too_many() -> None:
    asking = Asking()
    for _ in range(IN_FLIGHT_MAX):
        asking.verify("a")
    twice = [asking.verify("b"), asking.verify("b", T1)]
    many = [asking.verify(chr(0x4E00 + n)) for n in range(BATCH_MAX)]
    first, _ = asking.brokers.take()
    answer(first)
    second = asking.brokers.one()
    assert (ids(second)[0], len(ids(second))) == ("b", BATCH_MAX)
    answer(second)
    third = asking.brokers.one()
    assert ids(third) == ["b", chr(0x4E00 + BATCH_MAX - 1)]
    answer(third)
    assert [each.value for each in twice] == [{T0: NONE}, {T1: NONE}]
    assert all(each.resolved for each in many)


def test_without_a_coordinator_or_an_answer_that_is_told() -> None:
    asking = Asking()
    assert asking.verify("x").value == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    lost, refused, left_out = asking.verify("a"), asking.verify("bb"), asking.verify("ccc")
    one, two, three = asking.brokers.take()
    one.fail()
    two.promise.resolve(AddPartitionsToTxnResponse(error_code=int(FENCED)))
    three.promise.resolve(AddPartitionsToTxnResponse())
    assert lost.value == left_out.value == {T0: ErrorCode.NETWORK_EXCEPTION}
    assert refused.value == {T0: FENCED}


def test_not_more_waits_than_there_is_room_for() -> None:
    asking = Asking()
    verified = [asking.verify("a") for _ in range(IN_FLIGHT_MAX + WAITING_MAX + 1)]
    assert [v.resolved for v in verified[-2:]] == [False, True]
    assert verified[-1].value == {T0: ErrorCode.NETWORK_EXCEPTION}
