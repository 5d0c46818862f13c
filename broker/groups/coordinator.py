"""GroupCoordinator: the groups of one partition of ``__consumer_offsets``."""

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from quorate.broker.groups.classic_groups import ClassicGroups
from quorate.broker.groups.committing import OffsetKeeper
from quorate.broker.groups.consumer_groups import ConsumerGroups
from quorate.broker.groups.consumer_records import KINDS as CONSUMER_KINDS
from quorate.broker.groups.group import GroupContext, GroupProtocol, Surroundings
from quorate.broker.groups.records import KeyType
from quorate.broker.shards.effects import Writer
from quorate.broker.shards.formats import leading_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.quorum.metadata.image import TopicImage

logger = logging.getLogger(__name__)

OFFSET_KEYS: Final = (KeyType.OFFSET_COMMIT_OLD, KeyType.OFFSET_COMMIT)
EXPIRED_AT_ONCE: Final = 100
"""How many groups are looked at before others get a turn."""


class GroupListing(NamedTuple):
    """A group in a list."""

    group_id: str
    group_type: str
    protocol_type: str
    state_name: str


class GroupCoordinator:
    """The state of the groups that hash to one partition, as its records say.

    State: the groups and the offsets they have committed, which only :meth:`replay` changes; within
    the groups, who waits for what, until when; and, while it loads, the topics that there were when
    that began.
    """

    def __init__(self, writer: Writer, surroundings: Surroundings) -> None:
        self.context = GroupContext({}, writer, surroundings)
        self.keeper = OffsetKeeper(self.context)
        self.classic = ClassicGroups(self.context)
        self.consumer = ConsumerGroups(self.context)
        self._protocols: Mapping[int, GroupProtocol] = {
            KeyType.GROUP_METADATA: self.classic,
            **dict.fromkeys(CONSUMER_KINDS, self.consumer),
        }
        self._topics_at_first: Mapping[str, TopicImage] = surroundings.image().topics

    # --- the fold of the records ----------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Fold one record into the state; one of a type that is not known is left out.

        Raises:
            CorruptRecordError: it is of a type that is known, and no such record.
        """
        kind = leading_number(key)
        if kind in OFFSET_KEYS:
            self.keeper.offsets.replay(key, value)
            return
        protocol = self._protocols.get(kind)
        if protocol is None:
            logger.warning("a record of unknown type %d among those of groups is ignored", kind)
            return
        protocol.replay(kind, key, value)

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Keep an offset in mind that a transaction commits, until that has ended.

        Raises:
            CorruptRecordError: it is no offset.
        """
        self.keeper.offsets.replay_pending(producer_id, key, value)

    def end_transaction(self, producer_id: int, *, committed: bool) -> Iterable[str]:
        """Fold the offsets of a producer's transaction into the state, or drop them.

        Returns:
            The groups whose offsets they are.
        """
        return self.keeper.offsets.end_transaction(producer_id, committed=committed)

    def loaded(self) -> None:
        """Begin to serve."""
        for protocol in self._distinct():
            protocol.loaded()
        self._forget_gone_topics()

    def _forget_gone_topics(self) -> None:
        """Forget what was read of topics that were deleted while nobody could write that down.

        A topic that there was not when this coordinator began is none of the future: each commit is
        checked against the image of who writes it, who leads until its image says otherwise, and by
        an image that says so this one began. Nor is one that has another id now.
        """
        before, now = self._topics_at_first, self.context.surroundings.image().topics
        self._topics_at_first = {}
        for name in sorted(self.keeper.offsets.topics()):
            was, is_now = before.get(name), now.get(name)
            if was is None or is_now is None or was.topic_id != is_now.topic_id:
                self.keeper.forget_topic(name)

    def unload(self) -> None:
        """Serve no more; who waits hears NOT_COORDINATOR."""
        for protocol in self._distinct():
            protocol.unload()

    def _distinct(self) -> list[GroupProtocol]:
        return list(dict.fromkeys(self._protocols.values()))

    # --- all groups -----------------------------------------------------------

    def group_ids(self) -> list[str]:
        """Return the ids of all groups, those of which there are only offsets, too."""
        return list(dict.fromkeys((*self.context.groups, *self.keeper.offsets.groups())))

    def listings(self) -> Iterator[GroupListing]:
        """Yield all groups; one of which there are only offsets is an empty classic one."""
        for group_id in self.group_ids():
            group = self.context.groups.get(group_id)
            if group is None:
                yield GroupListing(group_id, "classic", "", "Empty")
            else:
                yield GroupListing(
                    group_id, group.group_type, group.protocol_type, group.state_name
                )

    def expire(self) -> Iterator[None]:
        """Forget what is too old, in steps between which others may be served."""
        for number, group_id in enumerate(self.group_ids(), start=1):
            self.keeper.expire(group_id)
            if number % EXPIRED_AT_ONCE == 0:
                yield
