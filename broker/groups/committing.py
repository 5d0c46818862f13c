"""What groups ask about offsets: commit, fetch, delete; decided on what is committed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from quorate.broker.groups.assigning.values import TopicIdPartition
from quorate.broker.groups.consumer_errors import StaleMemberEpochError
from quorate.broker.groups.group import (
    CommitSender,
    Group,
    GroupContext,
    GroupIdNotFoundError,
    HeldSince,
    InvalidGroupIdError,
    NonEmptyGroupError,
    UnknownMemberIdError,
)
from quorate.broker.groups.offsets import CommittedOffsets
from quorate.broker.groups.records import (
    NO_EXPIRY,
    Committed,
    offset_key,
    offset_prefix,
    offset_value,
)
from quorate.broker.shards.batching import batches
from quorate.broker.shards.effects import Done, Effects, Entry, InTransaction, ignore
from quorate.broker.shards.errors import CoordinatorNotAvailableError
from quorate.errors import ErrorCode, KafkaError
from quorate.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET
from quorate.protocol.messages.offsets import (
    OffsetDeleteRequestPartition,
    OffsetDeleteResponsePartition,
)
from quorate.setting_fields import LONG_MAX

GROUP_ID_NOT_FOUND_FROM: Final = 9
"""The version of OffsetCommit that may say that there is no such group (KIP-848)."""

CONSUMERS: Final = "consumer"
"""The protocol type of groups whose members are known to read topics."""

MS_PER_MINUTE: Final = 60_000


class OffsetToCommit(Protocol):
    """What requests say of one partition, those of transactions, too."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class OffsetAnswer(Protocol):
    """What is answered about one partition."""

    error_code: int


class TopicCommit(NamedTuple):
    """The offsets of one topic that are to be committed, and the answers about them."""

    topic: str
    partitions: Sequence[OffsetToCommit]
    answers: Sequence[OffsetAnswer]


class TopicDeletion(NamedTuple):
    """The offsets of one topic that are to be forgotten, and the answers about them."""

    topic: str
    partitions: Sequence[OffsetDeleteRequestPartition]
    answers: Sequence[OffsetDeleteResponsePartition]


class FetchedOffset(NamedTuple):
    """How far a group has read a partition, or why that is not told."""

    offset: int
    leader_epoch: int
    metadata: str
    code: ErrorCode


NEVER_COMMITTED: Final = FetchedOffset(UNKNOWN_OFFSET, UNKNOWN_EPOCH, "", ErrorCode.NONE)
UNSTABLE: Final = FetchedOffset(UNKNOWN_OFFSET, UNKNOWN_EPOCH, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


class OffsetKeeper:
    """Decides about the offsets of the groups of one coordinator.

    A group that never had members is one of consumers who choose their partitions themselves: there
    is nothing of it but offsets.

    State: the topics that exist no more, or are others by now, and of which it could not be written
    yet that their offsets are forgotten. Nobody is told of those; nothing is committed for a topic
    of that name, or else it would be forgotten with them.
    """

    __slots__ = ("_context", "_gone", "offsets")

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self.offsets = CommittedOffsets()
        self._gone: set[str] = set()

    # --- commits --------------------------------------------------------------

    def commit(
        self,
        group_id: str,
        sender: CommitSender,
        topics: Sequence[TopicCommit],
        *,
        retention_ms: int,
        done: Done,
        transaction: InTransaction | None = None,
    ) -> None:
        """Write offsets; ``done`` is called when they are committed. An answer may be a refusal.

        Args:
            group_id: whose they are.
            sender: who says so.
            topics: what was read.
            retention_ms: how long they are to be kept, or -1 for as long as all others.
            done: called exactly once, unless this raises.
            transaction: with which the offsets become true, if not at once.

        Raises:
            KafkaError: whoever it is has no part in the group.
        """
        held = self._check_sender(group_id, sender)
        if held is not None:
            self._check_held(held, sender, topics)
        if (
            self._gone
            and self._forget_gone()
            and any(topic in self._gone for topic, _, _ in topics)
        ):
            raise CoordinatorNotAvailableError("the offsets of another topic of that name are here")
        surroundings = self._context.surroundings
        now_ms = surroundings.now_ms()
        metadata_max = surroundings.config.offset_metadata_max_bytes
        expire_ms = NO_EXPIRY
        if retention_ms != NO_EXPIRY:
            expire_ms = min(now_ms + retention_ms, LONG_MAX)
        entries: list[Entry] = []
        for topic, partitions, answers in topics:
            prefix = offset_prefix(group_id, topic)
            for partition, answer in zip(partitions, answers, strict=True):
                metadata = partition.committed_metadata or ""
                if len(metadata) > metadata_max:
                    answer.error_code = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                    continue
                committed = Committed(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now_ms,
                    expire_ms,
                )
                key = offset_key(prefix, partition.partition_index)
                entries.append(Entry(key, offset_value(committed)))
        if entries:
            self._context.writer.write(Effects(group_id, tuple(entries), done, transaction))
        else:
            done(ErrorCode.NONE)

    def _check_sender(self, group_id: str, sender: CommitSender) -> HeldSince | None:
        group = self._context.groups.get(group_id)
        if group is not None:
            return group.check_commit(sender)
        if sender.generation >= 0:
            if group_id in self.offsets:
                raise UnknownMemberIdError  # there is a group, and it has no members
            if sender.api_version >= GROUP_ID_NOT_FOUND_FROM:
                raise GroupIdNotFoundError
            raise KafkaError(code=ErrorCode.ILLEGAL_GENERATION)
        return None

    def _check_held(
        self, held: HeldSince, sender: CommitSender, topics: Iterable[TopicCommit]
    ) -> None:
        """Refuse everything if a partition was not the sender's at the epoch that it names."""
        known = self._context.surroundings.image().topics
        for name, partitions, _ in topics:
            topic = known.get(name)
            for partition in partitions:
                index = partition.partition_index
                since = None if topic is None else held.get(TopicIdPartition(topic.topic_id, index))
                if since is None or sender.generation < since:
                    raise StaleMemberEpochError(
                        f"The member did not have {name}-{index} at epoch {sender.generation}."
                    )

    # --- fetches --------------------------------------------------------------

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """Refuse to tell offsets to whom is not in the group any more.

        Raises:
            KafkaError: that is so.
        """
        group = self._context.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)

    def fetch(self, group_id: str, topic: str, partition: int, *, stable: bool) -> FetchedOffset:
        """Return how far a group has read a partition.

        Args:
            group_id: which group.
            topic: which topic.
            partition: which partition.
            stable: whether to wait for the end of a transaction that commits another offset.
        """
        if topic in self._gone:
            return NEVER_COMMITTED
        if stable and self.offsets.is_pending(group_id, topic, partition):
            return UNSTABLE
        found = self.offsets.find(group_id, topic, partition)
        if found is None:
            return NEVER_COMMITTED
        return FetchedOffset(found.offset, found.leader_epoch, found.metadata, ErrorCode.NONE)

    # --- deletions ------------------------------------------------------------

    def delete(self, group_id: str, topics: Iterable[TopicDeletion], done: Done) -> None:
        """Forget offsets of topics that the group does not read (KIP-496).

        Raises:
            InvalidGroupIdError: no group can be called that.
            GroupIdNotFoundError: there is no such group.
            NonEmptyGroupError: nobody knows what its members read.
        """
        if not group_id:
            raise InvalidGroupIdError
        group = self._find(group_id)
        if group is not None and not group.is_empty and group.protocol_type != CONSUMERS:
            raise NonEmptyGroupError
        entries: list[Entry] = []
        for topic, partitions, answers in topics:
            subscribed = group is not None and group.is_subscribed_to(topic)
            for partition, answer in zip(partitions, answers, strict=True):
                index = partition.partition_index
                if subscribed:
                    answer.error_code = int(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                elif self.offsets.is_known(group_id, topic, index):
                    entries.append(Entry(offset_key(offset_prefix(group_id, topic), index), None))
        self._context.writer.write(Effects(group_id, tuple(entries), done))

    def delete_group(self, group_id: str, done: Done) -> None:
        """Forget a group that has no members, and its offsets.

        Raises:
            GroupIdNotFoundError: there is no such group.
            NonEmptyGroupError: it has members.
        """
        group = self._find(group_id)
        if group is not None and not group.is_empty:
            raise NonEmptyGroupError
        self._write_all(group_id, self._tombstones(group_id, group), done)

    def _find(self, group_id: str) -> Group | None:
        """Return a group; None if there are only offsets of it.

        Raises:
            GroupIdNotFoundError: there is nothing of it.
        """
        group = self._context.groups.get(group_id)
        if group is None and group_id not in self.offsets:
            raise GroupIdNotFoundError
        return group

    def _tombstones(self, group_id: str, group: Group | None) -> Iterator[Entry]:
        yield from self.offsets.tombstones(group_id)
        if group is not None:
            yield from group.tombstones()  # last: while it is there, nothing is left over

    def _write_all(self, group_id: str, entries: Iterable[Entry], done: Done) -> bool:
        """Write entries that may be too many for one batch; ``done`` is called for the last.

        Returns:
            Whether all of them were written.
        """
        *first, last = batches(entries)
        for batch in first:
            codes: list[ErrorCode] = []
            if not self._context.writer.write(Effects(group_id, batch, codes.append)):
                done(*codes)
                return False
        return self._context.writer.write(Effects(group_id, last, done))

    def forget_topic(self, topic: str) -> None:
        """Forget what all groups have read of a topic that exists no more.

        If that cannot be written, it is tried again before the next commit, or when offsets are
        looked for that expired.
        """
        self._gone.add(topic)
        self._forget_gone()

    def _forget_gone(self) -> bool:
        """Write down what is to be forgotten with its topic; return whether any of it is left."""
        for topic in sorted(self._gone):
            for group_id, partitions in self.offsets.of_topic(topic).items():
                prefix = offset_prefix(group_id, topic)
                entries = [Entry(offset_key(prefix, partition), None) for partition in partitions]
                if not self._write_all(group_id, entries, ignore):
                    return True
            self._gone.discard(topic)
        return False

    # --- expiry ---------------------------------------------------------------

    def expire(self, group_id: str) -> None:
        """Forget offsets that are too old, and a group that has neither offsets nor members."""
        self._forget_gone()
        group = self._context.groups.get(group_id)
        expired = [
            Entry(offset_key(offset_prefix(group_id, topic), partition), None)
            for topic, partition in self._expired(group_id, group)
        ]
        kept = sum(map(len, self.offsets.of_group(group_id).values())) - len(expired)
        unused = group is not None and group.is_empty and not group.expects_members
        if group is not None and unused and not kept and not self._has_pending(group_id):
            expired += group.tombstones()
        if expired:
            self._write_all(group_id, expired, ignore)

    def _has_pending(self, group_id: str) -> bool:
        return next(self.offsets.pending_of(group_id), None) is not None

    def _expired(self, group_id: str, group: Group | None) -> Iterator[tuple[str, int]]:
        surroundings = self._context.surroundings
        now_ms = surroundings.now_ms()
        retention_ms = surroundings.config.offsets_retention_minutes * MS_PER_MINUTE
        for topic, partitions in self.offsets.of_group(group_id).items():
            if group is not None and not group.is_empty and _may_read(group, topic):
                continue
            for partition, committed in partitions.items():
                commit_ms = committed.commit_timestamp_ms
                since_ms = commit_ms if group is None else group.idle_since_ms(commit_ms)
                if since_ms is None:
                    continue
                expires_ms = committed.expire_timestamp_ms
                if expires_ms == NO_EXPIRY:
                    expires_ms = since_ms + retention_ms
                if now_ms >= expires_ms and not self.offsets.is_pending(group_id, topic, partition):
                    yield topic, partition


def _may_read(group: Group, topic: str) -> bool:
    return group.protocol_type != CONSUMERS or group.is_subscribed_to(topic)
