"""The leader of a partition: what counts as committed, who hears of it, and in which order."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.replication.leader import LeaderReplica
from quorate.errors import ErrorCode, NotEnoughReplicasError, OffsetOutOfRangeError, StorageError
from quorate.quorum.metadata import records as r
from quorate.records.record import ProducerStamp
from tests.unit.broker.harness import NOW_MS, Node, new_node, stored
from tests.unit.broker.log.batches import headers_of, make_batch, open_data, read_all

ACKS_ALL = -1


class Reader:
    """Somebody who waits for records."""

    def __init__(self, replica: LeaderReplica) -> None:
        self.heard: list[str] = []
        replica.read_waiters[self] = None

    def on_progress(self) -> None:
        self.heard.append("progress")

    def on_closed(self) -> None:
        self.heard.append("closed")


class Commits:
    """Notes whose offsets are decided, in order."""

    def __init__(self) -> None:
        self.decided: list[tuple[int, bool]] = []

    def wait(self, replica: LeaderReplica, offset: int) -> None:
        def decided(code: ErrorCode) -> None:
            self.decided.append((offset, code == ErrorCode.NONE))

        replica.when_committed(offset, decided)


def new_leader(**configs: str) -> tuple[Node, LeaderReplica]:
    node = new_node()
    node.create_topic("appLogs", configs=configs)
    return node, node.leader()


def test_with_one_replica_records_are_committed_when_they_are_appended() -> None:
    node, replica = new_leader()
    reader = Reader(replica)
    node.append(b"a")
    assert (replica.high_watermark, reader.heard) == (1, ["progress"])
    assert not node.replicas.news.unsynced


def test_with_flush_messages_1_records_are_committed_when_they_are_synced() -> None:
    node, replica = new_leader(flush_messages="1")
    commits, reader = Commits(), Reader(replica)
    node.append(b"a")
    commits.wait(replica, 1)
    assert (replica.high_watermark, commits.decided, reader.heard) == (0, [], [])
    node.sync()
    assert (replica.high_watermark, commits.decided) == (1, [(1, True)])
    assert reader.heard == ["progress"]


def test_with_flush_messages_3_every_third_record_asks_for_a_sync_and_nobody_waits_for_it() -> None:
    node, replica = new_leader(flush_messages="3")
    node.append(b"a", b"b")
    assert (replica.high_watermark, list(node.replicas.news.unsynced)) == (2, [])
    node.append(b"c")
    assert (replica.high_watermark, list(node.replicas.news.unsynced)) == (3, [replica])
    node.sync()
    assert replica.log.flushed_offset == 3


def test_records_that_wait_for_their_sync_are_committed_when_the_topic_no_longer_asks_for_it() -> (
    None
):
    node, replica = new_leader(flush_messages="1")
    commits = Commits()
    node.append(b"a")
    commits.wait(replica, 1)
    node.apply(r.ConfigDeleted("test", 0, "topic", "appLogs", "flush.messages"))
    assert commits.decided == [(1, True)]


def test_a_topic_that_asks_for_syncs_from_now_on_takes_nothing_back() -> None:
    node, replica = new_leader()
    node.append(b"a")
    node.apply(r.ConfigSet("test", 0, "topic", "appLogs", "flush.messages", "1"))
    assert (replica.high_watermark, replica.log.flushed_offset) == (1, 0)
    # Or what waits for a follower by then would be seen by nobody until the next append.
    assert list(node.replicas.news.unsynced) == [replica]
    node.append(b"b")
    assert replica.high_watermark == 1
    node.sync()
    assert replica.high_watermark == 2


@given(st.lists(st.integers(1, 6), max_size=10))
def test_who_waits_is_told_in_the_order_of_offsets_and_then_of_calls(offsets: list[int]) -> None:
    node, replica = new_leader(flush_messages="1")
    for _ in range(6):
        node.append(b"a")
    commits = Commits()
    for offset in offsets:
        commits.wait(replica, offset)
    node.sync()
    assert commits.decided == [(offset, True) for offset in sorted(offsets)]


def test_when_leadership_ends_whoever_waits_is_told() -> None:
    node, replica = new_leader(flush_messages="1")
    commits, reader = Commits(), Reader(replica)
    node.append(b"a")
    commits.wait(replica, 1)
    node.lead("appLogs", 0, leader_epoch=1, leader_id=-1)
    assert (commits.decided, reader.heard) == ([(1, False)], ["closed"])
    assert replica not in node.replicas.news.unsynced


def test_a_leader_of_recovered_records_has_them_synced_before_they_count() -> None:
    node, replica = new_leader(flush_messages="1")
    node.append(b"a")
    topic_id = replica.topic_id
    node.disk.restart()
    restarted = Node({"node.id": "1", "log.dir": "/data"}, node.disk)
    assert restarted.create_topic("appLogs", flush_messages="1") == topic_id
    leader = restarted.leader()
    if leader.log.flushed_offset < 1:
        assert leader.high_watermark == 0
        restarted.sync()
    assert (leader.high_watermark, leader.log.flushed_offset) == (1, 1)


def test_acks_all_is_refused_below_min_insync_replicas_which_never_exceeds_the_replicas() -> None:
    node, replica = new_leader(min_insync_replicas="3")
    batch = make_batch([b"a"])
    assert replica.append(batch, acks=ACKS_ALL, now_ms=NOW_MS).base_offset == 0
    node.create_topic("dbLogs", replicas=(1, 2), min_insync_replicas="3")
    with pytest.raises(NotEnoughReplicasError):
        node.leader("dbLogs").append(make_batch([b"a"]), acks=ACKS_ALL, now_ms=NOW_MS)


@pytest.mark.parametrize(("compression", "codec"), [("uncompressed", 0), ("lz4", 3)])
def test_batches_are_stored_with_the_codec_of_the_topic(compression: str, codec: int) -> None:
    _, replica = new_leader(compression_type=compression)
    stamp = ProducerStamp(7, 0, 0)
    for producer in (stamp, stamp):
        batch = make_batch([b"a" * 100] * 3, codec=1, producer=producer)
        replica.append(batch, acks=1, now_ms=NOW_MS)
    (stored_batch,) = read_all(replica.log).values()
    (header,) = headers_of(stored_batch)
    assert (header.compression, header.record_count, header.producer_id) == (codec, 3, 7)


@pytest.mark.parametrize(("codec", "little", "much"), [("gzip", 1, 9), ("zstd", -1000, 19)])
def test_the_codec_tries_as_hard_as_the_topic_says(codec: str, little: int, much: int) -> None:
    node, replica = new_leader(compression_type=codec)
    words = Random(1).choices([b"GET", b"POST", b"of", b"in", b"took", b"served"], k=5_000)
    value = b" ".join(words)
    sizes: list[int] = []
    for level in (little, much):
        name = f"compression.{codec}.level"
        node.apply(r.ConfigSet("test", 0, "topic", "appLogs", name, str(level)))
        base = replica.append(make_batch([value]), acks=1, now_ms=NOW_MS).base_offset
        sizes.append(headers_of(read_all(replica.log)[base])[0].size_bytes)
    assert sizes[1] < sizes[0]


def test_only_offsets_of_the_log_can_be_read_and_only_below_the_high_watermark() -> None:
    node, replica = new_leader(flush_messages="1")
    node.append(b"a")
    node.sync()
    node.append(b"b")
    taken = replica.read(0, max_bytes=1 << 20, at_least_one=True)
    assert [header.base_offset for header in headers_of(stored(taken))] == [0]
    assert replica.read(1, max_bytes=1 << 20, at_least_one=True) is None
    with pytest.raises(OffsetOutOfRangeError, match="the log has 0 to 2"):
        replica.read(3, max_bytes=1, at_least_one=True)


def test_committed_records_survive_a_power_cut_with_flush_messages_1() -> None:
    node, replica = new_leader(flush_messages="1")
    for value in (b"a", b"b", b"c"):
        node.append(value)
        node.sync()
    node.append(b"unsynced")
    committed = replica.high_watermark
    node.disk.lose_power()
    (log,) = open_data(node.disk).logs.values()
    assert log.log_end_offset >= committed == 3


def test_a_full_disk_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    node = new_node()
    node.create_topic("appLogs")
    node.disk.capacity_bytes = node.disk.used_bytes()
    for _ in range(3):
        with pytest.raises(StorageError):
            node.append(b"a")
    node.disk.capacity_bytes = None
    node.append(b"a")
    node.append(b"b")
    told = [message for message in caplog.messages if message.startswith("appLogs-0")]
    assert len(told) == 2
    assert "No space left" in told[0]
    assert told[1] == "appLogs-0 takes records again"
