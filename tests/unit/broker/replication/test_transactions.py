"""Transactions on leaders and followers: what is stable, and that all know the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.broker.replication.leader import ACKS_ALL
from quorate.broker.replication.replica import Replica
from quorate.errors import NotEnoughReplicasError, StorageError
from quorate.records.batch import TRANSACTIONAL_BIT
from quorate.records.control import EndMarker, TransactionEnd
from quorate.records.record import ProducerStamp
from tests.simulation.disk import SimFile, out_of_descriptors
from tests.unit.broker.harness import NOW_MS
from tests.unit.broker.log.batches import make_batch, read_all
from tests.unit.broker.log.transacting import told_by
from tests.unit.broker.replication.cluster import Cluster


def write(cluster: Cluster, node_id: int = 1, producer_id: int = 7) -> int:
    """Append a transactional batch as the leader; return its offset."""
    leader = cluster.leader(node_id)
    known = leader.log.producers.get(producer_id)
    epoch, sequence = (known.epoch, max(known.next_sequence, 0)) if known else (0, 0)
    guard = leader.log.producers.begin_verification(
        producer_id, epoch, sequence, adds=False, now_ms=NOW_MS
    )
    batch = make_batch(
        [b"v"], producer=ProducerStamp(producer_id, epoch, sequence), attributes=TRANSACTIONAL_BIT
    )
    result = leader.append(batch, ACKS_ALL, NOW_MS, None, guard)
    cluster.nodes[node_id].replicas.settle()
    return result.base_offset


def end(cluster: Cluster, *, committed: bool, node_id: int = 1, producer_id: int = 7) -> int:
    leader = cluster.leader(node_id)
    known = leader.log.producers.get(producer_id)
    marker = EndMarker(committed, leader.leader_epoch)
    ending = TransactionEnd(producer_id, known.epoch if known else 0, marker, 1)
    result = leader.append_marker(ending, NOW_MS)
    cluster.nodes[node_id].replicas.settle()
    return result.base_offset


def states_of(replica: Replica) -> object:
    """All that a replica knows of producers and transactions."""
    producers = replica.log.producers
    transactions = producers.transactions
    return (
        producers.end_offset,
        sorted(
            (i, p.epoch, p.coordinator_epoch, p.transaction_start, p.next_sequence, p.batches)
            for i, p in producers.items()
        ),
        [] if transactions is None else list(transactions.open.items()),
    )


def aborted_of(replica: Replica) -> list[tuple[int, int, int]]:
    limit_offset = replica.last_stable_offset
    piece = replica.read(0, max_bytes=1 << 20, at_least_one=True, stable=True)
    if piece is None:
        return []
    found = replica.log.aborted_in(piece, 0, limit_offset=limit_offset, may_wait=True)
    return [(a.producer_id, a.first_offset, a.last_offset) for a in found]


def test_a_transaction_is_stable_when_its_marker_is_on_all_in_sync_replicas() -> None:
    cluster = Cluster()
    write(cluster)
    cluster.replicate()
    leader = cluster.leader()
    assert (leader.high_watermark, leader.last_stable_offset) == (1, 0)
    end(cluster, committed=False)
    cluster.fetch(2, times=2)
    assert leader.last_stable_offset == 0
    assert leader.read(0, max_bytes=100, at_least_one=True, stable=True) is None
    cluster.replicate()
    assert leader.last_stable_offset == leader.high_watermark == 2
    assert cluster.follower(2).last_stable_offset == 2
    assert aborted_of(leader) == aborted_of(cluster.follower(3)) == [(7, 0, 1)]


def test_where_nobody_follows_a_transaction_is_stable_when_its_marker_is_written() -> None:
    cluster = Cluster((1,), flush_messages="3")
    leader, news = cluster.leader(), cluster.nodes[1].replicas.news
    write(cluster)
    end(cluster, committed=True)
    assert (leader.high_watermark, leader.last_stable_offset) == (2, 2)
    assert not news.unsynced
    write(cluster)
    end(cluster, committed=True)
    assert list(news.unsynced) == [leader]


def test_with_fsync_a_transaction_is_stable_when_its_marker_is_synced() -> None:
    cluster = Cluster((1,), flush_messages="1")
    node, leader = cluster.nodes[1], cluster.leader()
    write(cluster)
    node.sync()
    end(cluster, committed=True)
    assert (leader.high_watermark, leader.last_stable_offset) == (1, 0)
    node.sync()
    assert leader.last_stable_offset == leader.high_watermark == 2


def test_what_was_aborted_may_be_unreadable_though_records_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster((1,), segment_bytes="1024")
    write(cluster)
    end(cluster, committed=False)
    for _ in range(3):
        cluster.append(b"v" * 900)
    leader = cluster.leader()
    assert aborted_of(leader) == [(7, 0, 1)]
    piece = leader.read(0, max_bytes=1 << 20, at_least_one=True, stable=True)
    assert piece is not None

    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "read_at", out_of_descriptors)
        with pytest.raises(StorageError, match="cannot read the log"):
            leader.aborted_in(piece, 0, may_wait=True)
    assert len(leader.aborted_in(piece, 0, may_wait=True)) == 1


def test_a_marker_needs_enough_replicas() -> None:
    cluster = Cluster(isr=(1,), min_insync_replicas="2")
    with pytest.raises(NotEnoughReplicasError):
        end(cluster, committed=True)
    assert cluster.leader().log.log_end_offset == 0


def test_a_new_leader_goes_on_with_the_transactions_of_the_old_one() -> None:
    cluster = Cluster()
    write(cluster)
    cluster.append(b"plain")
    cluster.replicate()
    cluster.change(leader_id=2, leader_epoch=1, isr=(2, 3))
    leader = cluster.leader(2)
    assert leader.last_stable_offset == 0
    assert leader.log.producers.begin_verification(7, 0, 1, adds=True, now_ms=NOW_MS) is None
    write(cluster, 2)
    end(cluster, committed=False, node_id=2)
    cluster.fetch(3, 2, times=3)
    assert leader.last_stable_offset == leader.high_watermark == 4
    cluster.fetch(1, 2, times=3)
    assert states_of(cluster.follower(1)) == states_of(leader)
    assert aborted_of(cluster.follower(1)) == aborted_of(leader) == [(7, 0, 3)]


def test_a_marker_that_was_lost_with_its_leader_has_ended_nothing() -> None:
    cluster = Cluster()
    write(cluster)
    cluster.replicate()
    end(cluster, committed=False)
    write(cluster)
    cluster.change(leader_id=2, leader_epoch=1, isr=(2, 3))
    end(cluster, committed=True, node_id=2)
    cluster.fetch(1, 2, times=3)
    cluster.fetch(3, 2, times=3)
    former = cluster.follower(1)
    assert states_of(former) == states_of(cluster.leader(2))
    assert aborted_of(former) == aborted_of(cluster.leader(2)) == []
    assert read_all(former.log) == read_all(cluster.leader(2).log)


def test_what_was_stable_is_stable_still_when_something_behind_it_is_cut_off() -> None:
    cluster = Cluster()
    write(cluster)
    end(cluster, committed=True)
    cluster.replicate()
    cluster.append(b"lost")
    cluster.change(leader_id=2, leader_epoch=1, isr=(2, 3))
    cluster.fetch(1, 2)
    former = cluster.follower(1)
    assert former.log.log_end_offset == former.high_watermark == former.last_stable_offset == 2


def test_deleting_the_beginning_of_a_transaction_leaves_nothing_stable_before_it() -> None:
    cluster = Cluster((1,))
    write(cluster)
    write(cluster)
    leader = cluster.leader()
    leader.delete_records_before(1)
    assert leader.last_stable_offset == 1
    assert leader.log.log_start_offset == 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3)),
        st.tuples(st.sampled_from(["commit", "abort"]), st.integers(1, 3)),
        st.tuples(st.just("plain"), st.just(0)),
        st.tuples(st.just("fetch"), st.integers(1, 3)),
        st.tuples(st.just("lead"), st.integers(1, 3)),
    ),
    max_size=40,
)


class World:
    """A cluster, and who leads in it."""

    def __init__(self) -> None:
        self.cluster = Cluster(segment_bytes="1024")
        self.leader_id = 1
        self.leader_epoch = 0

    def run(self, name: str, number: int) -> None:
        cluster, leader_id = self.cluster, self.leader_id
        match name:
            case "write":
                write(cluster, leader_id, number)
            case "commit" | "abort":
                end(cluster, committed=name == "commit", node_id=leader_id, producer_id=number)
            case "plain":
                cluster.append(b"plain", node_id=leader_id)
            case "fetch" if number != leader_id:
                cluster.fetch(number, leader_id)
            case "lead" if number != leader_id:
                self.leader_id, self.leader_epoch = number, self.leader_epoch + 1
                cluster.change(number, self.leader_epoch, (1, 2, 3))
            case _:
                pass

    @property
    def replicas(self) -> list[Replica]:
        """The leader, then the others."""
        followers = [i for i in self.cluster.ids if i != self.leader_id]
        return [self.cluster.leader(self.leader_id), *map(self.cluster.follower, followers)]

    def check(self) -> None:
        leader = self.replicas[0]
        for replica in self.replicas:
            told = told_by(replica.log)
            first_open = min(told.open.values(), default=replica.high_watermark)
            assert replica.last_stable_offset <= min(first_open, replica.high_watermark)
            if read_all(replica.log) == read_all(leader.log):
                assert states_of(replica) == states_of(leader)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_replicas_know_the_same_at_equal_offsets_whoever_leads(
    steps: list[tuple[str, int]],
) -> None:
    world = World()
    for step in steps:
        world.run(*step)
        world.check()
    for _ in range(4):
        for number in world.cluster.ids:
            world.run("fetch", number)
    leader, *followers = world.replicas
    for replica in followers:
        assert states_of(replica) == states_of(leader)
        assert aborted_of(replica) == aborted_of(leader)
