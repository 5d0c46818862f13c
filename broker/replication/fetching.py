"""LeaderFetcher: what this broker fetches from one leader, and what becomes of the answers.

The follower's end of the sessions in ``sessions``: a request names the partitions whose position
changed since the last one.
"""

import logging
from typing import Final

from quorate.broker.replication.follower import FollowerReplica
from quorate.broker.replication.host import Host
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, known_code
from quorate.model import UNKNOWN_OFFSET
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

logger = logging.getLogger(__name__)

RETRY_MIN_MS: Final = 20
"""The leader may learn a moment later than we do that it leads."""

SESSION_EPOCH_MAX: Final = 2**31 - 1

FREQUENT: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""What one hears as long as two brokers know different metadata."""


@dataclass(frozen=True, slots=True)
class FetchRules:
    """How much is fetched at once, how long a leader may wait for it, and when to try again."""

    wait_max_ms: int = 500
    partition_bytes_max: int = 1 << 20
    response_bytes_max: int = 10 << 20
    backoff_max_ms: int = 1000


class _Entry:
    """A partition, the request that last told its position, and when to try again after errors."""

    __slots__ = ("asked_in", "follower", "pause_ms", "retry_at_ms", "told_error", "told_start")

    def __init__(self, follower: FollowerReplica) -> None:
        self.follower = follower
        self.asked_in = 0
        """The number of that request; 0 if the leader does not know the position."""
        self.pause_ms = 0
        self.retry_at_ms = 0
        self.told_error = ""
        """What the log says of it; empty if nothing is wrong."""
        self.told_start = UNKNOWN_OFFSET
        """Where the leader was told that our log begins."""


class LeaderFetcher:
    """The partitions followed of one leader.

    Invariant: every partition is either at the leader, which will answer, or in ``_due``: its
    position will be told, now or when its pause is over and its log is synced. An answer is
    heeded only for partitions whose position had been told in its request or before, and has not
    changed since.
    """

    def __init__(self, leader_id: int, host: Host, rules: FetchRules) -> None:
        self.leader_id = leader_id
        self._host = host
        self._rules = rules
        self._entries: dict[tuple[bytes, int], _Entry] = {}
        self._due: dict[tuple[bytes, int], None] = {}
        self._forgotten: dict[tuple[bytes, int], None] = {}
        self._session_id = 0
        self._session_epoch = 0
        self._broker_epoch = host.broker_epoch
        """In which registration the leader was told the positions."""
        self._requests = 0
        self._answers = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def in_flight(self) -> int:
        """Requests whose answer has not come yet."""
        return self._requests - self._answers

    def add(self, follower: FollowerReplica) -> None:
        """Fetch a partition from where its log ends."""
        key = _key(follower)
        self._entries[key] = _Entry(follower)
        self._due[key] = None
        self._forgotten.pop(key, None)

    def remove(self, follower: FollowerReplica) -> None:
        """Fetch a partition no more."""
        key = _key(follower)
        entry = self._entries.get(key)
        if entry is not None and entry.follower is follower:
            del self._entries[key]
            self._due.pop(key, None)
            if entry.asked_in:
                self._forgotten[key] = None

    def disconnected(self) -> None:
        """Begin anew: nothing that was asked for will be answered."""
        self._session_id = self._session_epoch = 0
        self._answers = self._requests
        self._forgotten.clear()
        for key, entry in self._entries.items():
            entry.asked_in = 0
            self._due[key] = None

    def next_ms(self) -> int | None:
        """Return when there is something new to ask for; None if nothing is."""
        if self._forgotten:
            return 0
        due = (self._entries[key] for key in self._due)
        return min((e.retry_at_ms for e in due if not e.follower.is_unsynced), default=None)

    def unsynced(self) -> list[FollowerReplica]:
        """Return whose logs must be synced before their positions are told."""
        due = (self._entries[key].follower for key in self._due)
        return [follower for follower in due if follower.is_unsynced]

    def build(self) -> FetchRequest:
        """Return the next request, and count it as sent.

        A position is the word that everything below is here, so one that is not synced and has to
        be is left out.
        """
        now_ms = self._host.now_ms
        self._requests += 1
        if self._broker_epoch != self._host.broker_epoch:
            # Only what is said of a partition in this registration lets it join the ISR (KIP-903).
            self._broker_epoch = self._host.broker_epoch
            self._due.update(dict.fromkeys(self._entries))
        topics: dict[bytes, FetchTopic] = {}
        for key in list(self._due):
            entry = self._entries[key]
            if entry.retry_at_ms > now_ms or entry.follower.is_unsynced:
                continue
            del self._due[key]
            entry.asked_in = self._requests
            topic_id = key[0]
            if topic_id not in topics:
                topics[topic_id] = FetchTopic(topic_id=topic_id)
            entry.told_start = entry.follower.log.log_start_offset
            topics[topic_id].partitions.append(self._position(entry.follower))
        rules = self._rules
        request = FetchRequest(
            replica_state=ReplicaState(
                replica_id=self._host.node_id, replica_epoch=self._host.broker_epoch
            ),
            max_wait_ms=rules.wait_max_ms,
            min_bytes=1,
            max_bytes=rules.response_bytes_max,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=_forgotten(self._forgotten),
        )
        self._forgotten.clear()
        self._session_epoch = self._session_epoch % SESSION_EPOCH_MAX + 1
        return request

    def _position(self, follower: FollowerReplica) -> FetchPartition:
        return follower.position(self._rules.partition_bytes_max)

    def take(self, response: FetchResponse, wall_ms: int) -> list[FollowerReplica]:
        """Act on the next answer; return whose logs have grown.

        Raises:
            KafkaError: the leader does not know our session, and it has to be begun anew.
        """
        self._answers += 1
        if response.error_code:
            raise KafkaError(code=known_code(response.error_code))
        self._session_id = response.session_id
        grown: list[FollowerReplica] = []
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                entry = self._entries.get(key)
                if entry is None or not 0 < entry.asked_in <= self._answers:
                    continue  # not ours any more, or asked for again since
                if self._take_one(key, entry, data, wall_ms):
                    grown.append(entry.follower)
        return grown

    def _take_one(
        self, key: tuple[bytes, int], entry: _Entry, data: PartitionData, wall_ms: int
    ) -> bool:
        follower = entry.follower
        try:
            moved = follower.take(data, wall_ms)
        except KafkaError as error:
            self._pause(key, entry, error)
            return False
        entry.pause_ms = 0
        if entry.told_error:
            entry.told_error = ""
            logger.info("%s: follows leader %d again", follower.topic_partition, self.leader_id)
        if moved or entry.told_start != follower.log.log_start_offset:
            entry.asked_in = 0
            entry.retry_at_ms = self._resume_ms(follower, data)
            self._due[key] = None
        return moved

    def _resume_ms(self, follower: FollowerReplica, data: PartitionData) -> int:
        """Return when a partition that has just been fetched may be fetched again."""
        host = self._host
        fetched = follower.topic_partition, len(data.records or b"")
        return host.fetching.resume_ms(host.image, follower.log.config, fetched, host.now_ms)

    def _pause(self, key: tuple[bytes, int], entry: _Entry, error: KafkaError) -> None:
        """Ask again later, and later each time; say why once, however often it comes."""
        lasts = error.code not in FREQUENT or entry.pause_ms >= self._rules.backoff_max_ms
        if lasts and entry.told_error != str(error):
            entry.told_error = str(error)
            logger.warning(
                "%s: cannot follow leader %d: %s",
                entry.follower.topic_partition, self.leader_id, error,
            )  # fmt: skip
        entry.pause_ms = min(max(2 * entry.pause_ms, RETRY_MIN_MS), self._rules.backoff_max_ms)
        entry.retry_at_ms = self._host.now_ms + entry.pause_ms
        entry.asked_in = 0
        self._due[key] = None


def _key(follower: FollowerReplica) -> tuple[bytes, int]:
    return follower.topic_id, follower.topic_partition.partition


def _forgotten(keys: dict[tuple[bytes, int], None]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for topic_id, partition in keys:
        if topic_id not in topics:
            topics[topic_id] = ForgottenTopic(topic_id=topic_id)
        topics[topic_id].partitions.append(partition)
    return list(topics.values())
