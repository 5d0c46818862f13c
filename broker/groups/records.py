"""The records of ``__consumer_offsets``: keys and values in Kafka's own formats.

A key begins with its type, a value with its version. What is written here is what Kafka 4.x writes,
so that each can read the other's, and Kafka's tools read both; everything that Kafka ever wrote is
read (``group-coordinator/src/main/resources/common/message`` of its sources).
"""

from enum import IntEnum, unique
from struct import Struct
from typing import Final, NamedTuple

from quorate.broker.shards.formats import decode_value
from quorate.errors import CorruptRecordError
from quorate.model import UNKNOWN_EPOCH
from quorate.protocol.fields import array, binary, int32, int64, string
from quorate.protocol.message import message, nested


@unique
class KeyType(IntEnum):
    """What a record is about; the first two bytes of its key."""

    OFFSET_COMMIT_OLD = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


_SHORT: Final = Struct(">h")
_LENGTH: Final = Struct(">h")
_PARTITION: Final = Struct(">i")

_OFFSET_VERSION: Final = 3
_OFFSET_EXPIRING_VERSION: Final = 1
_OFFSET_HEAD: Final = Struct(">hqih")
"""Version, offset, leader epoch, length of the metadata."""
_OFFSET_HEAD_BEFORE_EPOCHS: Final = Struct(">hqh")
_TIMESTAMP: Final = Struct(">q")


def names_key(kind: KeyType, *names: str) -> bytes:
    """Return a key of a type and names: of a group, and a member or an expression."""
    parts = [_SHORT.pack(kind)]
    for name in names:
        encoded = name.encode()
        parts += (_LENGTH.pack(len(encoded)), encoded)
    return b"".join(parts)


def read_names(key: bytes, count: int) -> tuple[str, ...]:
    """Return the names of such a key.

    Raises:
        CorruptRecordError: there are not as many, or more than that.
    """
    names: list[str] = []
    at = _SHORT.size
    for _ in range(count):
        name, at = _read_text(key, at)
        names.append(name)
    if at != len(key):
        raise CorruptRecordError("a key is longer than what it says")
    return tuple(names)


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    begin = at + _LENGTH.size
    if begin > len(data):
        raise CorruptRecordError("a record of a group ends early")
    size_bytes: int = _LENGTH.unpack_from(data, at)[0]
    end = begin + size_bytes
    if size_bytes < 0 or end > len(data):
        raise CorruptRecordError("a text in a record of a group has an impossible length")
    return _utf8(data[begin:end]), end


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptRecordError(f"a text in a record of a group: {error}") from None


# --- offsets ------------------------------------------------------------------


class OffsetKey(NamedTuple):
    """Which partition a group has read; a named tuple, for there is one in every commit."""

    group_id: str
    topic: str
    partition: int


class Committed(NamedTuple):
    """How far a partition was read.

    A named tuple for its size: there is one for each partition that any group reads.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    """When it expires, if its client said so (OffsetCommit up to version 4), else -1."""


NO_EXPIRY: Final = -1


def offset_prefix(group_id: str, topic: str) -> bytes:
    """Return what the keys of a group's offsets of one topic begin with."""
    return names_key(KeyType.OFFSET_COMMIT, group_id, topic)


def offset_key(prefix: bytes, partition: int) -> bytes:
    """Return the key of a group's offset of one partition."""
    return prefix + _PARTITION.pack(partition)


def read_offset_key(key: bytes) -> OffsetKey:
    """Return which partition of which group a record is about.

    Raises:
        CorruptRecordError: it is no such key.
    """
    group_id, at = _read_text(key, _SHORT.size)
    topic, at = _read_text(key, at)
    if len(key) != at + _PARTITION.size:
        raise CorruptRecordError("the key of an offset has an impossible length")
    partition: int = _PARTITION.unpack_from(key, at)[0]
    return OffsetKey(group_id, topic, partition)


def offset_value(committed: Committed) -> bytes:
    """Return the value of an offset's record."""
    metadata = committed.metadata.encode()
    stamp = _TIMESTAMP.pack(committed.commit_timestamp_ms)
    if committed.expire_timestamp_ms == NO_EXPIRY:
        head = _OFFSET_HEAD.pack(
            _OFFSET_VERSION, committed.offset, committed.leader_epoch, len(metadata)
        )
        return head + metadata + stamp
    # The only version that has an expiry has no leader epoch.
    head = _OFFSET_HEAD_BEFORE_EPOCHS.pack(
        _OFFSET_EXPIRING_VERSION, committed.offset, len(metadata)
    )
    return head + metadata + stamp + _TIMESTAMP.pack(committed.expire_timestamp_ms)


@message(versions="0-4", flexible="4+")
class OffsetCommitValue:
    """How far a partition was read, in any version."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=UNKNOWN_EPOCH)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=NO_EXPIRY)


def read_offset_value(value: bytes) -> Committed:
    """Return what an offset's record says.

    Raises:
        CorruptRecordError: it is no such value.
    """
    size_bytes = len(value)
    if size_bytes >= _OFFSET_HEAD.size:
        version, offset, leader_epoch, metadata_bytes = _OFFSET_HEAD.unpack_from(value)
        end = _OFFSET_HEAD.size + metadata_bytes
        if version == _OFFSET_VERSION and size_bytes == end + _TIMESTAMP.size:
            stamp: int = _TIMESTAMP.unpack_from(value, end)[0]
            # Most have no metadata.
            metadata = _utf8(value[_OFFSET_HEAD.size : end]) if metadata_bytes else ""
            return Committed(offset, leader_epoch, metadata, stamp, NO_EXPIRY)
    old = decode_value(OffsetCommitValue, value)
    return Committed(
        old.offset, old.leader_epoch, old.metadata, old.commit_timestamp, old.expire_timestamp
    )


# --- classic groups -----------------------------------------------------------

GROUP_METADATA_VERSION: Final = 3
"""The version of ``GroupMetadataValue`` that is written."""


@nested
class MemberMetadata:
    """A member of a classic group, and what it was assigned."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+")
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


@message(versions="0-4", flexible="4+")
class GroupMetadataValue:
    """A generation of a classic group."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)
