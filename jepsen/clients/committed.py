"""What groups have committed, asked of their coordinators by one request each."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from quorate.errors import ErrorCode, KafkaError, known_code
from quorate.jepsen.clients.raw import Raw
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)

OFFSET_COMMIT_VERSION: Final = 8
OFFSET_FETCH_VERSION: Final = 7


class Committed(NamedTuple):
    """An offset, -1 if there is none, and the metadata that was committed with it."""

    offset: int
    metadata: str = ""


def fetch(
    raw: Raw, group: str, partitions: Sequence[TopicPartition], *, stable: bool = False
) -> dict[TopicPartition, Committed]:
    """Return what is committed of these partitions; if ``stable``, no transaction may be about to.

    Raises:
        NotNowError: nobody coordinates the group.
        ClosedError: there was no answer.
        KafkaError: it cannot be told now.
    """
    by_topic: dict[str, list[int]] = {}
    for where in partitions:
        by_topic.setdefault(where.topic, []).append(where.partition)
    topics = [
        OffsetFetchRequestTopic(name=name, partition_indexes=numbers)
        for name, numbers in by_topic.items()
    ]
    request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
    where_from = raw.coordinator(group)
    answer = raw.ask(where_from, ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, request)
    _check(answer.error_code)
    found: dict[TopicPartition, Committed] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            _check(each.error_code)
            place = TopicPartition(topic.name, each.partition_index)
            found[place] = Committed(each.committed_offset, each.metadata or "")
    return found


def commit(raw: Raw, group: str, offsets: Mapping[TopicPartition, Committed]) -> ErrorCode:
    """Commit for a group without members, in one request; return what its coordinator says.

    Raises:
        NotNowError: nobody coordinates the group; nothing was sent.
        ClosedError: there was no answer; it may have been done.
    """
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for where, (offset, metadata) in offsets.items():
        each = OffsetCommitRequestPartition(
            partition_index=where.partition, committed_offset=offset, committed_metadata=metadata
        )
        by_topic.setdefault(where.topic, []).append(each)
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=each) for name, each in by_topic.items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    where_to = raw.coordinator(group)
    answer = raw.ask(where_to, ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, request)
    codes = [each.error_code for topic in answer.topics for each in topic.partitions]
    return known_code(next((code for code in codes if code), 0))


def _check(code: int) -> None:
    if code != ErrorCode.NONE:
        raise KafkaError(code=known_code(code))
