"""Replicas that compact on their own: what followers make of batches that stand for others."""

from quorate.model import NO_LEADER
from tests.unit.broker.harness import NOW_MS, new_node
from tests.unit.broker.log.batches import headers_of, make_batch, new_disk, read_all
from tests.unit.broker.log.compacting import checkpoint, compact, put, records_of, table_of
from tests.unit.broker.replication.cluster import Cluster


def keyed(cluster: Cluster, *keys: bytes) -> None:
    """Append a batch for each key, as the leader."""
    leader = cluster.leader()
    for key in keys:
        leader.append(make_batch([b"v" * 300], keys=[key]), acks=1, now_ms=NOW_MS)


def compact_leader(cluster: Cluster) -> None:
    log = cluster.leader().log
    log.roll(NOW_MS)
    keyed(cluster, b"head")
    checkpoint(log)
    compact(cluster.nodes[1].disk, log)


def test_a_follower_goes_on_in_the_midst_of_what_the_leader_compacted() -> None:
    cluster = Cluster((1, 2), cleanup_policy="compact")
    keyed(cluster, b"a", b"a", b"a")
    cluster.replicate()
    follower = cluster.follower(2)
    assert follower.log.log_end_offset == 3
    keyed(cluster, b"a", b"a", b"a", b"b")
    compact_leader(cluster)
    first = next(iter(read_all(cluster.leader().log).values()))
    assert headers_of(first)[0].next_offset > 3, "an empty batch reaches over the follower's end"
    cluster.replicate()
    assert follower.log.log_end_offset == cluster.leader().log.log_end_offset
    assert table_of(records_of(follower.log)) == table_of(records_of(cluster.leader().log))
    assert [record.key for record in records_of(follower.log)][-3:] == [b"a", b"b", b"head"]


def test_a_follower_that_lacks_what_others_were_replaced_by_fetches_all_of_it_again() -> None:
    cluster = Cluster((1, 2), cleanup_policy="compact")
    keyed(cluster, b"a", b"b", b"a", b"b")
    cluster.replicate()
    log = cluster.follower(2).log
    log.cleaned.reach = 100  # as if a crash had taken the end of it
    cluster.change(leader_id=1, isr=(1,), leader_epoch=7)
    assert (log.log_start_offset, log.log_end_offset, log.cleaned.reach) == (0, 0, 0)


def test_a_follower_that_lacks_the_beginning_of_its_log_fetches_all_of_it_again() -> None:
    cluster = Cluster((1, 2))
    for _ in range(3):
        cluster.append(b"v")
    cluster.replicate()
    log = cluster.follower(2).log
    log.delete_records_before(2)
    log.lost_from = 0  # as if its first segments had been missing when it was opened
    cluster.change(leader_id=1, isr=(1,), leader_epoch=7)
    assert (log.log_start_offset, log.log_end_offset, log.anew_from) == (0, 0, None)
    cluster.replicate()
    assert records_of(log) == records_of(cluster.leader().log)


def test_a_leader_goes_on_with_a_log_that_lacks_its_beginning() -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a", b"b")
    cluster.replicate()
    log = cluster.follower(2).log
    log.lost_from = 0
    cluster.change(leader_id=2, isr=(2,), leader_epoch=7)
    assert (log.log_end_offset, log.anew_from) == (2, None)


def test_the_only_replica_keeps_what_damage_left_of_a_compacted_log() -> None:
    disk = new_disk()
    node = new_node(disk=disk)
    topic_id = node.create_topic("t", cleanup_policy="compact")
    log = node.leader("t").log
    for number in range(3):
        put(log, (b"%d" % number, b"v"), (b"again", b"v"))
        log.roll(NOW_MS)
    put(log, (b"head", b""))
    checkpoint(log)
    compact(disk, log)
    node.replicas.store.close(clean=False, now_ms=NOW_MS)
    for name in disk.list_directory("/data"):
        if name.startswith("checkpoints"):
            disk.remove(f"/data/{name}")  # so that all of it is looked through
    path = f"{log.directory}/{0:020d}.log"
    disk.open(path, create=False).write_at(b"?", disk.size_bytes(path) - 1)
    disk.restart()
    again = new_node(disk=disk)
    assert again.create_topic("t", leader_id=NO_LEADER, cleanup_policy="compact") == topic_id
    again.lead("t", 0, 1)
    kept = again.leader("t").log
    assert kept.log_end_offset < kept.cleaned.reach
    assert [record.key for record in records_of(kept)] == [b"0", b"1"]
    for value in (b"1", b"2"):
        put(kept, (b"new", value), leader_epoch=1)
    kept.roll(NOW_MS)
    put(kept, (b"head", b""), leader_epoch=1)
    checkpoint(kept)
    compact(disk, kept)
    assert [record.key for record in records_of(kept)] == [b"0", b"1", b"new", b"head"]


def test_a_follower_whose_disk_refuses_to_empty_its_log_follows_and_empties_it_as_it_fetches() -> (
    None
):
    cluster = Cluster((1, 2), partitions=2, cleanup_policy="compact")
    keyed(cluster, b"a", b"b", b"a", b"b")
    cluster.replicate()
    log = cluster.follower(2).log
    log.cleaned.reach = 100  # as if a crash had taken the end of it
    disk = cluster.nodes[2].disk
    disk.capacity_bytes = disk.used_bytes()
    for partition in (0, 1):
        cluster.change(leader_id=1, isr=(1,), leader_epoch=7, partition=partition)
    assert cluster.follower(2, partition=1).leader_epoch == 7, "the others are followed, too"
    assert cluster.follower(2).log.log_end_offset == 4
    cluster.fetch(2, times=2)
    assert cluster.proposed() is None, "it does not say that it has all of it"
    disk.capacity_bytes = None
    cluster.wait(1000)
    cluster.replicate()
    assert (log.log_end_offset, log.cleaned.reach) == (4, 0)
    assert records_of(log) == records_of(cluster.leader().log)
