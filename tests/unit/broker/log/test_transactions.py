"""Transactions in a log: what may be written, what is stable, what was aborted."""

# pyright: reportPrivateUsage=false

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.broker.log.aborted import (
    NO_MARK,
    AbortedEntries,
    IndexMark,
    pack_aborted,
    trusted_part,
)
from quorate.broker.log.log import Log
from quorate.broker.log.transactions import AbortedTransaction
from quorate.broker.log.verification import Guard
from quorate.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    KafkaError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    UnknownProducerIdError,
)
from quorate.records.batch import (
    NO_SEQUENCE,
    SEQUENCE_MAX,
    TRANSACTIONAL_BIT,
    assign_offset,
    parse_header,
)
from quorate.records.control import (
    EndMarker,
    TransactionEnd,
    end_marker_batch,
    find_end_marker,
    read_end_marker,
)
from quorate.records.record import ProducerStamp
from quorate.settings import TopicConfig
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    flush,
    join,
    make_batch,
    new_disk,
    new_log,
    open_data,
    read_all,
)
from tests.unit.broker.log.transacting import (
    LEGACY,
    PER_TRANSACTION,
    Writer,
    check,
    told_by,
)


def stable(log: Log) -> int:
    """The last stable offset of a log whose records are all replicated."""
    if log.producers.transactions is not None:
        log.producers.transactions.replicated(log.log_end_offset)
    return log.producers.last_stable_offset(log.log_end_offset)


def test_a_marker_is_read_as_it_was_written() -> None:
    for committed in (False, True):
        marker = EndMarker(committed, 7)
        batch = end_marker_batch(TransactionEnd(5, 3, marker, LEGACY), NOW_MS)
        header = parse_header(batch, 0)
        assert (header.producer_id, header.producer_epoch) == (5, 3)
        assert header.is_control
        assert header.is_transactional
        assert read_end_marker(bytes(batch), header) == marker
        assert len(batch) == 78


def test_what_is_stable_ends_where_the_first_open_transaction_begins() -> None:
    log = new_log()
    first, second = Writer(1), Writer(2)
    first.write(log, transactional=False)
    assert stable(log) == 1
    first.write(log, 2)
    second.write(log)
    first.write(log)
    assert stable(log) == 1
    first.end(log, committed=True)
    assert stable(log) == 3
    second.end(log, committed=False)
    assert stable(log) == log.log_end_offset == 7


def test_a_transaction_is_stable_once_its_marker_is_replicated() -> None:
    log = new_log()
    writer, other = Writer(1), Writer(2)
    writer.write(log)
    other.write(log)
    other.end(log, committed=True)
    writer.end(log, committed=True)
    transactions = log.producers.transactions
    assert transactions is not None
    for high_watermark, expected in ((0, 0), (1, 0), (3, 0), (4, 4)):
        transactions.replicated(high_watermark)
        assert log.producers.last_stable_offset(high_watermark) == expected


def test_no_record_outside_of_a_transaction_while_one_is_open() -> None:
    log = new_log()
    writer = Writer(1)
    writer.write(log)
    with pytest.raises(InvalidTxnStateError):
        writer.write(log, transactional=False)
    writer.end(log, committed=True)
    writer.write(log, transactional=False)
    assert stable(log) == 3


def test_nothing_is_added_to_a_transaction_that_nobody_vouches_for() -> None:
    log = new_log()
    batch = make_batch([b"a"], producer=ProducerStamp(1, 0, 0), attributes=TRANSACTIONAL_BIT)
    with pytest.raises(InvalidTxnStateError):
        log.append(batch, 0, NOW_MS)
    Writer(1).write(log)
    with pytest.raises(InvalidTxnStateError):
        log.append(
            make_batch([b"a"], producer=ProducerStamp(2, 0, 0), attributes=TRANSACTIONAL_BIT),
            0,
            NOW_MS,
        )


@pytest.mark.parametrize("version", [LEGACY, PER_TRANSACTION])
def test_a_guard_is_void_once_a_marker_or_a_record_was_written(version: int) -> None:
    log = new_log()
    writer = Writer(1, version=version)

    def ask(epoch: int = 0) -> Guard | None:
        return log.producers.begin_verification(1, epoch, 0, adds=False, now_ms=NOW_MS)

    guard = ask()
    assert guard is not None
    assert ask() is guard, "who asks meanwhile waits for the same answer"
    log.append_marker(
        TransactionEnd(1, 0, EndMarker(committed=False, coordinator_epoch=0), 1), 0, 0
    )
    batch = make_batch([b"a"], producer=ProducerStamp(1, 0, 0), attributes=TRANSACTIONAL_BIT)
    with pytest.raises(InvalidTxnStateError):
        log.append(batch, 0, NOW_MS, None, guard)
    assert ask() is not guard
    writer.write(log)
    assert ask() is None, "the transaction is open"
    assert log.producers.begin_verification(1, 1, 0, adds=False, now_ms=NOW_MS) is not None
    with pytest.raises(InvalidProducerEpochError):
        log.producers.begin_verification(1, -1, 0, adds=False, now_ms=NOW_MS)


def test_the_marker_of_the_transaction_before_leaves_the_guard_of_the_next_one_alone() -> None:
    log = new_log()
    writer = Writer(1, version=PER_TRANSACTION)
    writer.write(log)
    guard = log.producers.begin_verification(1, 1, 0, adds=True, now_ms=NOW_MS)
    writer.end(log, committed=True)
    batch = make_batch([b"a"], producer=ProducerStamp(1, 1, 0), attributes=TRANSACTIONAL_BIT)
    log.append(batch, 0, NOW_MS, None, guard)
    writer.end(log, committed=True)
    guard = log.producers.begin_verification(1, 2, 0, adds=True, now_ms=NOW_MS)
    writer.end(log, committed=False)  # of the one that is asked about
    batch = make_batch([b"a"], producer=ProducerStamp(1, 3, 0), attributes=TRANSACTIONAL_BIT)
    with pytest.raises(InvalidTxnStateError):
        log.append(batch, 0, NOW_MS, None, guard)


@pytest.mark.parametrize("committed", [False, True])
def test_sequences_of_a_transaction_that_has_ended_are_not_taken_for_repeated_ones(
    *, committed: bool
) -> None:
    log = new_log()
    writer = Writer(1)
    writer.write(log)
    writer.end(log, committed=committed)
    writer.write(log)
    writer.sequence = 0
    with pytest.raises(UnknownProducerIdError, match="has ended"):
        writer.write(log)
    writer.end(log, committed=committed)
    writer.sequence = 1
    with pytest.raises(UnknownProducerIdError, match="has ended"):
        writer.write(log)
    assert log.log_end_offset == 4
    writer.epoch, writer.sequence = 1, 0
    assert writer.write(log) == 4


@pytest.mark.parametrize(("sequence", "count"), [(0, 1), (2, 4), (3, 1), (3, 9)])
@pytest.mark.parametrize("is_open", [False, True])
def test_nor_are_they_a_gap_in_other_batches_than_before(
    sequence: int, count: int, *, is_open: bool
) -> None:
    log = new_log()
    writer = Writer(1)
    writer.write(log, 2)
    writer.write(log, 2)
    writer.end(log, committed=False)
    if is_open:
        writer.write(log)
    end_offset = log.log_end_offset
    writer.sequence = sequence
    with pytest.raises(UnknownProducerIdError, match="has ended"):
        writer.write(log, count)
    assert log.log_end_offset == end_offset
    writer.sequence = 6
    with pytest.raises(OutOfOrderSequenceError):
        writer.write(log)


def test_what_came_in_other_batches_in_the_same_transaction_is_out_of_order() -> None:
    log = new_log()
    writer = Writer(1)
    writer.write(log)
    writer.end(log, committed=True)
    writer.write(log, 2)
    writer.sequence = 1
    with pytest.raises(OutOfOrderSequenceError):
        writer.write(log)


def test_a_batch_that_comes_again_in_its_transaction_is_answered_with_its_offset() -> None:
    log = new_log()
    writer = Writer(1)
    writer.write(log)
    writer.end(log, committed=True)
    for sequence, offset in ((1, 2), (2, 3), (2, 3), (1, 2)):
        writer.sequence = sequence
        assert writer.write(log) == offset
    assert log.log_end_offset == 4


@pytest.mark.parametrize(("first", "later"), [(2, 5), (SEQUENCE_MAX - 1, 1)])
@pytest.mark.parametrize("in_turn", [True, False])
def test_what_waited_first_for_the_coordinator_comes_first(
    first: int, later: int, *, in_turn: bool
) -> None:
    log = new_log()
    ask = log.producers.begin_verification
    order = (first, later) if in_turn else (later, first)
    guard, same = (ask(1, 0, sequence, adds=False, now_ms=NOW_MS) for sequence in order)
    assert guard is same
    second = make_batch([b"a"], producer=ProducerStamp(1, 0, later), attributes=TRANSACTIONAL_BIT)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(second, 0, NOW_MS, None, guard)
    batch = make_batch([b"a"], producer=ProducerStamp(1, 0, first), attributes=TRANSACTIONAL_BIT)
    log.append(batch, 0, NOW_MS, None, guard)


def test_an_epoch_for_each_transaction_begins_with_sequence_0() -> None:
    log = new_log()
    guard = log.producers.begin_verification(1, 4, 3, adds=True, now_ms=NOW_MS)
    batch = make_batch([b"a"], producer=ProducerStamp(1, 4, 3), attributes=TRANSACTIONAL_BIT)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(batch, 0, NOW_MS, None, guard)


def test_a_newer_epoch_waits_in_place_of_an_older_one() -> None:
    log = new_log()
    ask = log.producers.begin_verification
    guard = ask(1, 0, 0, adds=False, now_ms=NOW_MS)
    assert ask(1, 1, 7, adds=False, now_ms=NOW_MS) is guard
    assert guard is not None
    assert (guard.epoch, guard.lowest_sequence) == (1, 7)


def test_markers_of_old_coordinators_and_producers_are_refused() -> None:
    log = new_log()
    writer = Writer(1, epoch=3, coordinator_epoch=5)
    writer.write(log)
    writer.end(log, committed=True)
    for coordinator_epoch, epoch, error in (
        (4, 3, TransactionCoordinatorFencedError),
        (5, 2, InvalidProducerEpochError),
        (6, 2, InvalidProducerEpochError),
    ):
        late = TransactionEnd(1, epoch, EndMarker(True, coordinator_epoch), LEGACY)
        with pytest.raises(error):
            log.append_marker(late, 0, NOW_MS)
    log.append_marker(writer.ending(committed=True), 0, NOW_MS)  # once more
    assert stable(log) == log.log_end_offset == 3


def test_a_marker_of_the_epoch_of_an_open_transaction_is_that_of_the_one_before() -> None:
    log = new_log()
    writer = Writer(1, version=PER_TRANSACTION)
    writer.write(log)
    writer.end(log, committed=True)
    again = writer.ending(committed=True)
    log.append_marker(again, 0, NOW_MS)
    writer.write(log)
    with pytest.raises(InvalidProducerEpochError):
        log.append_marker(again, 0, NOW_MS)
    assert stable(log) == 3
    log.append_marker(again._replace(version=LEGACY), 0, NOW_MS)
    assert stable(log) == 5


def test_coordinators_write_without_sequences_and_nobody_else() -> None:
    log = new_log()
    stamp = ProducerStamp(1, 2, NO_SEQUENCE)

    def pending() -> memoryview:
        return make_batch([b"a"], producer=stamp, attributes=TRANSACTIONAL_BIT)

    with pytest.raises(InvalidRecordError):
        log.append(pending(), 0, NOW_MS)
    with pytest.raises(InvalidTxnStateError):
        log.append(pending(), 0, NOW_MS, by_coordinator=True)
    guard = log.producers.begin_verification(1, 2, NO_SEQUENCE, adds=True, now_ms=NOW_MS)
    log.append(pending(), 0, NOW_MS, None, guard, by_coordinator=True)
    log.append(pending(), 0, NOW_MS, by_coordinator=True)
    assert stable(log) == 0
    log.append_marker(TransactionEnd(1, 3, EndMarker(True, 0), PER_TRANSACTION), 0, NOW_MS)
    assert stable(log) == 3
    with pytest.raises(InvalidProducerEpochError):
        log.append(pending(), 0, NOW_MS, by_coordinator=True)
    with pytest.raises(InvalidRecordError):
        log.append(pending(), 0, NOW_MS)


def test_transactional_records_have_a_producer() -> None:
    with pytest.raises(InvalidRecordError):
        new_log().append(make_batch([b"a"], attributes=TRANSACTIONAL_BIT), 0, NOW_MS)


def test_producers_in_a_transaction_are_not_forgotten() -> None:
    log = new_log()
    Writer(1).write(log)
    Writer(2).write(log, transactional=False)
    log.producers.begin_verification(3, 0, 0, adds=False, now_ms=NOW_MS)
    assert log.producers.expire(NOW_MS + 1000, 1000) == 1
    assert log.producers.get(1) is not None
    assert log.producers.get(2) is None


SMALL = TopicConfig(segment_bytes=700, index_interval_bytes=200)
HISTORY = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["write", "plain"]), st.integers(0, 3), st.integers(1, 3)),
        st.tuples(st.sampled_from(["commit", "abort"]), st.integers(0, 3), st.just(0)),
        st.tuples(st.sampled_from(["abort"]), st.integers(0, 3), st.just(0)),
        st.tuples(
            st.sampled_from(
                ["flush", "checkpoint", "kill", "power", "cut", "replicated", "delete"]
            ),
            st.integers(0, 5),
            st.just(0),
        ),
    ),
    max_size=60,
)


class World:
    """A log on a disk, and producers that write to it; what they know is what the log says."""

    def __init__(self, seed: int) -> None:
        self.disk = new_disk(seed)
        self.store = open_data(self.disk)
        self.log = self.store.create(PARTITION, TOPIC_ID, SMALL, now_ms=NOW_MS)
        self.high_watermark = 0
        Writer(9).write(self.log, transactional=False)
        self.checkpoint()

    def run(self, name: str, number: int, count: int) -> None:
        log = self.log
        writer = Writer(number, version=PER_TRANSACTION if number % 2 else LEGACY)
        known = log.producers.get(number)
        if known is not None:
            writer.epoch, writer.sequence = known.epoch, max(known.next_sequence, 0)
        match name:
            case "write" | "plain":
                try:
                    writer.write(log, count, transactional=name == "write", size=40)
                except InvalidTxnStateError:
                    assert name == "plain"
            case "commit" | "abort":
                writer.end(log, committed=name == "commit")
            case "flush":
                flush(log)
            case "checkpoint":
                self.checkpoint()
            case "kill" | "power":
                self.crash(power=name == "power")
            case "cut":
                offset = max(log.log_end_offset - number, log.log_start_offset)
                log.truncate_to(offset, now_ms=NOW_MS)
            case "replicated":
                ends = [parse_header(each, 0).next_offset for each in read_all(log).values()]
                self.high_watermark = max([self.high_watermark, *ends[: len(ends) - number]])
            case _:
                segments = log._segments
                log.delete_records_before(segments.base_of(min(number, len(segments) - 1)))
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        self.high_watermark = max(self.high_watermark, self.log.log_start_offset)

    def checkpoint(self) -> None:
        for logs in self.store.take_dirty():
            started = self.store.start_checkpoint(logs)
            started.run()
            self.store.finish_flush(started)
        self.store.prepare_checkpoint({}).run()

    def crash(self, *, power: bool) -> None:
        if power:
            self.disk.lose_power()
        else:
            self.disk.restart()
        self.store = open_data(self.disk)
        self.log = self.store.create(PARTITION, TOPIC_ID, SMALL, now_ms=NOW_MS)


@settings(max_examples=300, deadline=None)
@given(HISTORY, st.integers(0, 1000))
def test_what_a_log_knows_is_what_its_batches_say_whatever_happens(
    history: list[tuple[str, int, int]], seed: int
) -> None:
    world = World(seed)
    deleted = False
    for step in history:
        world.run(*step)
        deleted = deleted or step[0] == "delete"
        if not deleted:  # else what came before is known, and cannot be read any more
            check(world.log, world.high_watermark)
    assert read_all(world.log) is not None


@given(HISTORY)
def test_a_follower_knows_at_each_offset_what_its_leader_knew_there(
    history: list[tuple[str, int, int]],
) -> None:
    leader = World(0)
    follower = new_log(config=SMALL)
    leader.run("plain", 0, 1)
    for name, number, count in history:
        if name in {"write", "plain", "commit", "abort"}:
            leader.run(name, number, count)
            batches = [
                memoryview(bytearray(batch))
                for offset, batch in read_all(leader.log).items()
                if offset >= follower.log_end_offset
            ]
            follower.append_replicated(join(batches), now_ms=NOW_MS)
            assert states_of(follower) == states_of(leader.log)
            check(follower, follower.log_end_offset)


def states_of(log: Log) -> list[object]:
    """All that is known of producers."""
    return [
        (
            producer_id,
            producer.epoch,
            producer.coordinator_epoch,
            producer.transaction_start,
            producer.next_sequence,
            producer.batches,
            producer.last_timestamp_ms,
        )
        for producer_id, producer in sorted(log.producers.items())
    ]


def test_a_follower_takes_no_control_batch_that_cannot_be_read() -> None:
    leader, follower = new_log(), new_log()
    batch = end_marker_batch(
        TransactionEnd(1, 0, EndMarker(committed=True, coordinator_epoch=0), LEGACY), NOW_MS
    )
    damaged = make_batch([b""], producer=ProducerStamp(1, 0, -1), attributes=0x30)
    assert leader.log_end_offset == 0
    with pytest.raises(KafkaError):
        follower.append_replicated(damaged, now_ms=NOW_MS)
    follower.append_replicated(memoryview(_placed(batch)), now_ms=NOW_MS)
    assert told_by(follower).open == {}


def _placed(batch: bytearray) -> bytearray:
    batch[12:16] = b"\0\0\0\0"
    return batch


def test_a_follower_takes_control_batches_of_other_kinds_that_end_nothing() -> None:
    log = new_log()
    producer, data, control = ProducerStamp(1, 0, 0), TRANSACTIONAL_BIT, 0x30
    for batch in (
        make_batch([b"v"], producer=producer, attributes=data),
        make_batch([b""], keys=[b"\0\0\0\5"], producer=producer, attributes=control),
    ):
        assign_offset(batch, 0, log.log_end_offset, 0)
        log.append_replicated(batch, now_ms=NOW_MS)
    assert (log.log_end_offset, stable(log)) == (2, 0)


def test_where_the_broker_dates_records_it_dates_markers_too() -> None:
    log = new_log(config=TopicConfig(message_timestamp_type="LogAppendTime"))
    writer = Writer(1)
    writer.write(log)
    marker = log.append_marker(writer.ending(committed=True), 0, NOW_MS + 5)
    header = parse_header(read_all(log)[1], 0)
    assert (marker.base_offset, marker.log_append_time_ms) == (1, NOW_MS + 5)
    assert (header.is_log_append_time, header.max_timestamp_ms) == (True, NOW_MS + 5)
    check(log, 2)


def test_a_marker_that_was_cut_off_aborts_nothing() -> None:
    world = World(0)
    writer = Writer(1)
    writer.write(world.log)
    marker = writer.end(world.log, committed=False)
    world.checkpoint()
    world.log.truncate_to(marker, now_ms=NOW_MS)
    check(world.log, marker)
    writer.end(world.log, committed=True)
    check(world.log, world.log.log_end_offset)
    world.crash(power=False)
    check(world.log, world.log.log_end_offset)


def test_a_snapshot_of_a_segment_that_was_cut_off_vouches_for_no_index() -> None:
    disk = new_disk()
    log = new_log(disk)
    first, second = Writer(3), Writer(4)
    first.write(log)
    first.end(log, committed=False)
    second.write(log)
    log.roll(NOW_MS)
    second.write(log)
    flush(log)  # writes the snapshot that was made when the segment began
    log.truncate_to(3, now_ms=NOW_MS)
    second.end(log, committed=False)
    log._segments.active.write_out_aborted()
    index = disk.open(f"/data/{PARTITION}/{0:020d}.txnindex", create=False)
    half = index.size_bytes() // 2
    index.write_at(bytes(half), half)  # what a power cut makes of an entry that was not synced
    disk.restart()

    log = open_data(disk).logs[PARTITION]

    active = log._segments.active.aborted
    assert active is not None
    assert active.all == told_by(log).aborted


def test_a_restart_does_not_make_stable_what_is_not_replicated() -> None:
    world = World(0)
    writer = Writer(1)
    first_offset = writer.write(world.log)
    writer.write(world.log)
    writer.end(world.log, committed=True)
    world.checkpoint()
    world.crash(power=True)
    check(world.log, first_offset + 1)
    assert world.log.producers.last_stable_offset(first_offset + 1) == first_offset


def test_an_index_that_compaction_made_is_believed_below_the_snapshot() -> None:
    aborted = [AbortedTransaction(1, n, n + 1, n + 2) for n in range(0, 30, 3)]
    data = pack_aborted(aborted)
    assert trusted_part(data, 0, IndexMark(0, 68, 12345), 10) == pack_aborted(aborted[:3])
    assert trusted_part(data, 0, IndexMark(50, 0, 0), 10) == pack_aborted(aborted[:3])
    assert trusted_part(data, 50, IndexMark(0, 0, 0), 99) == b""
    assert trusted_part(data, 0, NO_MARK, 99) == b""


def test_an_index_of_many_is_searched_a_part_at_a_time() -> None:
    entries = AbortedEntries(b"", has_file=False)
    for n in range(0, 600, 3):
        entries.append(AbortedTransaction(1, n, n + 1, n + 2))
    assert len(entries.between(3, 500)[0]) == 166
    assert entries.between(3, 500)[1]
    assert entries.between(0, 10_000) == (entries.all, False)


def test_control_batches_of_other_kinds_end_nothing() -> None:
    end = TransactionEnd(1, 0, EndMarker(committed=True, coordinator_epoch=0), LEGACY)
    batch = end_marker_batch(end, NOW_MS)
    batch[69] = 5  # the type in the key
    assert find_end_marker(bytes(batch), parse_header(batch, 0)) is None
    assert find_end_marker(bytes(batch[:70]), parse_header(batch, 0)) is None
