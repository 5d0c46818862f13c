"""Trio shell: the side of the Consumer that is turned to its group."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import trio

from quorate.client.arguments import INT32_MAX, is_number, require_text
from quorate.client.classic_group_member import ClassicGroupMember
from quorate.client.commits import Commit, Commits
from quorate.client.connections import several
from quorate.client.consumer_base import ConsumerBase
from quorate.client.consumer_group_member import ConsumerGroupMember
from quorate.client.coordinators import Coordinators
from quorate.client.errors import NoOffsetError, NotAssignedError
from quorate.client.group_member import GroupMember, MemberParts
from quorate.client.group_offsets import fetch_offsets
from quorate.client.group_topics import GroupTopics
from quorate.client.groups.results import OffsetAndMetadata, offsets_to_commit
from quorate.client.membership.consumer_member import SubscriptionPattern
from quorate.client.membership.identity import GroupMetadata
from quorate.client.membership.member import GivenUp, Member, MemberSettings
from quorate.client.progress import Progress
from quorate.client.rebalancing import RebalanceListener, Rebalancing, begin_streams
from quorate.client.receiving.positions import OffsetReset
from quorate.client.turns import Turns
from quorate.model import TopicPartition
from quorate.net.bell import Bell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from quorate.client.consumer_group_member import Subscription
    from quorate.client.consumer_settings import GroupSettings
    from quorate.client.reading import Reading
    from quorate.client.receiving.fetches import FetchSettings
    from quorate.client.receiving.streams import PartitionStream

CLOSE_TIMEOUT_MS: Final = 10_000
"""How long the last commits, and the listener, may take when a block ends in peace."""

INTERRUPTED_CLOSE_TIMEOUT_MS: Final = 2_000
"""How long they may take when it was cancelled, or an error ends it."""

LEAVE_TIMEOUT_MS: Final = 1_000
"""How long the coordinator may take to hear that a member leaves."""

BEGIN_RETRY_S: Final = 0.2


class GroupConsumer(ConsumerBase):
    """Reads what its group assigns to it, or what it is told, and commits how far."""

    def __init__(self, fetch_settings: FetchSettings, group: GroupSettings | None) -> None:
        super().__init__(fetch_settings)
        self._group = group
        self._turns = Turns(self._alert)
        self._polls = 0
        self._polling = 0
        self._begin_bell = Bell()
        self._coordinators: Coordinators | None = None
        self._commits: Commits | None = None
        self._rebalancing: Rebalancing | None = None
        self._topics: GroupTopics | None = None
        self._member: GroupMember | None = None
        self._subscription: Subscription = frozenset()

    def _open_group(self) -> None:
        """Start what groups need, once the cluster is connected."""
        if self._group is None:
            return
        cluster, nursery = self._connected(), self._lifetime.nursery
        self._coordinators = Coordinators(cluster)
        self._commits = Commits(cluster, self._coordinators, self._committer)
        self._rebalancing = Rebalancing(
            self._open(),
            self._commits,
            self._begin_bell.ring,
            auto_commit=self._group.enable_auto_commit,
        )
        self._topics = GroupTopics(cluster, self._topics_changed)
        nursery.start_soon(self._commits.run)
        nursery.start_soon(self._topics.run)
        nursery.start_soon(self._begin, self._open(), self._coordinators, self._group.group_id)
        if self._group.enable_auto_commit:
            nursery.start_soon(self._auto_commit, self._group.auto_commit_interval_ms / 1000)

    # What to read

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        *,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read what the group assigns of these topics, as a member of it.

        It joins in the background; records come from :meth:`poll` and the iteration as ever. What a
        former subscription named and this one does not is given up.

        Args:
            topics: A topic, several, or a pattern that whole names have to match: here, or at the
                coordinator, for ``group_protocol="consumer"``.
            listener: Is told which partitions come and go.

        Raises:
            ValueError: There is no ``group_id``, no topic, or partitions were assigned by hand.
        """
        group = self._group_or_refuse("to subscribe")
        classic = isinstance(group.member, MemberSettings)
        wanted: Subscription
        if isinstance(topics, re.Pattern | SubscriptionPattern):
            wanted = topics
        else:
            wanted = frozenset([topics] if isinstance(topics, str) else topics)
            for topic in wanted:
                require_text("topic", topic)
            if not wanted:
                raise ValueError("no topic to subscribe to; to leave there is unsubscribe()")
        if classic and isinstance(wanted, SubscriptionPattern):
            raise ValueError(
                "a SubscriptionPattern needs group_protocol='consumer'; try re.compile"
            )
        if self._member is None and self._open().streams:
            raise ValueError("partitions were assigned by hand: assign([]) before subscribing")
        assert self._topics is not None
        assert self._rebalancing is not None
        self._rebalancing.listener = listener or RebalanceListener()
        self._subscription = wanted
        self._topics.follow(
            wanted if classic and isinstance(wanted, frozenset) else frozenset(),
            wanted if isinstance(wanted, re.Pattern) else None,
        )
        if self._member is None or self._member.failure is not None:
            self._member = self._new_member(group)
            self._lifetime.nursery.start_soon(self._member.run)
        self._member.subscription_changed()

    def _new_member(self, group: GroupSettings) -> GroupMember:
        assert self._coordinators is not None
        assert self._topics is not None
        assert self._rebalancing is not None
        parts = MemberParts(
            self._connected(),
            self._coordinators,
            self._topics,
            self._turns,
            self._rebalancing,
            self._progress_mark,
        )
        if isinstance(group.member, MemberSettings):
            interval_ms = group.heartbeat_interval_ms
            member = Member(group.member)
            return ClassicGroupMember(parts, member, heartbeat_interval_ms=interval_ms)
        return ConsumerGroupMember(parts, group.member, lambda: self._subscription)

    async def unsubscribe(self) -> None:
        """Give up everything, and leave the group; nothing, if it is in none.

        What was read is committed first, if commits are automatic. Cancelled, a member gives
        everything up, and leaves, all the same.
        """
        self._lifetime.check_open()
        if self._group is None:
            return
        try:
            await self._give_up_and_leave("unsubscribed", processed_only=False)
        finally:
            self._subscription = frozenset()
            if self._rebalancing is not None:
                self._rebalancing.listener = RebalanceListener()

    @property
    def subscription(self) -> Subscription:
        """The topics subscribed to, or the pattern; empty without a subscription."""
        return self._subscription

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions from now on, and no others.

        Partitions that were assigned before go on where they are; the others begin at the offset
        that the group has committed, if there is a ``group_id``, and else as ``auto_offset_reset``
        says, unless :meth:`seek` says otherwise. A partition that does not exist shows when records
        are asked for.

        Raises:
            ValueError: A number is no partition's, or the group assigns (:meth:`subscribe`).
        """
        reading = self._open()
        if self._member is not None:
            raise ValueError("the group assigns the partitions: unsubscribe() first")
        reset = self._fetch_settings.offset_reset
        asked_timestamp = None if reset is OffsetReset.NONE else reset.timestamp
        wanted = [TopicPartition(*partition) for partition in several("assign", partitions)]
        for partition in wanted:
            require_text("topic", partition.topic)
            if not is_number(partition.partition, 0, INT32_MAX):
                raise ValueError(f"{partition} is not a partition: they are numbered from 0")
        streams: dict[TopicPartition, PartitionStream] = {}
        for partition in wanted:
            first = asked_timestamp if self._group is None else None
            stream = reading.streams.get(partition) or reading.new_stream(partition, first)
            if self._group is None and first is None and stream.position.offset is None:
                message = f"{partition} has no position, and auto_offset_reset is 'none': seek"
                stream.error = NoOffsetError(message)
            streams[partition] = stream
        reading.read(streams)
        self._begin_bell.ring()

    async def assign_topics(self, *topics: str) -> None:
        """Read all partitions that these topics have now.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        partitions = [
            TopicPartition(topic, number)
            for topic in topics
            for number in await self.partitions_of(topic)
        ]
        self.assign(partitions)

    # Commits

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None
    ) -> None:
        """Have the group remember how far its partitions were read, and wait until it does.

        Cancelling does not call the commit off: it may be done all the same.

        Args:
            offsets: The next offset to read of each partition; by default the positions of all
                partitions: everything that was given out counts as read.

        Raises:
            CommitFailedError: The group has gone on without this consumer.
            QuorateError: It could not be committed; ask again.
            ValueError: There is no ``group_id``, or what is given is no offset.
        """
        await self.commit_soon(offsets).result()

    def commit_soon(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: Callable[[Commit], None] | None = None,
    ) -> Commit:
        """Commit as :meth:`commit` does, without waiting; what comes of it the result tells.

        Commits keep their order. What is handed over while one is under way is sent together.

        Args:
            offsets: As for :meth:`commit`.
            callback: Called with the result when it is known.
        """
        self._group_or_refuse("to commit")
        assert self._commits is not None
        committed = self._open().positions() if offsets is None else offsets_to_commit(offsets)
        if self._member is not None:
            for partition in committed:
                if partition not in self._open().streams:
                    raise NotAssignedError(f"{partition} is not assigned to this consumer")
        self._open().done_with(committed)
        commit = self._commits.commit_soon(committed)
        if callback is not None:
            commit.add_callback(callback)
        return commit

    async def committed(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed of these partitions; None where it has not.

        Raises:
            QuorateError: It cannot be found out.
            ValueError: There is no ``group_id``.
        """
        group = self._group_or_refuse("to have committed anything")
        assert self._coordinators is not None
        wanted = [TopicPartition(*partition) for partition in several("committed", partitions)]
        found = await fetch_offsets(self._coordinators, group.group_id, wanted)
        return {partition: found.get(partition) for partition in wanted}

    @property
    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group.

        Raises:
            ValueError: There is no ``group_id``.
        """
        group = self._group_or_refuse("to be somebody in it")
        return GroupMetadata(group.group_id) if self._member is None else self._member.identity

    def progress(self) -> Progress:
        """Return what knows where this consumer is now, for a transaction that commits how far.

        Raises:
            ValueError: There is no ``group_id``, or the consumer commits by itself.
        """
        group = self._group_or_refuse("to commit how far it has read")
        if group.enable_auto_commit:
            raise ValueError(
                "a consumer whose offsets are committed with transactions must not commit them by"
                " itself: enable_auto_commit=False"
            )
        assert self._rebalancing is not None
        ring = self._begin_bell.ring
        return Progress(self._open(), self._rebalancing, lambda: self.group_metadata, ring)

    def _committer(self) -> GroupMetadata | None:
        """Return who commits; None if it should be a member, and is not."""
        is_out = self._member is not None and not self._member.is_member
        return None if is_out else self.group_metadata

    async def _auto_commit(self, interval_s: float) -> None:
        assert self._rebalancing is not None
        while True:
            await trio.sleep(interval_s)
            if self._member is None or self._member.is_member:
                self._rebalancing.commit_soon(self._open().streams, processed_only=True)

    # In the background

    def _alert(self) -> None:
        """Wake whoever waits for records; a rebalance may still want to when all is over."""
        if self._reading is not None:
            self._reading.fetcher.changed.unpark_all()

    def _topics_changed(self) -> None:
        if self._member is not None:
            self._member.topics_changed()

    def _progress_mark(self) -> object:
        if self._polling:
            self._polls += 1
        return self._polls, 0 if self._reading is None else len(self._reading.iterated)

    async def _begin(self, reading: Reading, coordinators: Coordinators, group_id: str) -> None:
        """Have streams that wait for it begin at the committed offsets."""
        reset = self._fetch_settings.offset_reset
        while True:
            await self._begin_bell.wait()
            while streams := [s for s in reading.streams.values() if s.position.is_open]:
                known = await begin_streams(streams, coordinators, group_id, reset)
                reading.fetcher.wake()
                reading.fetcher.changed.unpark_all()
                if not known:
                    await trio.sleep(BEGIN_RETRY_S)

    def _raise_failures(self) -> None:
        """Raise what went wrong in the background, or that it is over, to whom asks for records."""
        self._lifetime.check_open()
        if self._rebalancing is not None and self._rebalancing.failure is not None:
            failure, self._rebalancing.failure = self._rebalancing.failure, None
            raise failure
        if self._member is not None and self._member.failure is not None:
            raise self._member.failure

    # Leaving

    async def _close_group(self, error: BaseException | None) -> None:
        """Commit what may be committed, tell the listener, and leave."""
        if self._group is None or self._commits is None:
            return
        reason = _reason_of(error)
        timeout_ms = CLOSE_TIMEOUT_MS if error is None else INTERRUPTED_CLOSE_TIMEOUT_MS
        try:
            with trio.move_on_after(timeout_ms / 1000, shield=error is not None):
                await self._give_up_and_leave(reason, processed_only=error is not None)
                await self._commits.settle()
        finally:
            self._commits.end()

    async def _give_up_and_leave(self, reason: str, *, processed_only: bool) -> None:
        rebalancing, member, reading = self._rebalancing, self._member, self._open()
        assert rebalancing is not None
        if not processed_only:
            reading.come_back()  # so that a commit in between takes back nothing
        try:
            if member is not None:
                await member.stop()
            partitions = frozenset(reading.streams)
            lost = member is not None and not member.is_member
            await rebalancing.give_up(GivenUp(partitions, lost), processed_only=processed_only)
        finally:
            if member is not None:
                self._member = None
                rebalancing.drop()
                with trio.move_on_after(LEAVE_TIMEOUT_MS / 1000, shield=True):
                    await member.leave(reason)

    def _group_or_refuse(self, what: str) -> GroupSettings:
        self._lifetime.check_open()
        if self._group is None:
            raise ValueError(f"there is no group_id: a consumer needs one {what}")
        return self._group


def _reason_of(error: BaseException | None) -> str:
    """Return why a block ended, to be told to the group."""
    if error is None:
        return "the consumer was closed"
    if isinstance(error, trio.Cancelled):
        return "the consumer was cancelled"
    return f"the consumer ended by {type(error).__name__}: {error}"
