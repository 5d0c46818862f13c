from random import Random

import pytest

from quorate.client.errors import DeliveryTimeoutError, NoTransactionError
from quorate.client.routing.retries import Backoff, Remedy
from quorate.client.sending.accumulator import ProducerIdentity, SendSettings
from quorate.client.sending.batches import Appended, Batch
from quorate.client.transactions.accumulator import TransactionalAccumulator
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Held(TransactionalAccumulator):
    """One whose losses are written down."""

    def __init__(self) -> None:
        settings = SendSettings(
            batch_size_bytes=100,
            buffer_memory_bytes=10_000,
            request_bytes_max=1_000,
            linger_ms=0,
            delivery_timeout_ms=1_000,
            retries=100,
            backoff=Backoff(200, 200),
            max_in_flight=5,
            idempotent=True,
        )
        super().__init__(settings, Random(1))
        self.identity = ProducerIdentity(70, 0)
        self.losses: list[KafkaError] = []

    def put(self, tp: TopicPartition = A) -> Batch:
        batch, _ = self.open_batch(tp, 30, 0)
        batch.append(0, None, b"0123456789", b"", 30)
        batch.seal()
        return batch

    def drained(self, now_ms: int = 0) -> list[Batch]:
        return self.drain(lambda _: 1, lambda _: True, now_ms).get(1, [])

    def know(self) -> None:
        """Have brokers appended something of every partition."""
        for queue in self._queues.values():
            queue.known_as = self.identity


@pytest.fixture
def held() -> Held:
    made = Held()
    made.on_loss = made.losses.append
    return made


def error(code: ErrorCode) -> KafkaError:
    return KafkaError("refused", code=code)


def test_it_never_asks_for_a_producer_id_by_itself(held: Held) -> None:
    held.put()
    held.identity = None
    assert not held.needs_identity
    assert held.drained() == []


def test_outside_transactions_there_is_a_reason_to_take_nothing(held: Held) -> None:
    held.bar(NoTransactionError("none"))
    assert isinstance(held.fatal, NoTransactionError)
    held.unbar()
    assert held.fatal is None


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_RECORD,
    ],
)
def test_a_batch_that_is_lost_is_told_of_once(held: Held, code: ErrorCode) -> None:
    batch = held.put()
    assert held.drained() == [batch]
    assert held.fail(batch, error(code), -1, 0) is Remedy.GIVE_UP
    assert [each.code for each in held.losses] == [code]
    assert isinstance(batch.outcome, KafkaError)
    assert not held.has_in_flight


def test_a_gap_behind_one_that_is_under_way_is_none_yet(held: Held) -> None:
    first, second = held.put(), held.put()
    held.drained()
    held.know()
    held.drained()
    assert held.fail(second, error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1, 0) is Remedy.RETRY
    held.succeed(first, 0, -1)
    assert held.drained(1_000) == [second]
    assert held.losses == []


def test_the_last_transaction_is_not_waited_for_long(held: Held) -> None:
    batch = held.put()
    held.drained()
    held.fail(batch, error(ErrorCode.CONCURRENT_TRANSACTIONS), -1, 0)
    assert held.drained(19) == []
    assert held.drained(20) == [batch]


def test_what_is_not_acknowledged_in_time_is_lost(held: Held) -> None:
    held.put()
    assert held.expire(1_000)
    assert isinstance(held.losses[0], DeliveryTimeoutError)
    assert not held.expire(1_000)
    assert len(held.losses) == 1


def test_a_record_without_a_batch_may_be_lost_too(held: Held) -> None:
    held.lose(error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    held.lose(QuorateError("of ours"))
    assert len(held.losses) == 1


def test_dropping_everything_is_no_loss_and_answers_to_it_change_nothing(held: Held) -> None:
    sent, waiting = held.put(), held.put(B)
    held.drain(lambda tp: 1 if tp == A else None, lambda _: True, 0)
    held.drop_all(error(ErrorCode.TRANSACTION_ABORTABLE))
    assert isinstance(sent.outcome, KafkaError)
    assert isinstance(waiting.outcome, KafkaError)
    assert held.has_in_flight
    held.fail(sent, error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1, 0)
    assert not held.has_in_flight
    assert held.losses == []
    assert held.buffered_bytes == 0


def test_the_next_transaction_waits_for_what_the_last_one_left_under_way(held: Held) -> None:
    left = held.put()
    held.drained()
    held.know()  # so that another batch could go out beside this one
    held.drop_all(error(ErrorCode.TRANSACTION_ABORTABLE))
    held.identity = ProducerIdentity(70, 1)
    fresh = held.put()
    assert held.drained() == []
    held.succeed(left, 0, -1)
    assert held.drained() == [fresh]
    assert fresh.stamp is not None
    assert fresh.stamp[1:] == (1, 0)
    held.succeed(fresh, 1, -1)
    assert fresh.outcome == Appended(1, -1)


def test_nobody_needs_to_listen() -> None:
    deaf = Held()
    batch = deaf.put()
    deaf.drained()
    deaf.fail(batch, error(ErrorCode.INVALID_RECORD), -1, 0)
    assert batch.outcome is not None
