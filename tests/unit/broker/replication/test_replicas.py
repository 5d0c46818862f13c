"""The partitions of a broker follow the image: opened, led, left, deleted, opened again."""

import pytest

from quorate.errors import (
    NotLeaderOrFollowerError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from tests.unit.broker.harness import Node, new_node


def test_a_broker_leads_what_the_image_says() -> None:
    node = new_node()
    node.create_topic("appLogs", 2)
    node.create_topic("elsewhere", leader_id=2, replicas=(2, 1))
    assert [str(replica.topic_partition) for replica in node.replicas] == ["appLogs-0", "appLogs-1"]
    assert node.replicas.find("appLogs", 1) is node.leader("appLogs", 1)
    assert node.replicas.find("elsewhere", 0) is None
    with pytest.raises(NotLeaderOrFollowerError):
        node.leader("elsewhere")
    for topic, partition in (("appLogs", 2), ("appLogs", -1), ("nowhere", 0)):
        with pytest.raises(UnknownTopicOrPartitionError):
            node.leader(topic, partition)


def test_a_new_epoch_is_a_new_replica_of_the_same_log() -> None:
    node = new_node()
    node.create_topic("appLogs")
    node.append(b"a")
    before = node.leader()
    node.lead("appLogs", 0, leader_epoch=1)
    after = node.leader()
    assert after is not before
    assert (after.leader_epoch, after.log, after.high_watermark) == (1, before.log, 1)


def test_a_replica_that_leads_on_takes_over_the_isr() -> None:
    node = new_node()
    node.create_topic("appLogs", replicas=(1, 2))
    before = node.leader()
    topic_id = before.topic_id
    node.apply(r.PartitionChanged("test", 0, topic_id, 0, 1, 0, (1, 2)))
    assert node.leader() is before
    assert before.state.isr == (1, 2)


def test_settings_come_from_the_topic_else_this_broker_else_the_cluster_else_the_file() -> None:
    node = new_node({"log.retention.ms": "4"})
    node.create_topic("appLogs")
    steps = [
        (None, 4),
        (r.ConfigSet("test", 0, "broker", "", "log.retention.ms", "3"), 3),
        (r.ConfigSet("test", 0, "broker", "1", "log.retention.ms", "2"), 2),
        (r.ConfigSet("test", 0, "topic", "appLogs", "retention.ms", "1"), 1),
        (r.ConfigDeleted("test", 0, "topic", "appLogs", "retention.ms"), 2),
    ]
    for record, retention_ms in steps:
        node.apply(*([record] if record else []))
        assert node.leader().log.config.retention_ms == retention_ms


def test_the_logs_of_a_deleted_topic_are_deleted() -> None:
    node = new_node()
    topic_id = node.create_topic("appLogs", 2)
    node.create_topic("dbLogs")
    node.apply(r.TopicRemoved("test", 0, topic_id))
    assert list(node.replicas.store.logs) == [TopicPartition("dbLogs", 0)]
    with pytest.raises(UnknownTopicOrPartitionError):
        node.leader()


def test_a_topic_made_again_under_the_same_name_begins_empty() -> None:
    node = new_node()
    topic_id = node.create_topic("appLogs")
    node.append(b"a")
    other_id = b"o" * 16
    node.apply(
        r.TopicRemoved("test", 0, topic_id),
        r.TopicCreated("test", 0, "appLogs", other_id),
        r.PartitionCreated("test", 0, other_id, 0, (1,), (1,), 1),
    )
    assert (node.leader().topic_id, node.leader().log.log_end_offset) == (other_id, 0)


def test_a_deleted_topic_whose_files_cannot_be_renamed_does_not_keep_others_from_being_led(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = new_node()
    topic_id = node.create_topic("appLogs")
    node.append(b"a")

    def broken(old: str, new: str) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(node.disk, "rename", broken)
        node.apply(r.TopicRemoved("test", 0, topic_id))
    node.create_topic("dbLogs")
    assert node.append(b"b", topic="dbLogs") == 0
    node.create_topic("appLogs")
    assert node.leader().log.log_end_offset == 0, "what was deleted does not come back"


def fill(node: Node) -> None:
    node.disk.capacity_bytes = node.disk.used_bytes()


def test_a_log_that_cannot_be_made_is_made_when_there_is_space() -> None:
    node = new_node()
    fill(node)
    node.create_topic("appLogs", 2)
    with pytest.raises(StorageError):
        node.leader()
    node.replicas.reopen(0)
    with pytest.raises(StorageError):
        node.leader()
    node.disk.capacity_bytes = None
    node.replicas.reopen(0)
    assert [node.append(b"a", partition=partition) for partition in (0, 1)] == [0, 0]


@pytest.mark.parametrize("room_bytes", range(0, 2000, 100))
def test_a_log_is_made_however_far_the_first_attempt_came(room_bytes: int) -> None:
    node = new_node()
    node.disk.capacity_bytes = node.disk.used_bytes() + room_bytes
    node.create_topic("appLogs", preallocate="true", segment_bytes="1024")
    node.disk.capacity_bytes = None
    node.replicas.reopen(0)
    assert node.append(b"a") == 0


def test_a_log_that_is_no_longer_wanted_is_not_made() -> None:
    node = new_node()
    fill(node)
    gone = node.create_topic("gone")
    node.create_topic("smaller", 2)
    smaller = node.replicas.image.topics["smaller"].topic_id
    node.create_topic("elsewhere")
    other_id = b"o" * 16
    node.apply(
        r.TopicRemoved("test", 0, gone),
        r.TopicRemoved("test", 0, smaller),
        r.TopicCreated("test", 0, "smaller", other_id),
        r.PartitionCreated("test", 0, other_id, 0, (1,), (1,), 1),
    )
    node.lead("elsewhere", 0, leader_epoch=1, leader_id=-1)
    node.disk.capacity_bytes = None
    node.replicas.reopen(0)
    assert list(node.replicas.store.logs) == [TopicPartition("smaller", 0)]


def test_who_syncs_logs_is_told_once_a_turn_that_there_is_something_to_do() -> None:
    node = new_node()
    node.create_topic("appLogs", flush_messages="1")
    told: list[str] = []
    node.append(b"nobody listens yet")
    node.replicas.on_unsynced = lambda: told.append("unsynced")
    node.append(b"a")
    assert told == ["unsynced"]


def test_high_watermarks_are_told_for_the_checkpoint() -> None:
    node = new_node()
    node.create_topic("appLogs", 2)
    node.append(b"a", b"b", partition=1)
    marks = {str(key): offset for key, offset in node.replicas.high_watermarks().items()}
    assert marks == {"appLogs-0": 0, "appLogs-1": 2}


def test_what_a_killed_process_left_counts_once_it_is_synced_if_only_synced_records_do() -> None:
    node = new_node()
    node.create_topic("appLogs", flush_messages="1")
    node.append(b"a")
    for end in (node.disk.restart, node.disk.lose_power):
        end()
        node = Node({}, node.disk)
        node.create_topic("appLogs", flush_messages="1")
        assert node.leader().high_watermark == node.leader().log.flushed_offset
        node.sync()
        assert node.leader().high_watermark == 1


def test_a_setting_that_only_a_newer_controller_knows_has_no_effect_here() -> None:
    node = new_node()
    node.create_topic("t", configs={"not.yet.known": "7", "retention.ms": "5000"})
    assert node.broker.replicas.leader("t", 0).log.config.retention_ms == 5000
