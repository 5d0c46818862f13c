"""Whether a new leader has what was read from the old one (KIP-320).

After an unclean election it may not have. The position is then behind records that do not exist any
more, and reading on from there would skip those that took their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.errors import LogTruncationError
from quorate.client.receiving.fetches import CONSUMER_REPLICA_ID, stop_or_pause
from quorate.client.receiving.positions import OffsetReset
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, known_code
from quorate.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, TopicPartition
from quorate.protocol.messages.data import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from quorate.client.receiving.fetches import FetchSettings
    from quorate.client.receiving.streams import PartitionStream
    from quorate.client.routing.cluster import Leader
    from quorate.protocol.messages.data import OffsetForLeaderEpochEndOffset


@dataclass(frozen=True, slots=True)
class Check:
    """What a leader is asked about one partition: where an epoch ends in its log."""

    stream: PartitionStream
    generation: int
    offset: int
    epoch: int
    leader_epoch: int


def plan_checks(
    streams: Iterable[PartitionStream],
    leader_of: Callable[[TopicPartition], Leader | None],
    now_ms: int,
) -> dict[int, list[Check]]:
    """Return by broker the partitions whose leader has to be asked before it is read on."""
    checks: dict[int, list[Check]] = {}
    for stream in streams:
        offset = stream.fetch_offset
        if offset is None or stream.fetch_epoch < 0 or stream.asking or stream.retry_at_ms > now_ms:
            continue
        leader = leader_of(stream.topic_partition)
        if leader is not None and stream.needs_check(leader.epoch):
            check = Check(
                stream, stream.position.generation, offset, stream.fetch_epoch, leader.epoch
            )
            checks.setdefault(leader.broker_id, []).append(check)
    return checks


def checks_request(checks: list[Check]) -> OffsetForLeaderEpochRequest:
    """Return the request for the ends of the epochs."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for check in checks:
        name, partition = check.stream.topic_partition
        if name not in topics:
            topics[name] = OffsetForLeaderTopic(topic=name)
        topics[name].partitions.append(
            OffsetForLeaderPartition(
                partition=partition,
                current_leader_epoch=check.leader_epoch,
                leader_epoch=check.epoch,
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA_ID, topics=list(topics.values()))


def take_checked(
    check: Check,
    answer: OffsetForLeaderEpochEndOffset | None,
    settings: FetchSettings,
    now_ms: int,
    rng: Random,
) -> bool:
    """Tell a stream what its leader has, and return whether metadata turned out to be stale."""
    stream = check.stream
    if check.generation != stream.position.generation:
        return False
    code = ErrorCode.NETWORK_EXCEPTION if answer is None else known_code(answer.error_code)
    if answer is not None and code == ErrorCode.NONE:
        stream.failures = 0
        if answer.end_offset == UNKNOWN_OFFSET or answer.leader_epoch == UNKNOWN_EPOCH:
            _truncate(check, None, settings.offset_reset)
        elif answer.end_offset < check.offset:
            _truncate(check, answer, settings.offset_reset)
        else:
            stream.agreed_epoch = check.leader_epoch
        return False
    what = f"cannot compare {stream.topic_partition} with its leader"
    return stop_or_pause(stream, code, what, settings.backoff, now_ms, rng)


def _truncate(
    check: Check, diverging: OffsetForLeaderEpochEndOffset | None, reset: OffsetReset
) -> None:
    """Go on where the logs part, or as the policy says if nobody knows where that is."""
    stream = check.stream
    position = stream.position.offset
    assert position is not None
    if diverging is not None and position <= diverging.end_offset:
        # What was given out is still there; only what was fetched ahead is not.
        stream.drop_fetched()
    elif reset is OffsetReset.NONE:
        stream.fail(_error(stream.topic_partition, position, diverging))
    elif diverging is None:
        stream.look_for(reset.timestamp)
    else:
        stream.seek(diverging.end_offset, diverging.leader_epoch)


def _error(
    topic_partition: TopicPartition, offset: int, diverging: OffsetForLeaderEpochEndOffset | None
) -> LogTruncationError:
    end = None if diverging is None else diverging.end_offset
    where = "" if end is None else f" from offset {end} on"
    return LogTruncationError(
        f"{topic_partition} was truncated: what was read before offset {offset} is gone{where}."
        " Seek, or set auto_offset_reset to go on where the logs part",
        topic_partition=topic_partition,
        offset=offset,
        diverging_offset=end,
    )
