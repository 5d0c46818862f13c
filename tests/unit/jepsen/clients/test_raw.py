"""The plain client goes by leader epochs, as all others do."""

from quorate.jepsen.clients.raw import NewestLeaders
from quorate.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


def said(leader_id: int, leader_epoch: int, topic_id: bytes = b"one") -> MetadataResponseTopic:
    partition = MetadataResponsePartition(
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        replica_nodes=[],
        isr_nodes=[],
    )
    return MetadataResponseTopic(error_code=0, name="t", topic_id=topic_id, partitions=[partition])


def test_who_led_before_is_not_asked_again() -> None:
    newest = NewestLeaders()
    assert newest.leader_id(said(103, 0), 0) == 103
    assert newest.leader_id(said(105, 1), 0) == 105
    assert newest.leader_id(said(103, 0), 0) is None
    assert newest.leader_id(said(105, 1), 0) == 105


def test_another_topic_of_the_same_name_begins_anew() -> None:
    newest = NewestLeaders()
    assert newest.leader_id(said(105, 7), 0) == 105
    assert newest.leader_id(said(103, 0, topic_id=b"two"), 0) == 103


def test_a_partition_that_is_not_named_has_no_leader() -> None:
    assert NewestLeaders().leader_id(said(103, 0), 1) is None
