"""The partitions of a broker follow the image: opened, led, left, deleted, opened again."""

import contextlib

import pytest

from quorate.errors import (
    NotLeaderOrFollowerError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.delta import difference
from quorate.quorum.metadata.image import MetadataImage
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


def back_without(topic: str) -> tuple[Node, MetadataImage]:
    """Return a broker that was away, and metadata that do not know one of its two topics."""
    node = new_node()
    node.create_topic("appLogs")
    node.create_topic("dbLogs")
    node.append(b"a")
    node.append(b"b", topic="dbLogs")
    image = node.replicas.image
    node.disk.restart()
    removed = r.TopicRemoved("test", 0, image.topics[topic].topic_id)
    return new_node(disk=node.disk), apply_records(image, image.version + 1, [removed])


def strays(node: Node) -> list[str]:
    return [name for name in node.disk.list_directory("/data") if name.endswith("-stray")]


def test_logs_of_topics_that_the_first_metadata_do_not_know_are_kept_under_another_name() -> None:
    # Deleted while the broker was away, perhaps; or the controllers lost their disks.
    node, image = back_without("appLogs")
    node.replicas.apply(image, 0)
    store = node.replicas.store
    assert list(store.logs) == [TopicPartition("dbLogs", 0)]
    assert not node.disk.exists("/data/appLogs-0")
    store.remove_paths(store.empty_trash(10**15))
    (stray,) = strays(node)
    assert stray.startswith("appLogs-0.")
    assert node.disk.exists(f"/data/{stray}/00000000000000000000.log")
    node.disk.restart()
    again = new_node(disk=node.disk)
    again.replicas.store.remove_paths(again.replicas.store.empty_trash(10**15))
    assert strays(again) == [stray], "nor does the next start remove it"


def test_a_log_that_is_to_be_kept_and_cannot_be_renamed_gives_its_name_to_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, image = back_without("appLogs")

    def broken(old: str, new: str) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(node.disk, "rename", broken)
        node.replicas.apply(image, 0)
        with pytest.raises(StorageError):
            node.create_topic("appLogs")
        assert node.disk.exists("/data/appLogs-0/00000000000000000000.log")
    node.replicas.store.empty_trash(0)
    assert len(strays(node)) == 1


def test_a_topic_led_elsewhere_leaves_nothing_to_delete() -> None:
    node = new_node()
    topic_id = node.create_topic("elsewhere", leader_id=2, replicas=(2,))
    node.apply(r.TopicRemoved("test", 0, topic_id))
    assert node.replicas.store.logs == {}


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


@pytest.mark.parametrize("room_bytes", range(0, 2000, 100))
def test_a_log_is_made_however_far_the_first_attempt_came(room_bytes: int) -> None:
    node = new_node()
    node.disk.capacity_bytes = node.disk.used_bytes() + room_bytes
    node.create_topic("appLogs", preallocate="true", segment_bytes="1024")
    with contextlib.suppress(StorageError):
        node.append(b"a" * 900)
    end_offset = node.leader().log.log_end_offset
    assert end_offset == (room_bytes >= 1100), "it was made, and the record fitted"
    node.disk.capacity_bytes = None
    assert node.append(b"a") == end_offset


def test_partitions_cost_no_file_before_their_first_record() -> None:
    node = new_node()
    files = node.disk.list_directory("/data")
    gone = node.create_topic("appLogs", 1000)
    node.create_topic("dbLogs", 2)
    assert node.append(b"a", topic="dbLogs", partition=1) == 0
    assert sorted(node.disk.list_directory("/data")) == sorted([*files, "dbLogs-1"])
    node.apply(r.TopicRemoved("test", 0, gone))
    assert set(node.replicas.store.logs) == {TopicPartition("dbLogs", index) for index in (0, 1)}
    assert sorted(node.disk.list_directory("/data")) == sorted([*files, "dbLogs-1"])


def test_a_long_change_lets_others_in_who_find_no_half_of_it() -> None:
    node = new_node()
    gone = node.create_topic("gone", 120)
    kept = node.create_topic("appLogs", 120)
    image = node.replicas.image
    changed = apply_records(
        image,
        image.version + 1,
        [
            r.TopicRemoved("test", 0, gone),
            r.TopicCreated("test", 0, "dbLogs", b"d" * 16),
            *(r.PartitionCreated("test", 0, b"d" * 16, i, (1,), (1,), 1) for i in range(120)),
            *(r.PartitionChanged("test", 0, kept, i, 1, 1, (1,)) for i in range(120)),
        ],
    )
    steps = 0
    for _ in node.replicas.follow(difference(image, changed), 0):
        steps += 1
        assert node.replicas.image is image
        with pytest.raises(NotLeaderOrFollowerError):
            node.leader("gone")
        assert all(
            replica.leader_epoch == (replica.topic_partition.topic == "appLogs")
            for replica in node.replicas
        )
    assert steps >= 6, "a few partitions at a time"
    assert node.replicas.image is changed
    assert len(list(node.replicas)) == 240
    assert set(node.replicas.store.logs) == {r.topic_partition for r in node.replicas}


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
