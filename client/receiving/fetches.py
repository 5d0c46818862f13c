"""Fetch and ListOffsets requests out of streams, and what answers mean for streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.client.errors import NoOffsetError, error_for
from quorate.client.receiving.positions import OffsetReset
from quorate.client.routing.retries import Backoff, Remedy, remedy_for
from quorate.dataclass import dataclass
from quorate.errors import MEANINGS, ErrorCode, known_code
from quorate.model import UNKNOWN_EPOCH, TopicPartition
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from quorate.client.receiving.streams import PartitionStream
    from quorate.client.routing.cluster import Leader
    from quorate.protocol.messages.data import (
        FetchResponse,
        ListOffsetsPartitionResponse,
        PartitionData,
    )

BUSY_WAIT_MS: Final = 20
"""How long a broker may wait for data while partitions are left out of a request, which will be
fetchable as soon as their records are taken."""

CONSUMER_REPLICA_ID: Final = -1


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """How to fetch; the names are those of the consumer's arguments."""

    min_bytes: int
    max_wait_ms: int
    max_bytes: int
    partition_max_bytes: int
    committed_only: bool
    offset_reset: OffsetReset
    backoff: Backoff


@dataclass(frozen=True, slots=True)
class Asked:
    """One partition in a request: what the answer must fit to be of use."""

    stream: PartitionStream
    generation: int
    offset: int
    leader_epoch: int = UNKNOWN_EPOCH


@dataclass(frozen=True, slots=True)
class Fetch:
    """A request to one broker, and what it is about."""

    request: FetchRequest
    asked: dict[TopicPartition, Asked]


def plan_fetches(
    streams: Iterable[PartitionStream],
    settings: FetchSettings,
    leader_of: Callable[[TopicPartition], Leader | None],
    now_ms: int,
) -> dict[int, Fetch]:
    """Return the next request for each broker that leads partitions with room for more."""
    fetches: dict[int, Fetch] = {}
    busy_leaders: set[int] = set()
    for stream in streams:
        offset = stream.fetch_offset
        if offset is None or stream.paused or stream.asking or stream.retry_at_ms > now_ms:
            continue
        leader = leader_of(stream.topic_partition)
        if leader is None or stream.needs_check(leader.epoch):
            continue
        if stream.buffered_bytes >= settings.partition_max_bytes:
            busy_leaders.add(leader.broker_id)
            continue
        fetch = fetches.get(leader.broker_id)
        if fetch is None:
            fetch = fetches[leader.broker_id] = Fetch(_fetch_request(settings), {})
        _add_partition(fetch, stream, offset, leader.epoch, settings.partition_max_bytes)
    for broker_id in busy_leaders & fetches.keys():
        request = fetches[broker_id].request
        request.max_wait_ms = min(request.max_wait_ms, BUSY_WAIT_MS)
    return fetches


def _fetch_request(settings: FetchSettings) -> FetchRequest:
    return FetchRequest(
        replica_id=CONSUMER_REPLICA_ID,
        max_wait_ms=settings.max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=int(settings.committed_only),
    )


def _add_partition(
    fetch: Fetch, stream: PartitionStream, offset: int, leader_epoch: int, bytes_max: int
) -> None:
    name, partition = stream.topic_partition
    topics = fetch.request.topics
    topic = next((topic for topic in reversed(topics) if topic.topic == name), None)
    if topic is None:
        topic = FetchTopic(topic=name)
        topics.append(topic)
    topic.partitions.append(
        FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=bytes_max,
        )
    )
    asked = Asked(stream, stream.position.generation, offset, leader_epoch)
    fetch.asked[stream.topic_partition] = asked


def take_fetched(
    fetch: Fetch, response: FetchResponse, settings: FetchSettings, now_ms: int, rng: Random
) -> bool:
    """Hand a response to its streams, and return whether metadata turned out to be stale."""
    stale = False
    answered: set[TopicPartition] = set()
    for topic in response.responses:
        for data in topic.partitions:
            topic_partition = TopicPartition(topic.topic, data.partition_index)
            asked = fetch.asked.get(topic_partition)
            if asked is not None:
                answered.add(topic_partition)
                stale |= _take_partition(asked, data, settings, now_ms, rng)
    for topic_partition in fetch.asked.keys() - answered:
        stale = True
        pause(fetch.asked[topic_partition].stream, settings.backoff, now_ms, rng)
    return stale


def _take_partition(
    asked: Asked, data: PartitionData, settings: FetchSettings, now_ms: int, rng: Random
) -> bool:
    stream, code = asked.stream, known_code(data.error_code)
    if asked.generation != stream.position.generation:
        return False
    if code == ErrorCode.NONE:
        stream.agreed_epoch = asked.leader_epoch
        if stream.add(data, asked.offset, asked.generation):
            stream.failures = 0
        else:
            pause(stream, settings.backoff, now_ms, rng)
        return False
    if stream.is_buffering and remedy_for(code) is Remedy.GIVE_UP:
        # What came before is given out first; then this is found out again.
        pause(stream, settings.backoff, now_ms, rng)
        return False
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        _leave_range(stream, asked.offset, settings.offset_reset)
        return False
    what = f"cannot read {stream.topic_partition}"
    return stop_or_pause(stream, code, what, settings.backoff, now_ms, rng)


def _leave_range(stream: PartitionStream, offset: int, reset: OffsetReset) -> None:
    if reset is not OffsetReset.NONE:
        stream.look_for(reset.timestamp)
        return
    stream.fail(
        NoOffsetError(
            f"{stream.topic_partition} has no offset {offset}: its records were deleted, or it was"
            " never written. Seek to another one, or set auto_offset_reset"
        )
    )


def stop_or_pause(
    stream: PartitionStream, code: ErrorCode, what: str, backoff: Backoff, now_ms: int, rng: Random
) -> bool:
    """Leave a stream alone, for good or for a while; return whether metadata turned out stale.

    Args:
        stream: Which.
        code: What a broker answered.
        what: What could not be done, for whom asks for records.
        backoff: How long to wait before it is tried again.
        now_ms: When that was.
        rng: Spreads who tries again.
    """
    remedy = remedy_for(code)
    if remedy is Remedy.GIVE_UP:
        stream.fail(error_for(code, f"{what}: {MEANINGS[code]}"))
    else:
        pause(stream, backoff, now_ms, rng)
    return remedy is Remedy.REFRESH


def pause(stream: PartitionStream, backoff: Backoff, now_ms: int, rng: Random) -> None:
    """Leave a stream alone for a while after a failure."""
    stream.failures += 1
    stream.retry_at_ms = now_ms + backoff.pause_ms(stream.failures, rng)


def plan_searches(
    streams: Iterable[PartitionStream],
    leader_of: Callable[[TopicPartition], Leader | None],
    now_ms: int,
) -> dict[int, list[Asked]]:
    """Return by broker the partitions whose position it is to be asked for."""
    searches: dict[int, list[Asked]] = {}
    for stream in streams:
        timestamp = stream.position.asked_timestamp
        if timestamp is None or stream.asking or stream.retry_at_ms > now_ms:
            continue
        leader = leader_of(stream.topic_partition)
        if leader is not None:
            asked = Asked(stream, stream.position.generation, timestamp)
            searches.setdefault(leader.broker_id, []).append(asked)
    return searches


def offsets_request(
    timestamps: Iterable[tuple[TopicPartition, int]], *, committed_only: bool, timeout_ms: int
) -> ListOffsetsRequest:
    """Return the request for the offsets of times, or of what stands for the ends."""
    request = ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=int(committed_only),
        timeout_ms=timeout_ms,
    )
    topics: dict[str, ListOffsetsTopic] = {}
    for (name, partition), timestamp in timestamps:
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = ListOffsetsTopic(name=name)
            request.topics.append(topic)
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=partition,
                current_leader_epoch=UNKNOWN_EPOCH,
                timestamp=timestamp,
            )
        )
    return request


def take_found(
    asked: Asked,
    answer: ListOffsetsPartitionResponse | None,
    backoff: Backoff,
    now_ms: int,
    rng: Random,
) -> bool:
    """Tell a stream where to begin, and return whether metadata turned out to be stale."""
    stream = asked.stream
    if asked.generation != stream.position.generation:
        return False
    code = ErrorCode.NETWORK_EXCEPTION if answer is None else known_code(answer.error_code)
    if answer is not None and code == ErrorCode.NONE:
        stream.failures = 0
        stream.found(answer.offset, asked.generation)
        return False
    what = f"no offset to begin {stream.topic_partition} with"
    return stop_or_pause(stream, code, what, backoff, now_ms, rng)
