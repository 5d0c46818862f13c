from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.client.errors import BufferFullError, DeliveryTimeoutError
from quorate.client.routing.retries import Backoff, Remedy
from quorate.client.sending.accumulator import (
    NEVER_MS,
    Accumulator,
    ProducerIdentity,
    SendSettings,
)
from quorate.client.sending.batches import Appended, Batch
from quorate.errors import ErrorCode, KafkaError, NetworkError
from quorate.model import TopicPartition
from quorate.records.batch import PRODUCER_EPOCH_MAX
from quorate.records.record import NO_PRODUCER, ProducerStamp

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
RECORD_BYTES = 31


def accumulator(**changes: int) -> Accumulator:
    values: dict[str, int] = {
        "batch_size_bytes": 200,
        "buffer_memory_bytes": 10_000,
        "request_bytes_max": 1_000,
        "linger_ms": 5,
        "delivery_timeout_ms": 1_000,
        "retries": 100,
        "max_in_flight": 5,
        **changes,
    }
    settings_ = SendSettings(
        batch_size_bytes=values["batch_size_bytes"],
        buffer_memory_bytes=values["buffer_memory_bytes"],
        request_bytes_max=values["request_bytes_max"],
        linger_ms=values["linger_ms"],
        delivery_timeout_ms=values["delivery_timeout_ms"],
        retries=values["retries"],
        backoff=Backoff(10, 10),
        max_in_flight=values["max_in_flight"],
        idempotent=bool(values.get("idempotent", 1)),
    )
    made = Accumulator(settings_, Random(1))
    made.identity = ProducerIdentity(70, 0) if settings_.idempotent else None
    return made


def put(
    to: Accumulator, value: bytes = b"0123456789", now_ms: int = 0, tp: TopicPartition = A
) -> tuple[Batch, int]:
    batch, _ = to.open_batch(tp, RECORD_BYTES, now_ms)
    return batch, batch.append(now_ms, None, value, b"", RECORD_BYTES)


def drain(from_: Accumulator, now_ms: int) -> list[Batch]:
    sent = from_.drain(lambda _: 1, lambda _: True, now_ms)
    return sent.get(1, [])


def error(code: ErrorCode) -> KafkaError:
    return KafkaError("refused", code=code)


def acquainted(accu: Accumulator, *partitions: TopicPartition) -> None:
    """Have brokers appended something of partitions that were put to."""
    for tp in partitions or (A,):
        accu._queues[tp].known_as = accu.identity  # pyright: ignore[reportPrivateUsage]


def test_a_batch_lingers_for_company() -> None:
    accu = accumulator()
    put(accu)
    put(accu, now_ms=3)
    assert drain(accu, 4) == []
    assert accu.next_event_ms(4) == 5
    (batch,) = drain(accu, 5)
    assert batch.count == 2
    assert batch.attempts == 1


def test_a_full_batch_does_not_linger() -> None:
    accu = accumulator()
    for _ in range(5):
        put(accu)
    (batch,) = drain(accu, 0)
    assert batch.count == 4
    assert drain(accu, 0) == []


def test_a_record_larger_than_a_batch_gets_a_batch_of_its_own() -> None:
    accu = accumulator()
    first, _ = put(accu)
    batch, is_new = accu.open_batch(A, 5_000, 0)
    assert is_new
    assert batch is not first


def test_flushing_ends_all_lingering() -> None:
    accu = accumulator()
    put(accu)
    put(accu, tp=B)
    accu.seal_all()
    assert {batch.topic_partition for batch in drain(accu, 0)} == {A, B}


def test_nothing_is_sent_without_a_leader_or_to_a_broker_that_is_busy() -> None:
    accu = accumulator(linger_ms=0)
    put(accu)
    assert accu.drain(lambda _: None, lambda _: True, 0) == {}
    assert accu.drain(lambda _: 1, lambda _: False, 0) == {}
    assert len(drain(accu, 0)) == 1


def test_a_request_takes_one_batch_of_each_partition_up_to_its_limit() -> None:
    accu = accumulator(linger_ms=0, request_bytes_max=250)
    for number in range(3):
        put(accu, tp=TopicPartition("t", number))
        put(accu, tp=TopicPartition("t", number))
    partitions = [[batch.topic_partition.partition for batch in drain(accu, 0)] for _ in range(2)]
    assert partitions == [[0, 1], [2]]


def test_partitions_that_were_left_out_come_first_next_time() -> None:
    accu = accumulator(linger_ms=0, request_bytes_max=1)
    order: list[int] = []
    for number in (0, 1):
        for _ in range(8):
            put(accu, tp=TopicPartition("t", number))
    acquainted(accu, A, B)
    for _ in range(4):
        order += [batch.topic_partition.partition for batch in drain(accu, 0)]
    assert order == [0, 1, 0, 1]


def test_a_new_leader_gets_nothing_before_the_last_one_has_answered() -> None:
    # Else it may have forgotten, when a batch comes again, that the last one appended it.
    accu = accumulator(linger_ms=0)
    put(accu)
    (at_the_last,) = drain(accu, 0)
    put(accu)
    accu.seal_all()
    new_leader = partial(accu.drain, lambda _: 2, lambda _: True)
    assert new_leader(10) == {}
    accu.fail(at_the_last, NetworkError("timed out"), -1, 20)
    assert new_leader(100) == {2: [at_the_last]}
    accu.succeed(at_the_last, 0, -1)
    assert len(new_leader(100)[2]) == 1


def test_five_batches_of_a_partition_may_be_in_flight() -> None:
    accu = accumulator(linger_ms=0)
    for _ in range(40):
        put(accu)
    acquainted(accu)
    assert [len(drain(accu, 0)) for _ in range(6)] == [1, 1, 1, 1, 1, 0]


def test_the_first_batch_goes_alone_because_a_broker_takes_any_number_for_the_first() -> None:
    # Would it be refused, because nobody leads yet, say, later ones would be appended before it.
    accu = accumulator(linger_ms=0)
    for _ in range(12):
        put(accu)
    (first,) = drain(accu, 0)
    assert drain(accu, 0) == []
    accu.fail(first, error(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1, 0)
    assert drain(accu, 50) == [first]
    assert drain(accu, 50) == []
    accu.succeed(first, 0, -1)
    assert [len(drain(accu, 50)) for _ in range(3)] == [1, 1, 0]


def test_beside_a_batch_that_came_back_no_more_are_begun_than_a_broker_remembers() -> None:
    accu = accumulator(linger_ms=0)
    for _ in range(40):
        put(accu)
    acquainted(accu)
    first, *others = (drain(accu, 0)[0] for _ in range(5))
    accu.fail(first, error(ErrorCode.REQUEST_TIMED_OUT), -1, 0)
    for number, batch in enumerate(others):
        accu.succeed(batch, 4 + 4 * number, -1)
    assert drain(accu, 50) == [first]
    # It may have been appended; behind a sixth batch it would not be recognised any more.
    assert drain(accu, 50) == []
    accu.succeed(first, 0, -1)
    assert [len(drain(accu, 50)) for _ in range(6)] == [1, 1, 1, 1, 1, 0]


def test_sequences_follow_each_other_and_wrap_after_2_to_the_31() -> None:
    accu = accumulator(linger_ms=0)
    for _ in range(12):
        put(accu)
    acquainted(accu)
    stamps = [drain(accu, 0)[0].stamp for _ in range(3)]
    assert stamps == [ProducerStamp(70, 0, n) for n in (0, 4, 8)]
    queue = accu._queues[A]  # pyright: ignore[reportPrivateUsage] - to save two billion records
    queue.next_record = 2**31 - 1
    put(accu)
    put(accu)
    accu.seal_all()
    assert drain(accu, 0)[0].stamp == ProducerStamp(70, 0, 2**31 - 1)
    put(accu)
    accu.seal_all()
    assert drain(accu, 0)[0].stamp == ProducerStamp(70, 0, 1)


def test_without_idempotence_batches_carry_no_producer() -> None:
    accu = accumulator(linger_ms=0, idempotent=0)
    put(accu)
    assert drain(accu, 0)[0].stamp == NO_PRODUCER
    assert not accu.needs_identity


def test_a_batch_that_nobody_acknowledges_is_settled_when_it_is_sent() -> None:
    accu = accumulator(linger_ms=0, idempotent=0)
    batch, _ = put(accu)
    drain(accu, 0)
    accu.succeed_unanswered(batch)
    assert batch.outcome == Appended(-1, -1)


def test_flushing_twice_is_the_same_as_once() -> None:
    accu = accumulator()
    batch, _ = put(accu)
    assert accu.seal_all()
    assert not accu.seal_all()
    assert drain(accu, 0) == [batch]


def test_batches_wait_for_the_producer_id() -> None:
    accu = accumulator(linger_ms=0)
    accu.identity = None
    assert not accu.needs_identity
    put(accu)
    assert drain(accu, 0) == []
    assert accu.needs_identity
    accu.identity = ProducerIdentity(71, 0)
    assert drain(accu, 0)[0].stamp == ProducerStamp(71, 0, 0)


def test_an_acknowledged_batch_tells_those_who_asked_and_frees_its_room() -> None:
    accu = accumulator(linger_ms=0)
    told: list[int] = []
    batch, index = put(accu)
    batch.when_settled(index, lambda: told.append(index))
    assert not batch.settled
    (sent,) = drain(accu, 0)
    assert accu.buffered_bytes == sent.size_bytes
    accu.succeed(sent, 40, -1)
    assert sent.outcome == Appended(40, -1)
    assert batch.settled
    batch.when_settled(index, lambda: told.append(99))
    assert told == [0, 99]
    assert accu.buffered_bytes == 0
    assert accu.unsettled() == []
    assert accu.next_event_ms(0) == NEVER_MS


def test_a_batch_that_comes_back_is_sent_again_before_later_ones_and_alone() -> None:
    accu = accumulator(linger_ms=0)
    for _ in range(12):
        put(accu)
    acquainted(accu)
    first, second, third = (drain(accu, 0)[0] for _ in range(3))
    assert accu.fail(first, error(ErrorCode.NOT_ENOUGH_REPLICAS), -1, 0) is Remedy.RETRY
    accu.fail(second, error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1, 0)
    assert drain(accu, 5) == []
    assert accu.next_event_ms(5) in range(8, 13)
    assert drain(accu, 15) == [first]
    assert drain(accu, 15) == []
    accu.fail(third, error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1, 15)
    accu.succeed(first, 0, -1)
    assert drain(accu, 30) == [second]
    assert drain(accu, 30) == []
    accu.succeed(second, 4, -1)
    assert drain(accu, 30) == [third]
    assert [b.stamp for b in (first, second, third)] == [ProducerStamp(70, 0, n) for n in (0, 4, 8)]


def test_an_answer_that_says_duplicate_is_a_success() -> None:
    accu = accumulator(linger_ms=0)
    batch, _ = put(accu)
    drain(accu, 0)
    accu.fail(batch, error(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), 33, 0)
    assert batch.outcome == Appended(33, -1)


def test_a_gap_before_the_first_outstanding_batch_starts_numbers_over_in_a_new_epoch() -> None:
    accu = accumulator(linger_ms=0)
    for _ in range(12):
        put(accu)
    acquainted(accu)
    first, second = drain(accu, 0)[0], drain(accu, 0)[0]
    accu.fail(first, error(ErrorCode.UNKNOWN_PRODUCER_ID), -1, 0)
    assert drain(accu, 50) == [], "the second one may still be answered"
    accu.fail(second, error(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1, 0)
    assert drain(accu, 50) == [first]
    assert first.stamp == ProducerStamp(70, 1, 0)
    accu.succeed(first, 0, -1)
    assert drain(accu, 50) == [second]
    assert second.stamp == ProducerStamp(70, 1, 4)


def test_other_partitions_go_on_in_the_old_epoch_until_they_are_idle() -> None:
    accu = accumulator(linger_ms=0)
    for _ in range(12):
        put(accu, tp=B)
    acquainted(accu, B)
    in_b = drain(accu, 0)[0]
    put(accu)
    accu.seal_all()
    also_in_b, in_a = drain(accu, 0)
    accu.fail(in_a, error(ErrorCode.UNKNOWN_PRODUCER_ID), -1, 0)
    last_in_b, again_in_a = drain(accu, 50)
    assert again_in_a.stamp == ProducerStamp(70, 1, 0)
    assert last_in_b.stamp == ProducerStamp(70, 0, 8)
    accu.succeed(in_b, 0, -1)
    accu.succeed(also_in_b, 0, -1)
    accu.succeed(last_in_b, 0, -1)
    put(accu, tp=B)
    accu.seal_all()
    assert drain(accu, 50)[0].stamp == ProducerStamp(70, 1, 0)


def test_after_the_last_epoch_a_new_producer_id_is_needed() -> None:
    accu = accumulator(linger_ms=0)
    accu.identity = ProducerIdentity(70, PRODUCER_EPOCH_MAX)
    put(accu)
    (batch,) = drain(accu, 0)
    accu.fail(batch, error(ErrorCode.UNKNOWN_PRODUCER_ID), -1, 0)
    assert drain(accu, 50) == []
    assert accu.needs_identity


def test_a_batch_that_was_never_taken_expires_and_says_why() -> None:
    accu = accumulator()
    accu.obstacle = NetworkError("connection refused")
    batch, _ = put(accu)
    other, _ = put(accu, tp=B, now_ms=1)
    assert accu.next_event_ms(5) == 6
    assert accu.next_event_ms(6) == 1_000
    accu.expire(999)
    assert batch.outcome is None
    accu.expire(1_000)
    assert isinstance(batch.outcome, DeliveryTimeoutError)
    assert "delivery_timeout_ms=1000, after 0 attempts" in str(batch.outcome)
    assert "connection refused" in str(batch.outcome)
    assert not batch.is_open
    assert other.outcome is None


def test_what_expires_behind_a_broker_that_does_not_answer_says_so() -> None:
    accu = accumulator(linger_ms=0, max_in_flight=1)
    accu.obstacle = NetworkError("another broker did not let us in, an hour ago")
    for _ in range(8):
        put(accu)
    acquainted(accu)
    (sent,) = drain(accu, 0)
    waiting = accu.unsettled()[-1]
    accu.expire(1_000)
    assert "after 1 attempts; broker 1 has not answered the last one" in str(sent.outcome)
    assert f"they waited for {sent.count} before them, which broker 1 has" in str(waiting.outcome)


def test_an_answer_after_the_deadline_changes_nothing() -> None:
    accu = accumulator(linger_ms=0)
    for _ in range(8):
        put(accu)
    acquainted(accu)
    first, second = drain(accu, 0)[0], drain(accu, 0)[0]
    accu.expire(1_000)
    assert isinstance(first.outcome, DeliveryTimeoutError)
    assert accu.buffered_bytes == 0
    accu.fail(first, error(ErrorCode.NOT_ENOUGH_REPLICAS), -1, 1_001)
    accu.succeed(second, 7, -1)
    assert isinstance(second.outcome, DeliveryTimeoutError)
    assert drain(accu, 2_000) == []


def test_retries_are_bounded() -> None:
    accu = accumulator(linger_ms=0, retries=1)
    batch, _ = put(accu)
    for now_ms in (0, 100):
        assert drain(accu, now_ms) == [batch]
        accu.fail(batch, NetworkError("broken"), -1, now_ms)
    assert isinstance(batch.outcome, NetworkError)
    assert drain(accu, 200) == []


def test_an_error_that_will_not_pass_settles_the_batch_at_once() -> None:
    accu = accumulator(linger_ms=0)
    batch, _ = put(accu)
    drain(accu, 0)
    refused = error(ErrorCode.INVALID_RECORD)
    assert accu.fail(batch, refused, -1, 0) is Remedy.GIVE_UP
    assert batch.outcome is refused
    assert accu.fatal is None


def test_a_fatal_error_settles_everything() -> None:
    accu = accumulator(linger_ms=0)
    batch, _ = put(accu)
    other, _ = put(accu, tp=B)
    drain(accu, 0)
    waiting, _ = put(accu, tp=B)
    fatal = error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    accu.fail(batch, fatal, -1, 0)
    assert accu.fatal is fatal
    assert {id(b.outcome) for b in (batch, other, waiting)} == {id(fatal)}
    assert accu.buffered_bytes == 0


def test_a_batch_that_is_too_large_is_split_and_the_halves_keep_its_numbers() -> None:
    accu = accumulator(linger_ms=0)
    told: list[int] = []
    batch = put(accu, b"0")[0]
    for number in (b"1", b"2"):
        put(accu, number)
    batch.keys[1], batch.headers[2] = b"key", b"\x02\x02h\x01"
    for index in range(3):
        batch.when_settled(index, partial(told.append, index))
    drain(accu, 0)
    assert accu.fail(batch, error(ErrorCode.MESSAGE_TOO_LARGE), -1, 0) is Remedy.RETRY
    assert accu.buffered_bytes == sum(half.size_bytes for half in accu.unsettled())
    (first,) = drain(accu, 0)
    assert drain(accu, 0) == []
    accu.succeed(first, 10, -1)
    assert not batch.settled
    (second,) = drain(accu, 0)
    assert (first.values, second.values) == ([b"0"], [b"1", b"2"])
    assert (second.keys, second.headers) == ({0: b"key"}, {1: b"\x02\x02h\x01"})
    assert (first.stamp, second.stamp) == (ProducerStamp(70, 0, 0), ProducerStamp(70, 0, 1))
    accu.succeed(second, 11, -1)
    assert batch.settled
    assert told == [0, 1, 2]
    assert batch.find(2) == (second, 1)
    assert accu.buffered_bytes == 0


def test_what_was_split_lets_older_batches_expire_in_time() -> None:
    accu = accumulator(linger_ms=0)
    older, _ = put(accu, tp=B)
    batch, _ = put(accu, now_ms=500)
    put(accu, now_ms=500)
    accu.drain(lambda tp: 1 if tp == A else None, lambda _: True, 500)  # nobody leads B
    accu.fail(batch, error(ErrorCode.MESSAGE_TOO_LARGE), -1, 500)
    assert accu.next_event_ms(500) == 1_000
    assert accu.expire(1_000)
    assert isinstance(older.outcome, DeliveryTimeoutError)
    assert not batch.settled


def test_a_single_record_that_is_too_large_is_an_error() -> None:
    accu = accumulator(linger_ms=0)
    batch, _ = put(accu)
    drain(accu, 0)
    refused = error(ErrorCode.MESSAGE_TOO_LARGE)
    accu.fail(batch, refused, -1, 0)
    assert batch.outcome is refused


def test_a_full_buffer_refuses_records_and_stops_lingering() -> None:
    accu = accumulator(buffer_memory_bytes=300)
    put(accu)
    for _ in range(4):
        put(accu)
    with pytest.raises(BufferFullError, match="buffer_memory_bytes=300"):
        accu.open_batch(B, 200, 0)
    acquainted(accu)
    assert [batch.count for batch in drain(accu, 0)] == [4]
    assert [batch.count for batch in drain(accu, 0)] == [1]


def test_an_open_batch_counts_when_it_is_looked_at() -> None:
    accu = accumulator(buffer_memory_bytes=150)
    batch, _ = put(accu)
    for _ in range(3):
        batch.append(0, None, b"0123456789", b"", RECORD_BYTES)
    with pytest.raises(BufferFullError):
        accu.account(batch)


def test_room_can_be_reserved_for_records_without_a_batch() -> None:
    accu = accumulator(buffer_memory_bytes=100)
    accu.reserve(60)
    with pytest.raises(BufferFullError):
        accu.reserve(60)
    accu.release(60)
    accu.reserve(60)


def test_records_that_moved_are_found_where_they_are() -> None:
    accu = accumulator()
    parked = Batch(TopicPartition("t", -1), ready_at_ms=0, deadline_ms=0)
    index = parked.append(0, None, b"x", b"", RECORD_BYTES)
    told: list[str] = []
    parked.when_settled(index, lambda: told.append("settled"))
    batch, there = put(accu)
    parked.move([(batch, there)])
    assert parked.find(0) == (batch, 0)
    assert not parked.settled
    batch.settle(Appended(1, 2))
    assert parked.settled
    assert told == ["settled"]


# Whatever happens on the way


class FakePartition:
    """A leader that checks numbers as brokers must, and remembers the last five batches."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.epoch = -1
        self.next_sequence = 0
        self.recent: list[tuple[int, int]] = []

    def append(self, batch: Batch) -> tuple[ErrorCode, int]:
        stamp = batch.stamp
        assert stamp is not None
        if stamp.producer_epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if stamp.producer_epoch > self.epoch:
            if stamp.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.epoch, self.next_sequence, self.recent = stamp.producer_epoch, 0, []
        for sequence, offset in self.recent[-5:]:
            if sequence == stamp.base_sequence:
                return ErrorCode.NONE, offset
        if stamp.base_sequence < self.next_sequence:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1
        if stamp.base_sequence > self.next_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = len(self.values)
        self.values += batch.values
        self.next_sequence += batch.count
        self.recent.append((stamp.base_sequence, offset))
        return ErrorCode.NONE, offset


def answer(accu: Accumulator, batch: Batch, code: ErrorCode, offset: int, now_ms: int) -> None:
    if code == ErrorCode.NONE:
        accu.succeed(batch, offset, -1)
    else:
        accu.fail(batch, error(code), offset, now_ms)


class World:
    """A producer's accumulator, two partitions, and a network that loses what the dice say."""

    def __init__(self, rng: Random, timeout_ms: int) -> None:
        self.rng = rng
        self.now_ms = 0
        self.accu = accumulator(delivery_timeout_ms=timeout_ms, buffer_memory_bytes=1 << 30)
        self.partitions = {A: FakePartition(), B: FakePartition()}
        self.sent: list[tuple[Batch, int, bytes]] = []
        self.network: list[Batch] = []

    def step(self) -> None:
        self.now_ms += self.rng.randrange(8)
        self.accu.expire(self.now_ms)
        self.network += drain(self.accu, self.now_ms)

    def send_some(self) -> None:
        for _ in range(self.rng.randrange(6)):
            value = b"%09d" % len(self.sent)
            tp = self.rng.choice([A, B])
            self.sent.append((*put(self.accu, value, self.now_ms, tp), value))

    def answer_one(self) -> None:
        if self.network:
            batch = self.network.pop(0)
            answer(
                self.accu, batch, *self.partitions[batch.topic_partition].append(batch), self.now_ms
            )

    def refuse_one(self) -> None:
        if self.network:
            code = self.rng.choice([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE])
            answer(self.accu, self.network.pop(0), code, -1, self.now_ms)

    def break_connection(self) -> None:
        """Some requests were served, none is answered."""
        served = self.rng.randrange(len(self.network) + 1)
        for number, batch in enumerate(self.network):
            if number < served:
                self.partitions[batch.topic_partition].append(batch)
            self.accu.fail(batch, NetworkError("broken"), -1, self.now_ms)
        self.network = []

    def lose_producer_state(self) -> None:
        """What a broker knew of the producer is gone."""
        partition = self.partitions[self.rng.choice([A, B])]
        partition.next_sequence, partition.recent = 0, []

    def check(self) -> None:
        for record, number, value in self.sent:
            batch, index = record.find(number)
            if isinstance(batch.outcome, Appended):
                log = self.partitions[batch.topic_partition].values
                assert value in log
                if batch.outcome.base_offset >= 0:
                    assert log[batch.outcome.base_offset + index] == value


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), timeout_ms=st.sampled_from([60, 400, 100_000]))
def test_under_any_losses_records_are_neither_repeated_nor_reordered_and_acks_are_true(
    seed: int, timeout_ms: int
) -> None:
    rng = Random(seed)
    world = World(rng, timeout_ms)
    for _ in range(250):
        world.step()
        world.send_some()
        rng.choices(
            [world.answer_one, world.refuse_one, world.break_connection], weights=[7, 2, 1]
        )[0]()
    for _ in range(20_000):
        if not world.accu.unsettled() and not world.network:
            break
        world.step()
        world.answer_one()
    assert world.accu.unsettled() == []
    assert world.accu.buffered_bytes == 0
    world.check()
    for partition in world.partitions.values():
        assert partition.values == sorted(set(partition.values), key=lambda value: value or b"")


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_producer_recovers_when_brokers_forget_it(seed: int) -> None:
    rng = Random(seed)
    world = World(rng, 100_000)
    for _ in range(150):
        world.step()
        world.send_some()
        rng.choices([world.answer_one, world.lose_producer_state], weights=[20, 1])[0]()
    for _ in range(20_000):
        if not world.accu.unsettled() and not world.network:
            break
        world.step()
        world.answer_one()
    assert world.accu.unsettled() == []
    world.check()
