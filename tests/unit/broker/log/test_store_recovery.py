"""What a store finds after a crash, and what it promises about it."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from quorate.broker.log.files import OsFileSystem, read_file, replace_file
from quorate.broker.log.store import open_store
from quorate.model import TopicPartition
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import (
    NOW_MS,
    TOPIC_ID,
    append,
)


class OverlapDisk(SimDisk):
    """Lets something else happen right before a file gets its name."""

    meanwhile: Callable[[], None] | None = None

    def rename(self, old: str, new: str) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        super().rename(old, new)


def test_two_threads_may_replace_the_same_file_at_once() -> None:
    disk = OverlapDisk(Random(1))
    disk.make_directory("/data")
    disk.meanwhile = lambda: replace_file(disk, "/data/snapshot", b"same")
    replace_file(disk, "/data/snapshot", b"same")
    assert read_file(disk, "/data/snapshot") == b"same"
    assert disk.list_directory("/data") == ["snapshot"]


def test_a_topic_with_the_longest_name_is_created_and_deleted(tmp_path: Path) -> None:
    partitions = [TopicPartition("a" * 249, number) for number in (0, 10, 19_999)]
    store = open_store(OsFileSystem(), str(tmp_path), cluster_id="c", node_id=1, now_ms=NOW_MS)
    for partition in partitions:
        append(store.create(partition, TOPIC_ID, TopicConfig(), now_ms=NOW_MS), b"v")
    for partition in partitions:
        store.delete(partition)
    store.close(clean=True, now_ms=NOW_MS)
    store = open_store(OsFileSystem(), str(tmp_path), cluster_id="c", node_id=1, now_ms=NOW_MS)
    assert store.logs == {}
    assert len(store.empty_trash(NOW_MS)) == len(partitions)
    store.close(clean=True, now_ms=NOW_MS)
