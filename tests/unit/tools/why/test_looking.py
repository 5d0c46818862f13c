"""What is seen of a leader's disk."""

from quorate.client.admin_results import LogDir, LogDirReplica
from quorate.model import TopicPartition
from quorate.tools.why_looking import full_text

T = TopicPartition("t", 0)
MIB = 2**20


def log_dir(path: str, usable_bytes: int, *held: TopicPartition) -> LogDir:
    replica = LogDirReplica(0, 0, is_future=False)
    return LogDir(path, None, 10 * MIB, usable_bytes, dict.fromkeys(held, replica))


def test_a_directory_with_next_to_no_room_is_named() -> None:
    assert full_text([log_dir("/d", 0, T)], T) == "/d: 0 B free"
    assert full_text([log_dir("/d", MIB - 1, T)], T) == "/d: 1.0 MB free"
    assert full_text([log_dir("/d", MIB, T)], T) == ""
    assert full_text([log_dir("/d", -1, T)], T) == "", "nobody knows"


def test_only_the_directory_that_has_the_partition_counts() -> None:
    assert full_text([log_dir("/d", 9 * MIB, T), log_dir("/e", 0)], T) == ""
