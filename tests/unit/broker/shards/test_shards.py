"""A coordinator is what its partition says: written as its leader, read again by the next one."""

import errno
from collections.abc import Callable

import pytest

from quorate.broker.log.log import Log
from quorate.broker.shards.effects import Effects, Entry, ignore
from quorate.broker.shards.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)
from quorate.broker.shards.shard import RELOAD_MS
from quorate.broker.shards.shards import partition_of
from quorate.errors import ErrorCode
from quorate.quorum.metadata import records as r
from quorate.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, assign_offset
from quorate.records.control import EndMarker, TransactionEnd
from quorate.records.record import ProducerStamp
from tests.simulation.cold_disk import ColdDisk
from tests.simulation.disk import SimFile
from tests.unit.broker.harness import NOW_MS, new_node, stored
from tests.unit.broker.log.batches import make_batch
from tests.unit.broker.replication.cluster import TOPIC, Cluster
from tests.unit.broker.shards.diary import COMMIT_TIMEOUT_MS, Answers, World, shards_of

NONE = ErrorCode.NONE
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def alone() -> World:
    return World(Cluster((1,)))


class Later:
    """What is to be done aside, when the test says."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def __call__(self, run: Callable[[], None], then: Callable[[], None]) -> None:
        self.waiting.append((run, then))

    def work(self) -> None:
        run, then = self.waiting.pop(0)
        run()
        then()


def placed(batch: memoryview, offset: int) -> memoryview:
    """Return a batch as a leader in epoch 1 sends it."""
    assign_offset(batch, 0, offset, 1)
    return batch


# --- where ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "partition"),
    # What Java 17 says of Utils.abs(key.hashCode()) % 50, which is 0 for the least of all hashes.
    [
        ("", 0),
        ("a", 47),
        ("my-group", 12),
        ("orders", 31),
        ("Größe", 35),
        ("🐍", 0),
        ("polygenelubricants", 0),
        ("group" * 100, 38),
    ],
)
def test_a_key_belongs_to_the_partition_that_kafka_says(key: str, partition: int) -> None:
    assert partition_of(key, 50) == partition


def test_without_the_topic_nobody_is_coordinator() -> None:
    world = alone()
    world.cluster.apply(r.TopicRemoved("test", 0, world.cluster.topic_id))
    with pytest.raises(CoordinatorNotAvailableError):
        world.diary()


def test_only_the_leader_coordinates() -> None:
    world = World()
    assert world.diary(1).life == ["loaded"]
    with pytest.raises(NotCoordinatorError):
        world.diary(2)
    assert [len(list(shards)) for shards in world.shards.values()] == [1, 0, 0]


# --- writing -------------------------------------------------------------------


def test_what_is_written_is_in_the_state_at_once_and_told_when_it_is_replicated() -> None:
    world = World()
    answers = world.diary().write(b"a", b"b")
    assert (answers.taken, answers, world.diary().keys) == (True, [], [b"a", b"b"])
    world.cluster.replicate()
    assert answers == [NONE]


def test_the_entries_of_a_decision_are_one_batch() -> None:
    world = alone()
    assert world.diary().write(b"a", b"b", b"c") == [NONE]
    assert world.cluster.leader().log.log_end_offset == 3
    piece = world.cluster.leader().read(0, max_bytes=10_000, at_least_one=True)
    assert piece is not None


def test_answers_come_in_the_order_of_writes() -> None:
    world, told = World(), list[int]()

    def note(number: int) -> Callable[[ErrorCode], None]:
        return lambda _code: told.append(number)

    for number in range(4):
        world.diary().write(b"k", done=note(number))
    world.cluster.replicate()
    assert told == [0, 1, 2, 3]


def test_with_too_few_in_sync_nothing_is_written() -> None:
    world = World(Cluster((1, 2, 3), isr=(1,), min_insync_replicas="2"))
    answers = world.diary().write(b"a")
    assert (answers, answers.taken, world.diary().keys) == ([NOT_AVAILABLE], False, [])
    assert world.cluster.leader().log.log_end_offset == 0


def test_when_too_few_are_in_sync_after_the_write_it_may_have_happened() -> None:
    world = World(Cluster((1, 2, 3), min_insync_replicas="2"))
    answers = world.diary().write(b"a")
    world.cluster.change(1, 1, (1,))
    assert (answers, answers.taken) == ([NOT_AVAILABLE], True)


def test_what_takes_too_long_to_be_replicated_may_have_happened() -> None:
    world = World()
    first = world.diary().write(b"a")
    world.cluster.wait(COMMIT_TIMEOUT_MS // 2)
    second = world.diary().write(b"b")
    world.cluster.wait(COMMIT_TIMEOUT_MS // 2)
    assert (first, second) == ([NOT_AVAILABLE], [])
    world.cluster.wait(COMMIT_TIMEOUT_MS // 2)
    assert second == [NOT_AVAILABLE]
    third = world.diary().write(b"c")
    world.cluster.replicate()
    assert third == [NONE]


def test_a_record_that_is_too_large_changes_nothing() -> None:
    world = World(Cluster((1,), max_message_bytes="1000"))
    answers = world.diary().write(b"k" * 2000)
    assert (answers, world.diary().keys) == ([ErrorCode.UNKNOWN_SERVER_ERROR], [])


def test_who_hears_that_a_write_is_committed_may_write() -> None:
    world, told = World(), Answers()

    def again(code: ErrorCode) -> None:
        told.append(code)
        if len(told) < 3:
            world.diary().write(b"more", done=again)

    world.diary().write(b"first", done=again)
    world.cluster.replicate(times=10)
    assert told == [NONE] * 3
    assert world.diary().keys == [b"first", b"more", b"more"]


def test_who_hears_may_write_while_others_are_yet_to_hear_of_the_same_watermark() -> None:
    world, told = World(), list[str]()
    diary = world.diary()

    def note(name: str) -> Callable[[ErrorCode], None]:
        return lambda _code: told.append(name)

    def write_again(_code: ErrorCode) -> None:
        told.append("first")
        diary.write(b"c", done=note("third"))

    diary.write(b"a", done=write_again)
    diary.write(b"b", done=note("second"))
    world.cluster.replicate()
    assert (told[:2], diary.keys) == (["first", "second"], [b"a", b"b", b"c"])
    world.cluster.replicate()
    assert told == ["first", "second", "third"]


def test_who_hears_in_the_middle_of_a_write_finds_all_of_it() -> None:
    """Alone in the ISR, a leader commits what others wait for while it appends."""
    world, seen = World(), list[bytes]()

    def look(_code: ErrorCode) -> None:
        seen.extend(world.diary().keys)

    world.diary().write(b"a", done=look)
    follower = world.cluster.leader().followers
    world.cluster.leader().isr.commit((1,), 99)
    follower.clear()
    world.diary().write(b"b")
    assert seen == [b"a", b"b"]


def test_a_write_of_nothing_waits_for_what_was_written_before() -> None:
    world = World()
    world.diary().write(b"a", subject="s")
    nothing = Answers()
    assert world.diary().writer.write(Effects("s", (), nothing.append))
    assert nothing == []
    world.cluster.replicate()
    assert nothing == [NONE]


# --- reading -------------------------------------------------------------------


def test_what_is_read_is_told_when_it_cannot_be_lost_any_more() -> None:
    world, told, other = World(), Answers(), Answers()
    diary = world.diary()
    diary.write(b"a", subject="mine")
    diary.writer.when_committed("mine", told.append)
    diary.writer.when_committed("yours", other.append)
    assert (told, other) == ([], [NONE])
    world.cluster.replicate()
    assert told == [NONE]
    diary.writer.when_committed("mine", told.append)
    assert told == [NONE, NONE]


def test_of_all_whose_state_a_write_changes_nothing_is_told_before() -> None:
    world, told, other = World(), Answers(), Answers()
    writer = world.diary().writer
    entries = (Entry(b"a", None), Entry(b"b", None))
    writer.write(Effects("first", entries, ignore, also=("second",)))
    writer.when_committed("second", told.append)
    writer.when_committed("third", other.append)
    assert (told, other) == ([], [NONE])
    world.cluster.replicate()
    assert told == [NONE]


def test_a_reader_waits_for_the_last_write_not_for_the_first() -> None:
    world, told = World(), Answers()
    diary = world.diary()
    first = diary.write(b"a", subject="mine")
    for follower_id in (2, 3):
        world.cluster.fetch(follower_id)
    diary.write(b"b", subject="mine")
    for follower_id in (2, 3):
        world.cluster.fetch(follower_id)
    diary.writer.when_committed("mine", told.append)
    assert (first, told) == ([NONE], [])
    world.cluster.replicate()
    assert told == [NONE]


def test_a_reader_waits_also_after_the_writer_was_given_up() -> None:
    world, told = World(), Answers()
    diary = world.diary()
    diary.write(b"a", subject="first")
    diary.write(b"b", subject="mine")
    world.cluster.wait(COMMIT_TIMEOUT_MS)
    diary.writer.when_committed("mine", told.append)
    assert told == []
    world.cluster.replicate()
    assert told == [NONE]
    diary.writer.write(Effects("mine", (), ignore))


def test_elsewhere_is_asked_when_another_broker_leads() -> None:
    world, told = World(), Answers()
    diary = world.diary()
    waiting = diary.write(b"a")
    world.cluster.change(2, 2, (1, 2, 3))
    assert (waiting, diary.life) == ([NOT_COORDINATOR], ["loaded", "unloaded"])
    diary.writer.when_committed("s", told.append)
    answers = diary.write(b"b")
    assert (told, answers, answers.taken) == ([NOT_COORDINATOR], [NOT_COORDINATOR], False)
    assert world.diary(2).life == ["loaded"]


def test_nothing_is_written_while_the_broker_is_about_to_follow() -> None:
    """Between the end of an epoch and the next one, others get turns."""
    world = World()
    diary, replicas = world.diary(), world.cluster.nodes[1].replicas
    replicas._leave(world.cluster.leader())  # pyright: ignore[reportPrivateUsage]
    answers = diary.write(b"a")
    assert (answers, diary.keys) == ([NOT_COORDINATOR], [])
    with pytest.raises(NotCoordinatorError):
        world.diary()
    assert list(world.shards[1]) == []


# --- loading -------------------------------------------------------------------


def test_the_next_leader_has_the_same_state() -> None:
    world = World()
    world.diary().write(b"a", b"b")
    world.diary().write(b"c")
    world.cluster.replicate()
    before = world.diary().entries
    world.cluster.change(2, 2, (1, 2, 3))
    assert world.diary(2).entries == before


def test_what_a_new_leader_has_read_is_not_told_before_it_is_committed() -> None:
    world = World()
    world.diary().write(b"a")
    world.cluster.fetch(2)  # broker 3 does not have it yet
    world.cluster.fetch(2)
    world.cluster.change(2, 2, (1, 2, 3))
    with pytest.raises(CoordinatorLoadInProgressError):
        world.diary(2)
    for follower in (1, 3, 1, 3):
        world.cluster.fetch(follower, 2)
    assert (world.diary(2).keys, world.diary(2).life) == ([b"a"], ["loaded"])


def test_with_too_few_in_sync_what_was_read_is_told_once_there_are_enough() -> None:
    world = World(Cluster((1, 2, 3), min_insync_replicas="2"))
    world.diary().write(b"a")
    world.cluster.fetch(2, times=2)
    world.cluster.change(2, 2, (2, 3))
    world.cluster.change(2, 2, (2,))
    with pytest.raises(CoordinatorLoadInProgressError):
        world.diary(2)
    world.cluster.change(2, 2, (2, 3))
    for _ in range(3):
        world.cluster.fetch(3, 2)
    assert world.diary(2).keys == [b"a"]


def test_a_leader_that_is_replaced_before_what_it_read_is_committed_never_serves() -> None:
    world = World()
    world.diary().write(b"a")
    world.cluster.fetch(2, times=2)
    world.cluster.change(2, 2, (1, 2, 3))
    world.cluster.change(3, 3, (1, 2, 3))
    world.cluster.wait(RELOAD_MS)
    with pytest.raises(NotCoordinatorError):
        world.diary(2)


def test_a_large_partition_is_read_a_little_at_a_time() -> None:
    aside = Later()
    world = World(aside=aside)
    keys = [f"{n:05}".encode() * 200 for n in range(300)]
    for key in keys:
        world.diary().write(key)
    world.cluster.replicate(times=10)
    world.cluster.change(2, 2, (1, 2, 3))
    turns = 0
    while aside.waiting:
        assert world.shards[2].is_loading
        with pytest.raises(CoordinatorLoadInProgressError):
            world.diary(2)
        aside.work()
        turns += 1
    assert turns > 3
    assert (world.diary(2).keys, world.shards[2].is_loading) == (keys, False)


def test_a_leader_that_is_replaced_while_it_loads_never_serves() -> None:
    aside = Later()
    world = World(aside=aside)
    world.diary().write(b"a")
    world.cluster.replicate()
    world.cluster.change(2, 2, (1, 2, 3))
    world.cluster.change(3, 3, (1, 2, 3))
    aside.work()
    with pytest.raises(NotCoordinatorError):
        world.diary(2)
    aside.work()
    assert world.diary(3).keys == [b"a"]


def test_the_disk_is_not_waited_for_on_the_loop() -> None:
    disk = ColdDisk()
    node = new_node(disk=disk)
    node.broker.aside = disk.aside
    node.create_topic(TOPIC, segment_bytes="1024")
    shards = shards_of(node)
    node.lead(TOPIC, 0, 1)
    for number in range(10):
        shards.of("any").write(bytes([number]) * 900)
    keys = shards.of("any").keys
    disk.chill()
    disk.waits = 0
    node.lead(TOPIC, 0, 2)
    node.lead(TOPIC, 0, 3)
    assert len(disk.at_work) == 2
    while disk.at_work:
        disk.work()
    assert (shards.of("any").keys, disk.waits) == (keys, 0)


def test_what_was_found_in_memory_may_have_to_be_read_from_the_disk() -> None:
    disk = ColdDisk()
    node = new_node(disk=disk)
    node.broker.aside = disk.aside
    node.create_topic(TOPIC, segment_bytes="1024")
    shards = shards_of(node)
    node.lead(TOPIC, 0, 1)
    for number in range(3):
        shards.of("any").write(bytes([number]) * 900)
    keys = shards.of("any").keys
    node.lead(TOPIC, 0, 2)
    while disk.at_work:
        disk.work()
    node.lead(TOPIC, 0, 3)  # all files are open now, and in memory
    while disk.at_work:
        disk.chill()
        disk.work()
    assert shards.of("any").keys == keys


def test_a_partition_that_cannot_be_read_is_read_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = alone()
    world.diary().write(b"a")

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EIO, "bad sector")

    with monkeypatch.context() as broken:
        broken.setattr(SimFile, "read_at", refuse)
        world.cluster.change(1, 2, (1,))
    with pytest.raises(CoordinatorLoadInProgressError):
        world.diary()
    assert "bad sector" in caplog.text
    world.cluster.wait(RELOAD_MS)
    assert (world.diary().keys, world.diary().life) == ([b"a"], ["loaded"])


def test_half_a_state_is_not_taken_for_the_whole(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def nothing(*_: object, **__: object) -> None:
        return None

    world = alone()
    world.diary().write(b"a")
    with monkeypatch.context() as broken:
        broken.setattr(Log, "read", nothing)
        world.cluster.change(1, 2, (1,))
    assert "nothing is to be read from 0 on" in caplog.text


def test_a_partition_whose_index_cannot_be_read_is_read_again_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(Cluster((1,), segment_bytes="1024"))
    for number in range(4):
        world.diary().write(bytes([number]) * 900)

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EIO, "bad sector")

    with monkeypatch.context() as broken:
        broken.setattr(SimFile, "read_at", refuse)
        world.cluster.change(1, 2, (1,))
    with pytest.raises(CoordinatorLoadInProgressError):
        world.diary()
    world.cluster.wait(RELOAD_MS)
    assert len(world.diary().keys) == 4


def test_who_does_not_lead_any_more_does_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.diary().write(b"a")
    world.cluster.replicate()

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EIO, "bad sector")

    with monkeypatch.context() as broken:
        broken.setattr(SimFile, "read_at", refuse)
        world.cluster.change(2, 2, (1, 2, 3))
    world.cluster.change(3, 3, (1, 2, 3))
    world.cluster.wait(RELOAD_MS)
    assert world.diary(3).keys == [b"a"]


def test_records_that_are_deleted_meanwhile_are_not_missed() -> None:
    aside = Later()
    world = World(Cluster((1,), segment_bytes="1024"), aside)
    for number in range(4):
        world.diary().write(bytes([number]) * 900)
    world.cluster.change(1, 2, (1,))
    world.cluster.leader().log.delete_records_before(3)
    while aside.waiting:
        aside.work()
    assert world.diary().keys == [bytes([3]) * 900]


def test_a_log_that_ends_before_it_should_is_damaged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def too_little(*_: object) -> bytes:
        return content

    world = alone()
    world.diary().write(b"a")
    piece = world.cluster.leader().read(0, max_bytes=1000, at_least_one=True)
    content = stored(piece)[:-1]
    with monkeypatch.context() as broken:
        broken.setattr(SimFile, "read_at", too_little)
        world.cluster.change(1, 2, (1,))
    assert "shorter than what it says" in caplog.text


def test_what_transactions_wrote_is_told_apart() -> None:
    world = alone()
    leader = world.cluster.leader()
    marker = TRANSACTIONAL_BIT | CONTROL_BIT
    seven, eight = ProducerStamp(7, 0, 0), ProducerStamp(8, 0, 0)
    for batch in (
        make_batch([b"v"], keys=[b"k"], attributes=TRANSACTIONAL_BIT, producer=seven),
        make_batch([b"\0" * 6], keys=[b"\0\0\0\1"], attributes=marker, producer=seven),
        make_batch([b"\0" * 6], keys=[b"\0\0\0\0"], attributes=marker, producer=eight),
        make_batch([b"no key"]),
    ):
        leader.log.append_replicated(placed(batch, leader.log.log_end_offset), now_ms=NOW_MS)
    world.cluster.change(1, 2, (1,))
    diary = world.diary()
    assert (diary.entries, diary.pending) == ([], [(7, b"k")])
    assert diary.ended == [(7, True), (8, False)]


def end_of_seven(world: World) -> None:
    """Have producer 7 commit in the partition, and its coordinator there hear of it."""
    end = TransactionEnd(7, 0, EndMarker(committed=True, coordinator_epoch=0), 1)
    world.cluster.leader().append_marker(end, NOW_MS)
    world.shards[1].marker_appended(0, 7, committed=True)


def test_what_a_marker_changes_is_told_when_that_is_replicated() -> None:
    world, told, other = World(), Answers(), Answers()
    diary = world.diary()
    end_of_seven(world)
    assert diary.ended == [(7, True)]
    diary.writer.when_committed("s", told.append)
    diary.writer.when_committed("other", other.append)
    assert (told, other) == ([], [NONE])
    world.cluster.replicate()
    assert told == [NONE]


def test_a_marker_that_is_committed_at_once_keeps_nobody_waiting() -> None:
    world, told = alone(), Answers()
    end_of_seven(world)
    world.diary().writer.when_committed("s", told.append)
    assert told == [NONE]


def test_a_marker_that_comes_while_a_partition_is_read_is_read_with_it() -> None:
    aside = Later()
    world = World(Cluster((1,)), aside)
    for number in range(3):
        world.diary().write(b"%d" % number)
    world.cluster.change(1, 2, (1,))
    assert aside.waiting, "the partition is being read"
    end_of_seven(world)
    while aside.waiting:
        aside.work()
    assert world.diary().ended == [(7, True)]


def test_a_marker_in_a_partition_that_another_coordinates_is_its_business() -> None:
    world = World()
    diary = world.diary()
    world.cluster.change(2, 2, (1, 2, 3))
    world.shards[1].marker_appended(0, 7, committed=True)
    assert diary.ended == []
