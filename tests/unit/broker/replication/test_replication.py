"""Leaders and followers together: what is committed, who is in sync, whose history counts."""

import errno
import os
from dataclasses import replace

import pytest

from quorate.broker.replication.leader import LeaderReplica
from quorate.control.messages import DONE, Failure
from quorate.control.partition_messages import AlteredPartition, PartitionAlteration
from quorate.errors import (
    ErrorCode,
    KafkaError,
    NotEnoughReplicasError,
    OffsetOutOfRangeError,
    StorageError,
)
from quorate.protocol.messages.data import (
    FetchEpochEndOffset,
    FetchRequest,
    PartitionData,
    ReplicaState,
)
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.features import NEWEST_LEVEL
from quorate.records.record import ProducerStamp
from tests.unit.broker.harness import NOW_MS, codes
from tests.unit.broker.log.batches import make_batch, read_all
from tests.unit.broker.replication.cluster import LAG_MS, TOPIC, Cluster

ACKS_ALL = -1


def commits_of(replica: LeaderReplica, offset: int) -> list[ErrorCode]:
    heard: list[ErrorCode] = []
    replica.when_committed(offset, heard.append)
    return heard


# --- what is committed ----------------------------------------------------------------------------


def test_a_record_is_committed_when_every_in_sync_replica_has_it() -> None:
    cluster = Cluster()
    cluster.append(b"a", acks=ACKS_ALL)
    leader = cluster.leader()
    heard = commits_of(leader, 1)
    cluster.fetch(2, times=2)
    assert (leader.high_watermark, heard) == (0, [])
    cluster.fetch(3)
    assert (leader.high_watermark, heard) == (0, [])
    cluster.fetch(3)
    assert (leader.high_watermark, heard) == (1, [ErrorCode.NONE])


def test_followers_hold_the_same_bytes_and_learn_what_is_committed() -> None:
    cluster = Cluster()
    cluster.append(b"a", b"b")
    cluster.append(b"c")
    cluster.replicate()
    for node_id in (2, 3):
        follower = cluster.follower(node_id)
        assert read_all(follower.log) == read_all(cluster.leader().log)
        assert follower.high_watermark == 3


def test_a_follower_that_is_not_in_sync_holds_nothing_up_unless_it_has_nearly_caught_up() -> None:
    cluster = Cluster(isr=(1, 2))
    leader = cluster.leader()
    cluster.append(b"a")
    cluster.fetch(2, times=2)
    assert leader.high_watermark == 1
    cluster.fetch(3)
    cluster.append(b"b")
    cluster.fetch(2, times=2)
    assert leader.high_watermark == 2, "it has never been caught up"
    cluster.fetch(3, times=2)
    cluster.append(b"c")
    cluster.fetch(2, times=2)
    assert leader.high_watermark == 2, "it would be in the ISR in a moment"


def test_with_fsync_a_record_is_committed_when_it_is_synced_by_all() -> None:
    cluster = Cluster((1, 2), flush_messages="1")
    cluster.append(b"a", acks=ACKS_ALL)
    leader, node = cluster.leader(), cluster.nodes[1]
    synced: list[ErrorCode] = []
    leader.when_synced(1, synced.append)
    heard = commits_of(leader, 1)
    cluster.fetch(2)
    fetcher, follower = cluster.fetcher(2), cluster.follower(2)
    assert fetcher.unsynced() == [follower]
    assert fetcher.next_ms() is None
    fetcher.disconnected()
    assert fetcher.build().topics == [], "to tell where its log ends would say that it has that"
    fetcher.disconnected()
    store = cluster.nodes[2].replicas.store
    flush = store.start_flush([follower.log])
    flush.run()
    store.finish_flush(flush)
    cluster.fetch(2)
    assert (leader.high_watermark, synced, heard) == (0, [], [])
    node.sync()
    assert (leader.high_watermark, synced, heard) == (1, [ErrorCode.NONE], [ErrorCode.NONE])


def test_followers_go_by_what_the_topic_asks_for_from_now_on() -> None:
    cluster = Cluster((1, 2))
    cluster.fetch(2)
    cluster.apply(r.ConfigSet("test", 0, "topic", TOPIC, "flush.messages", "1"))
    cluster.append(b"a")
    cluster.nodes[1].sync()
    cluster.fetch(2, times=2)
    assert cluster.follower(2).log.log_end_offset == 1
    assert cluster.leader().high_watermark == 0, "a power cut could take it back"


def test_a_leader_that_is_told_nothing_new_keeps_its_high_watermark_in_the_next_epoch() -> None:
    cluster = Cluster()
    cluster.append(b"a")
    cluster.replicate()
    cluster.append(b"b")
    cluster.change(1, 1, (1, 2, 3))
    assert cluster.leader().high_watermark == 1
    assert not cluster.leader().knows_what_is_committed
    cluster.replicate()
    assert cluster.leader().high_watermark == 2
    assert cluster.leader().knows_what_is_committed


def test_who_waits_for_a_commit_waits_on_when_its_leader_leads_the_next_epoch_too() -> None:
    cluster = Cluster()
    cluster.replicate()
    cluster.append(b"a", acks=ACKS_ALL)
    before = cluster.leader()
    heard = commits_of(before, 1)
    cluster.change(1, 1, (1, 2, 3))
    assert not heard
    assert not before.commit_waiters
    cluster.append(b"b", acks=ACKS_ALL)
    cluster.replicate()
    assert heard == [ErrorCode.NONE]


def test_who_waits_for_a_commit_hears_at_once_what_the_next_epoch_decides() -> None:
    cluster = Cluster(min_insync_replicas="2")
    cluster.append(b"a", acks=ACKS_ALL)
    refused = commits_of(cluster.leader(), 1)
    cluster.change(1, 1, (1,))
    assert refused == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    alone = Cluster()
    alone.append(b"a", acks=ACKS_ALL)
    committed = commits_of(alone.leader(), 1)
    alone.change(1, 1, (1,))
    assert committed == [ErrorCode.NONE]


def test_who_waits_for_a_commit_asks_elsewhere_when_another_leads() -> None:
    cluster = Cluster()
    cluster.append(b"a", acks=ACKS_ALL)
    heard = commits_of(cluster.leader(), 1)
    cluster.change(2, 1, (1, 2, 3))
    assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


# --- min.insync.replicas --------------------------------------------------------------------------


def test_below_min_insync_replicas_nothing_is_appended_with_acks_all_and_nothing_committed() -> (
    None
):
    cluster = Cluster(min_insync_replicas="2")
    cluster.append(b"a", acks=ACKS_ALL)
    leader = cluster.leader()
    heard = commits_of(leader, 1)
    cluster.change(1, 0, (1,))
    assert heard == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert (leader.high_watermark, leader.is_under_min_isr) == (0, True)
    with pytest.raises(NotEnoughReplicasError):
        cluster.append(b"b", acks=ACKS_ALL)
    cluster.append(b"c")
    assert (leader.high_watermark, leader.log.log_end_offset) == (0, 2)
    cluster.replicate()
    cluster.change(1, 0, (1, 2))
    assert leader.high_watermark == 2


# --- the ISR --------------------------------------------------------------------------------------


def test_who_lags_too_long_leaves_the_isr_and_counts_until_that_is_committed() -> None:
    cluster = Cluster()
    cluster.replicate()
    cluster.append(b"a", acks=ACKS_ALL)
    leader = cluster.leader()
    heard = commits_of(leader, 1)
    cluster.fetch(2, times=2)
    cluster.wait(LAG_MS)
    leader.review()
    assert cluster.proposed() is None
    cluster.wait(1)
    leader.review()
    proposed = cluster.proposed()
    assert proposed is not None
    assert [(x.broker_id, x.broker_epoch) for x in proposed.isr] == [
        (1, cluster.epochs[1]),
        (2, cluster.epochs[2]),
    ]
    leader.review()
    cluster.answer_alteration()
    assert heard == []
    cluster.change(1, 0, (1, 2))
    assert (heard, leader.isr.committed) == ([ErrorCode.NONE], (1, 2))
    assert leader.isr.partition_epoch == leader.state.partition_epoch == 1


def test_what_is_committed_with_a_smaller_isr_goes_by_the_rules_that_the_controller_knew() -> None:
    cluster = Cluster((1, 2))
    cluster.replicate()
    cluster.append(b"a", acks=ACKS_ALL)
    leader = cluster.leader()
    heard = commits_of(leader, 1)
    cluster.wait(LAG_MS + 1)
    leader.review()
    # The controller raises the minimum, and so the other one stays eligible to lead.
    cluster.answer_alteration()
    assert (heard, leader.high_watermark) == ([], 0)
    cluster.apply(
        r.ConfigSet("test", 0, "topic", TOPIC, "min.insync.replicas", "2"),
        r.PartitionChanged("test", 0, cluster.topic_id, 0, 1, 0, (1,)),
    )
    assert (heard, leader.high_watermark) == ([ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND], 0)


def test_who_catches_up_joins_the_isr_and_counts_at_once() -> None:
    cluster = Cluster(isr=(1,))
    cluster.append(b"a")
    cluster.fetch(2)
    assert cluster.proposed() is None
    cluster.fetch(2)
    proposed = cluster.proposed()
    assert proposed is not None
    assert [x.broker_id for x in proposed.isr] == [1, 2]
    leader = cluster.leader()
    assert leader in cluster.nodes[1].replicas.news.alterations
    cluster.append(b"b")
    assert leader.high_watermark == 1, "it may be in the ISR already"
    cluster.fetch(2, times=2)
    assert leader.high_watermark == 2


def test_who_has_caught_up_meanwhile_is_next() -> None:
    cluster = Cluster(isr=(1,))
    cluster.append(b"a")
    cluster.replicate()
    assert cluster.leader().isr.proposed == (1, 2)
    cluster.change(1, 0, (1, 2))
    assert cluster.leader().isr.proposed == (1, 2, 3)


def test_a_new_leader_takes_in_only_who_has_all_that_it_found() -> None:
    cluster = Cluster(isr=(1,))
    cluster.append(b"a")
    cluster.fetch(2)
    cluster.change(1, 1, (1,))
    leader = cluster.leader()
    assert leader.epoch_start_offset == 1
    cluster.nodes[2].replicas.host.now_ms += 100
    cluster.fetch(2)
    assert leader.isr.proposed == (1, 2)


def test_nobody_joins_who_is_out_of_service() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    old_epoch = cluster.epochs[2]
    cluster.apply(r.BrokerFenced("test", 0, 2, old_epoch))
    cluster.fetch(2)
    assert cluster.proposed() is None
    cluster.apply(r.BrokerUnfenced("test", 0, 2, old_epoch))
    assert cluster.proposed() is not None


def test_who_cannot_write_is_in_sync_while_it_lacks_nothing_and_not_a_moment_longer() -> None:
    cluster = Cluster(flush_messages="9")
    cluster.append(b"a")
    cluster.replicate()
    full = r.BrokerChanged("test", 0, 3, cluster.epochs[3], cannot_write=True)
    cluster.apply(r.FeatureLevelSet("test", 0, "metadata.version", NEWEST_LEVEL), full)
    leader = cluster.leader()
    cluster.nodes[1].replicas.host.now_ms += 1
    leader.review()
    assert cluster.proposed() is None
    cluster.append(b"b")
    cluster.nodes[1].replicas.host.now_ms += 1
    leader.review()
    assert set(leader.isr.proposed or ()) == {1, 2}, "broker 2 gets the time that it always gets"
    cluster.change(1, 0, (1, 2))
    cluster.replicate()
    assert leader.high_watermark == 2
    assert cluster.proposed() is None, "it has everything, but would be in the way again"
    cluster.apply(replace(full, cannot_write=False))
    leader.review()
    assert set(leader.isr.proposed or ()) == {1, 2, 3}


def test_who_cannot_write_is_heard_first_by_a_leader_that_begins() -> None:
    """It may have everything, as it has of all partitions that are idle."""
    cluster = Cluster(flush_messages="9")
    full = r.BrokerChanged("test", 0, 3, cluster.epochs[3], cannot_write=True)
    cluster.apply(r.FeatureLevelSet("test", 0, "metadata.version", NEWEST_LEVEL), full)
    cluster.nodes[1].replicas.host.now_ms += 1
    cluster.leader().review()
    assert cluster.proposed() is None
    cluster.append(b"a")
    cluster.fetch(3)
    cluster.nodes[1].replicas.host.now_ms += 1
    cluster.leader().review()
    assert set(cluster.leader().isr.proposed or ()) == {1, 2}


def test_who_cannot_write_is_like_others_where_nothing_is_committed_without_it() -> None:
    """Its disk may have refused something once: it is not kept out for a minute for that."""
    cluster = Cluster(flush_messages="9", min_insync_replicas="2")
    cluster.append(b"a")
    cluster.replicate()
    level = r.FeatureLevelSet("test", 0, "metadata.version", NEWEST_LEVEL)
    full = [r.BrokerChanged("test", 0, b, cluster.epochs[b], cannot_write=True) for b in (2, 3)]
    cluster.apply(level, *full)
    leader = cluster.leader()
    cluster.append(b"b")
    cluster.fetch(2, times=2)
    cluster.append(b"c")
    cluster.nodes[1].replicas.host.now_ms += 1
    leader.review()
    assert set(leader.isr.proposed or ()) == {1, 2}, "who lacks least stays"
    cluster.change(1, 0, (1, 2))
    leader.review()
    assert cluster.proposed() is None, "it has the time that others have"
    cluster.nodes[1].replicas.host.now_ms += LAG_MS + 1
    leader.review()
    assert set(leader.isr.proposed or ()) == {1}
    cluster.change(1, 0, (1,))
    cluster.fetch(3)
    assert cluster.proposed() is None, "what was committed is not enough: it would leave again"
    cluster.fetch(3, times=2)
    assert set(leader.isr.proposed or ()) == {1, 3}


def test_nobody_joins_who_was_registered_again_since_it_fetched() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    cluster.append(b"a")
    cluster.fetch(2)
    assert cluster.leader().followers[2].broker_epoch == cluster.epochs[2]
    cluster.nodes[1].join(2)
    cluster.fetch(2)
    cluster.leader().review()
    assert cluster.proposed() is None


@pytest.mark.parametrize(
    ("code", "in_flight", "again"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False, False),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, False, False),
        (ErrorCode.INVALID_UPDATE_VERSION, True, False),
        (ErrorCode.FENCED_LEADER_EPOCH, True, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True, True),
    ],
)
def test_a_refused_change_is_forgotten_waited_out_or_tried_again(
    code: ErrorCode, *, in_flight: bool, again: bool
) -> None:
    cluster = Cluster((1, 2), isr=(1,))
    cluster.fetch(2)
    news = cluster.nodes[1].replicas.news
    news.alterations.clear()
    cluster.answer_alteration(code)
    leader = cluster.leader()
    assert (leader.isr.in_flight, leader in news.alterations) == (in_flight, again)


def test_an_answer_that_comes_before_the_metadata_or_after_them_changes_nothing() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    cluster.fetch(2)
    leader, sent = cluster.leader(), cluster.proposed()
    assert sent is not None
    cluster.answer_alteration()
    assert leader.isr.in_flight
    cluster.change(1, 0, (1, 2))
    leader.altered(sent, answer_to(sent))
    assert (leader.isr.committed, leader.isr.partition_epoch) == ((1, 2), 1)
    cluster.nodes[1].replicas.news.alterations.clear()
    leader.retry_alteration()
    assert leader not in cluster.nodes[1].replicas.news.alterations


def test_an_answer_about_an_earlier_change_decides_nothing_about_the_one_in_flight() -> None:
    cluster = Cluster(isr=(1,))
    cluster.append(b"a")
    cluster.replicate()
    leader, sent = cluster.leader(), cluster.proposed()
    assert sent is not None
    cluster.change(1, 0, (1, 2))
    assert leader.isr.proposed == (1, 2, 3)
    refused = Failure(int(ErrorCode.INELIGIBLE_REPLICA), "test")
    leader.altered(sent, AlteredPartition(sent.topic_id, sent.partition, refused))
    assert leader.isr.proposed == (1, 2, 3)


def answer_to(sent: PartitionAlteration) -> AlteredPartition:
    """What the controller says if the partition epoch is still what it was."""
    key = (sent.topic_id, sent.partition)
    return AlteredPartition(*key, DONE, 1, sent.leader_epoch, sent.partition_epoch, (1,))


def test_a_change_that_was_none_is_over() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    cluster.fetch(2)
    leader, sent = cluster.leader(), cluster.proposed()
    assert sent is not None
    cluster.apply(r.BrokerFenced("test", 0, 2, cluster.epochs[2]))
    leader.altered(sent, answer_to(sent))
    assert (leader.isr.committed, leader.isr.in_flight) == ((1,), False)


def test_a_change_whose_fate_is_unknown_is_proposed_again() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    cluster.fetch(2)
    cluster.nodes[1].replicas.news.alterations.clear()
    cluster.leader().retry_alteration()
    assert cluster.leader() in cluster.nodes[1].replicas.news.alterations


def test_a_change_is_proposed_again_with_the_registrations_in_which_all_were_in_sync() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    cluster.append(b"a")
    cluster.fetch(2, times=2)
    before, former = cluster.proposed(), cluster.epochs[2]
    assert before is not None
    cluster.register(2)
    cluster.fetch(2)
    assert cluster.epochs[2] > former
    cluster.leader().retry_alteration()
    again = cluster.proposed()
    assert again is not None
    assert [(x.broker_id, x.broker_epoch) for x in again.isr] == [
        (1, cluster.epochs[1]),
        (2, former),
    ]


def test_new_replicas_of_a_partition_are_followers_from_then_on() -> None:
    cluster = Cluster((1, 2, 3), isr=(1, 2, 3))
    leader = cluster.leader()
    cluster.apply(
        r.FeatureLevelSet("test", 0, "metadata.version", 3),
        r.PartitionChanged(
            "test", 0, cluster.topic_id, 0, 1, 0, (1, 2), replicas=(1, 2),
        )
    )  # fmt: skip
    assert set(leader.followers) == {2}
    assert cluster.nodes[3].replicas.follower(TOPIC, 0) is None
    assert cluster.nodes[3].replicas.store.logs == {}


# --- histories ------------------------------------------------------------------------------------


def test_a_follower_cuts_off_what_its_new_leader_does_not_have() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.append(b"a")
    cluster.replicate()
    cluster.append(b"lost 1")
    cluster.append(b"lost 2")
    cluster.change(2, 1, (2, 3))
    cluster.append(b"kept", node_id=2)
    for _ in range(3):
        cluster.fetch(1, 2)
        cluster.fetch(3, 2)
    follower, leader = cluster.follower(1), cluster.leader(2)
    assert read_all(follower.log) == read_all(leader.log)
    assert [e.leader_epoch for e in follower.log.leader_epochs.entries] == [0, 1]
    assert follower.high_watermark == 2


def test_a_follower_of_a_leader_that_wrote_nothing_yet_cuts_off_what_that_one_never_had() -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    cluster.change(2, 1, (2,))
    cluster.fetch(1, 2, times=2)
    assert cluster.follower(1).log.log_end_offset == 0
    assert cluster.leader(2).isr.proposed == (1, 2)


def test_logs_that_differ_in_several_epochs_meet_where_they_agree() -> None:
    cluster = Cluster((1, 2, 3))
    cluster.append(b"common")
    cluster.replicate()
    cluster.append(b"of epoch 0, only here")
    cluster.change(2, 1, (2,))
    cluster.append(b"of epoch 1, only there", node_id=2)
    cluster.change(3, 2, (3,))
    cluster.append(b"of epoch 2", node_id=3)
    cluster.change(1, 3, (1,))
    cluster.append(b"of epoch 3")
    cluster.change(2, 4, (2,))
    for _ in range(4):
        cluster.fetch(1, 2)
        cluster.fetch(3, 2)
    expected = read_all(cluster.leader(2).log)
    assert read_all(cluster.follower(1).log) == expected
    assert read_all(cluster.follower(3).log) == expected


def test_the_high_watermark_does_not_stay_behind_what_was_cut_off() -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    cluster.append(b"b")
    cluster.replicate()
    assert cluster.leader().high_watermark == 2
    follower = cluster.follower(2)
    follower.log.truncate_to(1, now_ms=NOW_MS)
    follower.bound_high_watermark()
    assert follower.high_watermark == 1


@pytest.mark.parametrize(
    "data",
    [
        PartitionData(diverging_epoch=FetchEpochEndOffset(epoch=0, end_offset=1)),
        PartitionData(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE), log_start_offset=0),
    ],
)
def test_the_high_watermark_goes_back_with_a_log_whose_disk_refuses_to_finish(
    data: PartitionData, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    cluster.append(b"b")
    cluster.replicate()
    follower = cluster.follower(2)
    assert follower.high_watermark == 2

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(type(follower.log.leader_epochs), "replace", refuse)
    monkeypatch.setattr(type(follower.log.leader_epochs), "truncate_from_end", refuse)
    with pytest.raises(StorageError):
        follower.take(data, NOW_MS)

    assert follower.high_watermark == follower.log.log_end_offset < 2


def test_a_follower_whose_disk_is_full_tells_so_once_and_when_that_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "quorate.broker.replication.fetching")
    cluster = Cluster((1, 2))
    disk = cluster.nodes[2].disk
    for _ in range(2):
        cluster.append(b"a")
        disk.capacity_bytes = disk.used_bytes()
        for _ in range(3):
            cluster.fetch(2)
            cluster.wait(1000)
        disk.capacity_bytes = None
        cluster.fetch(2, times=2)
    assert cluster.follower(2).log.log_end_offset == 2
    told, ended = caplog.messages[::2], caplog.messages[1::2]
    assert ended == ["appLogs-0: follows leader 1 again"] * 2
    assert len(told) == 2
    assert all("No space left" in message for message in told)


def test_an_unclean_leader_that_has_less_cuts_committed_records_off_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster((1, 2, 3), isr=(1, 2))
    cluster.append(b"a")
    cluster.fetch(2, times=3)
    assert cluster.follower(2).high_watermark == 1
    cluster.change(3, 1, (3,))
    cluster.fetch(2, 3, times=2)
    follower = cluster.follower(2)
    assert (follower.log.log_end_offset, follower.high_watermark) == (0, 0)
    assert "below the high watermark" in caplog.text


def test_a_follower_that_ends_where_the_leaders_log_begins_amid_a_batch_goes_on() -> None:
    """What it has the leader never had, but cannot say so: it has forgotten that time."""
    cluster = Cluster((1, 2, 3), isr=(1, 3))
    cluster.append(b"a")
    cluster.fetch(2)
    cluster.change(3, 1, (3,))
    cluster.append(b"b", b"c", b"d", node_id=3)
    cluster.leader(3).log.delete_records_before(1)
    for _ in range(3):
        cluster.fetch(2, 3)
        cluster.wait(1000)
    log = cluster.follower(2).log
    assert (log.log_start_offset, log.log_end_offset) == (1, 3)
    assert log.leader_epochs.latest_epoch == 1


def test_a_follower_too_far_behind_begins_where_the_leaders_log_does() -> None:
    cluster = Cluster(isr=(1,))
    for value in (b"a", b"b", b"c"):
        cluster.append(value)
    cluster.leader().log.delete_records_before(2)
    cluster.fetch(2, times=3)
    follower = cluster.follower(2)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (2, 3)
    assert follower.high_watermark == 3


def test_a_follower_begins_in_the_midst_of_a_batch_as_its_leader_does() -> None:
    cluster = Cluster(isr=(1,))
    cluster.append(b"a", b"b", b"c")
    cluster.leader().log.delete_records_before(2)
    cluster.fetch(2, times=3)
    follower = cluster.follower(2)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (2, 3)
    assert read_all(follower.log) == read_all(cluster.leader().log)


def test_followers_forget_what_the_leader_forgot() -> None:
    cluster = Cluster()
    cluster.append(b"a")
    cluster.append(b"b")
    cluster.replicate()
    cluster.leader().log.delete_records_before(1)
    cluster.append(b"c")
    cluster.replicate()
    assert cluster.follower(2).log.log_start_offset == 1


def test_sequences_of_producers_are_known_to_who_leads_next() -> None:
    cluster = Cluster()
    stamp = ProducerStamp(7, 0, 0)
    batch = bytes(make_batch([b"a"], producer=stamp))
    cluster.leader().append(memoryview(bytearray(batch)), acks=ACKS_ALL, now_ms=NOW_MS)
    cluster.replicate()
    cluster.change(2, 1, (2, 3))
    again = cluster.leader(2).append(memoryview(bytearray(batch)), acks=ACKS_ALL, now_ms=NOW_MS)
    assert (again.duplicate, again.base_offset) == (True, 0)


# --- what a leader refuses ------------------------------------------------------------------------


def refusal(cluster: Cluster, request: FetchRequest) -> list[ErrorCode]:
    request.max_wait_ms = 0
    response = cluster.ask(request)
    return codes([p for topic in response.responses for p in topic.partitions])


def test_a_follower_cannot_claim_an_offset_of_the_future() -> None:
    cluster = Cluster()
    cluster.append(b"a")
    request = cluster.fetcher(2).build()
    request.topics[0].partitions[0].fetch_offset = 5
    assert refusal(cluster, request) == [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert cluster.leader().followers[2].log_end_offset == -1


def test_who_is_no_replica_is_not_served() -> None:
    cluster = Cluster((1, 2))
    request = cluster.fetcher(2).build()
    request.replica_state = ReplicaState(replica_id=9, replica_epoch=1)
    assert refusal(cluster, request) == [ErrorCode.UNKNOWN_LEADER_EPOCH]
    request.topics[0].partitions[0].current_leader_epoch = -1
    assert refusal(cluster, request) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_broker_that_was_registered_again_is_not_taken_for_what_it_was() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    request = cluster.fetcher(2).build()
    cluster.nodes[1].join(2)
    assert refusal(cluster, request) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert cluster.leader().followers[2].log_end_offset == -1


def test_epochs_that_differ_are_refused_and_tried_again_a_little_later() -> None:
    cluster = Cluster((1, 2))
    fetcher = cluster.fetcher(2)
    image = cluster.nodes[2].replicas.image
    change = r.PartitionChanged("test", 0, cluster.topic_id, 0, 1, 1, (1, 2))
    cluster.nodes[2].replicas.apply(apply_records(image, image.version + 1, [change]), NOW_MS)
    cluster.fetch(2)
    assert fetcher.next_ms() == 20
    assert not fetcher.build().topics
    cluster.apply(r.ClusterFormatted("test", 0, "x"))


def test_offsets_between_epochs_that_the_leader_does_not_know_are_out_of_range() -> None:
    cluster = Cluster((1, 2))
    request = cluster.fetcher(2).build()
    partition = request.topics[0].partitions[0]
    partition.last_fetched_epoch, partition.fetch_offset = 7, 3
    assert refusal(cluster, request) == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_what_was_deleted_cannot_be_continued() -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    cluster.replicate()
    cluster.append(b"b")
    cluster.replicate()
    cluster.leader().log.delete_records_before(2)
    fetcher = cluster.fetcher(2)
    fetcher.disconnected()
    request = fetcher.build()
    partition = request.topics[0].partitions[0]
    partition.last_fetched_epoch, partition.fetch_offset = 0, 1
    assert refusal(cluster, request) == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_a_follower_knows_too_where_its_log_parts_from_a_readers() -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    cluster.replicate()
    epoch = cluster.leader().log.leader_epochs.latest_epoch
    follower = cluster.follower(2)
    assert follower.diverging(1, epoch) is None
    assert follower.diverging(2, epoch) == (epoch, 1)
    with pytest.raises(OffsetOutOfRangeError, match=f"no epoch {epoch + 1}"):
        follower.diverging(1, epoch + 1)


def test_topics_may_be_named_or_identified_and_must_be_known() -> None:
    cluster = Cluster((1, 2))
    request = cluster.fetcher(2).build()
    request.topics[0].topic, request.topics[0].topic_id = TOPIC, bytes(16)
    assert refusal(cluster, request) == [ErrorCode.NONE]
    request.topics[0].topic = ""
    request.topics[0].topic_id = b"x" * 16
    assert refusal(cluster, request) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_follower_refuses_answers_that_make_no_sense() -> None:
    follower = Cluster((1, 2)).follower(2)
    nowhere = PartitionData(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE), log_start_offset=-1)
    with pytest.raises(KafkaError):
        follower.take(nowhere, NOW_MS)


def test_a_follower_leaves_out_a_batch_that_is_cut_off_in_its_header() -> None:
    follower = Cluster((1, 2)).follower(2)
    cut = make_batch([b"a"])[:20]
    assert not follower.take(PartitionData(high_watermark=1, records=cut), NOW_MS)
    assert (follower.log.log_end_offset, follower.high_watermark) == (0, 0)


def test_a_follower_refuses_a_batch_of_which_it_has_the_beginning_only() -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    cluster.replicate()
    follower = cluster.follower(2)
    longer = PartitionData(high_watermark=3, records=make_batch([b"a", b"b", b"c"]))
    with pytest.raises(KafkaError, match="does not continue 1"):
        follower.take(longer, NOW_MS)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (0, 1)


@pytest.mark.parametrize(("epoch", "end_offset", "kept"), [(-1, 1, 1), (9, 1, 1), (0, 1, 1)])
def test_a_follower_cuts_where_the_leader_says_as_far_as_it_knows_better(
    epoch: int, end_offset: int, kept: int
) -> None:
    cluster = Cluster((1, 2))
    cluster.append(b"a")
    cluster.append(b"b")
    cluster.replicate(1)
    end = FetchEpochEndOffset(epoch=epoch, end_offset=end_offset)
    follower = cluster.follower(2)
    assert follower.take(PartitionData(diverging_epoch=end), NOW_MS)
    assert follower.log.log_end_offset == kept
