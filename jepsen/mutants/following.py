"""Mutants of followers and of logs: what is cut off, what is remembered, what is on the disk."""

# They replace what is private, that is their trade.
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from typing import Any, Final

from quorate.broker.log import files, recovery
from quorate.broker.log.active import ActiveSegment
from quorate.broker.log.epochs import LeaderEpochs
from quorate.broker.log.files import FileSystem, OpenFiles
from quorate.broker.log.flush import Flush
from quorate.broker.log.producers import ProducerStates, WrittenBatch
from quorate.broker.log.recovery import LogLoader
from quorate.broker.log.scan import PlacedBatch
from quorate.broker.log.segments import Segments
from quorate.broker.log.snapshots import Snapshots
from quorate.broker.log.verification import Guard
from quorate.broker.replication.follower import FollowerReplica
from quorate.broker.replication.replicas import HostedPartition, Replicas
from quorate.errors import KafkaError
from quorate.jepsen.mutants.leading import LOST
from quorate.jepsen.mutants.mutant import Mutant, Proof
from quorate.jepsen.mutants.patching import Patches
from quorate.model import UNKNOWN_EPOCH
from quorate.protocol.messages.data import FetchPartition, PartitionData
from quorate.records.batch import BatchHeader

DIVERGED: Final = LOST | {"divergence"}
ALONE: Final = ("--partitions", "1")
"""With each record followers hear what is committed of all other partitions of their leader."""

SYNCED: Final = ("--topic-config", "flush.messages=1")

REPEATED: Final = frozenset({"duplicate", "nonmonotonic-send"})


def truncate_to_hw(patches: Patches) -> None:
    """Cut what is not known to be committed before following, as before KIP-101."""
    follow: Any = None

    def cut_and_follow(
        self: Replicas, followed: HostedPartition, high_watermark: int, now_ms: int
    ) -> None:
        topic_partition = followed.topic_partition
        before = self.follower(*topic_partition)
        follow(self, followed, high_watermark, now_ms)
        replica = self.follower(*topic_partition)
        if replica is not None and replica is not before:
            replica.log.truncate_to(replica.high_watermark, now_ms=now_ms)

    follow = patches.method(Replicas, "_follow", cut_and_follow)


def no_truncation(patches: Patches) -> None:
    """Go on at the log's end, whatever is in it, and do not say of which epoch that is."""
    position: Any = None

    def say_nothing(self: FollowerReplica, max_bytes: int) -> FetchPartition:
        asked: FetchPartition = position(self, max_bytes)
        asked.last_fetched_epoch = UNKNOWN_EPOCH
        return asked

    def wait_for_more(_self: FollowerReplica, _data: PartitionData, _now_ms: int) -> None:
        raise KafkaError("the leader has less so far")

    position = patches.method(FollowerReplica, "position", say_nothing)
    patches.method(FollowerReplica, "_restart", wait_for_more)


def dedup_off(patches: Patches) -> None:
    """Write every batch that comes, however often it comes."""

    def check(
        _self: ProducerStates, _header: BatchHeader, _guard: Guard | None = None
    ) -> WrittenBatch | None:
        return None

    patches.method(ProducerStates, "check", check)


def producer_state_not_rebuilt(patches: Patches) -> None:
    """Know nothing of producers after a restart, nor where another broker led before."""
    take: Any = None

    def forget(
        _files: OpenFiles,
        _snapshots: Snapshots,
        _segments: Segments,
        _epochs: LeaderEpochs,
        end_offset: int,
    ) -> ProducerStates:
        return ProducerStates(end_offset)

    def take_and_forget(self: FollowerReplica, data: PartitionData, now_ms: int) -> bool:
        moved: bool = take(self, data, now_ms)
        self.log.producers = ProducerStates(self.log.log_end_offset)
        return moved

    patches.function(recovery, "rebuild_producers", forget)
    take = patches.method(FollowerReplica, "take", take_and_forget)


def flush_skipped(patches: Patches) -> None:
    """Say that records are synced when they are written."""

    def run(self: Flush) -> None:
        self._write_snapshots()

    patches.method(Flush, "run", run)


def checkpoint_not_synced(patches: Patches) -> None:
    """Rename small files into their place without syncing what is in them."""

    def replace_without_sync(fs: FileSystem, contents: Mapping[str, bytes]) -> dict[str, OSError]:
        for path, data in contents.items():
            folder = files._folder_of(path)  # noqa: SLF001
            temporary = files._write_temporary(fs, folder, data)  # noqa: SLF001
            fs.rename(temporary.path, path)
        return {}

    patches.function(files, "replace_files", replace_without_sync)


def torn_batch_accepted(patches: Patches) -> None:
    """Take a batch for whole whose checksum nobody has looked at."""

    def is_whole(
        _self: LogLoader,
        _segment: ActiveSegment,
        batch: PlacedBatch,
        expected: int,
        _trusted_end: int,
    ) -> bool:
        return batch.header.base_offset == expected

    patches.method(LogLoader, "_is_whole", is_whole)


MUTANTS: Final = (
    Mutant(
        "truncate-to-hw",
        "Followers cut off what they do not know to be committed, before they ask their leader.",
        ("E5", "D1", "D3"),
        DIVERGED,
        Proof(("append",), ("directed:unreachable-successor",), 5, ALONE),
        truncate_to_hw,
    ),
    Mutant(
        "no-truncation",
        "Followers keep what their leader does not have, and append behind it.",
        ("D3", "E2"),
        DIVERGED,
        Proof(("append",), ("directed:isolated-leader",), 5),
        no_truncation,
    ),
    Mutant(
        "dedup-off",
        "A batch that an idempotent producer sends again is written again.",
        ("D4", "I1"),
        REPEATED,
        Proof(("idempotent",), ("directed:killed-leader",), 8),
        dedup_off,
    ),
    Mutant(
        "producer-state-not-rebuilt",
        "Nothing is known of producers after a restart or a change of the leader.",
        ("I1", "I5"),
        REPEATED,
        Proof(("idempotent",), ("directed:unheard-leader",), 8),
        producer_state_not_rebuilt,
    ),
    Mutant(
        "flush-skipped",
        "Records of a topic that is synced with each of them are acknowledged unsynced.",
        ("D15",),
        LOST,
        Proof(("append",), ("power:all",), 6, SYNCED),
        flush_skipped,
    ),
    Mutant(
        "checkpoint-not-synced",
        "Checkpoints and leader epochs take their place before they are on the disk.",
        ("D1",),
        DIVERGED | {"node-died"},
        Proof(("append",), ("power:all",), 6, SYNCED),
        checkpoint_not_synced,
    ),
    Mutant(
        "torn-batch-accepted",
        "Recovery keeps batches whose checksum is wrong.",
        ("D7", "D8"),
        DIVERGED,
        Proof(("append",), ("directed:torn-tail",), 5),
        torn_batch_accepted,
    ),
)
