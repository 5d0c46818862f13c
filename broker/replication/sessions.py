"""The fetches of followers: what each has asked for, and what there is to send (KIP-227).

A follower fetches all its partitions together, in a session that lasts as long as its connection: a
request names only the partitions whose position changed, an answer only those about which there is
something to say. So what a fetch costs goes by what happens, not by how many partitions there are.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from quorate.broker.log.cold import Cold, ColdError
from quorate.broker.log.directory import UNKNOWN_BROKER_EPOCH
from quorate.broker.replication.host import Host
from quorate.broker.replication.isr import Visits
from quorate.broker.replication.leader import LeaderReplica
from quorate.errors import (
    ErrorCode,
    KafkaError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
)
from quorate.model import UNKNOWN_OFFSET
from quorate.protocol.messages.data import (
    FetchableTopicResponse,
    FetchEpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from quorate.broker.log.epochs import EpochEnd

NO_SESSION: Final = 0
NEW_SESSION_EPOCH: Final = 0
SESSION_ID_MAX: Final = 2**31 - 1

FindLeader = Callable[[FetchTopic, int], LeaderReplica]
"""Returns the replica that is led here, or raises the KafkaError of who asked the wrong broker."""

Answered = Callable[[FetchResponse], None]


class SessionPartition:
    """One partition that a follower fetches, and where it has got to."""

    __slots__ = (
        "current_leader_epoch",
        "diverging",
        "failure",
        "is_asked_for",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "may_wait",
        "offset",
        "partition",
        "replica",
        "session",
        "told_high_watermark",
        "told_log_start_offset",
        "topic",
    )

    def __init__(self, session: "FollowerSession", topic: FetchTopic, partition: int) -> None:
        self.session = session
        self.topic = topic
        self.partition = partition
        self.replica: LeaderReplica | None = None
        self.failure: PartitionData | None = None
        self.diverging: EpochEnd | None = None
        self.is_asked_for = False
        """Whether the follower still waits for what lies at its position."""
        self.may_wait = False
        """Whether the disk may be waited for: what is needed of it was in memory a moment ago."""
        self.told_high_watermark = UNKNOWN_OFFSET
        self.told_log_start_offset = UNKNOWN_OFFSET

    def ask(self, fetch: FetchPartition) -> None:
        """Note the follower's new position.

        What was told while this was on its way, it did not heed.
        """
        self.offset = fetch.fetch_offset
        self.current_leader_epoch = fetch.current_leader_epoch
        self.last_fetched_epoch = fetch.last_fetched_epoch
        self.log_start_offset = fetch.log_start_offset
        self.max_bytes = fetch.partition_max_bytes
        self.is_asked_for = True
        self.told_high_watermark = UNKNOWN_OFFSET
        self.told_log_start_offset = min(self.told_log_start_offset, fetch.log_start_offset)
        self.failure = self.diverging = None

    def follow(self, replica: LeaderReplica | None) -> None:
        """Wait at that replica, and no other, for records."""
        if replica is self.replica:
            return
        if self.replica is not None:
            self.replica.parts.remove(self)
        self.replica = replica
        self.told_high_watermark = self.told_log_start_offset = UNKNOWN_OFFSET
        if replica is not None:
            replica.parts.append(self)

    @property
    def key(self) -> tuple[str | bytes, int]:
        """What the session finds it by."""
        return self.topic.topic or self.topic.topic_id, self.partition

    @property
    def still_waits(self) -> bool:
        """Whether there is something at the follower's position that was not sent."""
        replica = self.replica
        return (
            self.is_asked_for and replica is not None and self.offset < replica.log.log_end_offset
        )

    def state(self, replica: LeaderReplica) -> PartitionData:
        """Return an answer without records."""
        return PartitionData(
            partition_index=self.partition,
            high_watermark=replica.high_watermark,
            last_stable_offset=replica.high_watermark,
            log_start_offset=replica.log.log_start_offset,
            records=b"",
        )

    def on_append(self) -> None:
        """Send what was appended, if the follower waits for it."""
        if self.is_asked_for:
            self.session.has_news(self)

    def on_log_start(self) -> None:
        """Tell that our log begins later than it did."""
        self.session.has_news(self)

    def on_high_watermark(self, *, hurry: bool) -> None:
        """Tell the new high watermark: now, or along with whatever is sent next."""
        self.session.has_hint(self, hurry=hurry)

    def on_closed(self) -> None:
        """Tell that we do not lead any more."""
        self.fail(NotLeaderOrFollowerError(), None)
        self.session.has_news(self)

    def fail(self, error: KafkaError, replica: LeaderReplica | None) -> None:
        """Wait nowhere any more, and have the error sent.

        One about offsets says where the leader's log begins: the follower has to begin there, too.
        """
        self.follow(None)
        self.failure = PartitionData(
            partition_index=self.partition,
            error_code=int(error.code),
            high_watermark=UNKNOWN_OFFSET,
            records=b"",
        )
        if replica is not None and isinstance(error, OffsetOutOfRangeError):
            self.failure.high_watermark = replica.high_watermark
            self.failure.log_start_offset = replica.log.log_start_offset


class FollowerSession:
    """What one follower fetches from us.

    Invariant: ``_ready`` holds, in the order in which they wait, the partitions with records, an
    error or the point of divergence to send; ``_hints`` those whose high watermark moved. While
    the follower's request is parked, :attr:`parked` is who gets the answer.
    """

    def __init__(self, host: Host, session_id: int, broker_id: int, broker_epoch: int) -> None:
        self.session_id = session_id
        self.epoch = NEW_SESSION_EPOCH
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.parked: Answered | None = None
        self.held_until_ms = 0
        """When there is more to send that may not be sent faster; 0 if there is nothing such."""
        self._max_bytes = 0
        self._cold: dict[SessionPartition, Cold] = {}
        self._loading = False
        self._host = host
        self._visits = Visits(host.now_ms)
        self._parts: dict[tuple[str | bytes, int], SessionPartition] = {}
        self._ready: dict[SessionPartition, None] = {}
        self._hints: dict[SessionPartition, None] = {}
        self._hurries = False

    def take(self, request: FetchRequest, find: FindLeader) -> None:
        """Take note of where the follower is now: what lies below, it has."""
        self._max_bytes = request.max_bytes
        self._visits.last_ms = self._host.now_ms
        for forgotten in request.forgotten_topics_data:
            for partition in forgotten.partitions:
                part = self._parts.get((forgotten.topic_id, partition)) or self._parts.get(
                    (forgotten.topic, partition)
                )
                if part is not None:
                    self._drop(part)
        for topic in request.topics:
            named = topic.topic or topic.topic_id
            for fetch in topic.partitions:
                part = self._parts.get((named, fetch.partition))
                if part is None:
                    part = SessionPartition(self, topic, fetch.partition)
                    self._parts[named, fetch.partition] = part
                part.ask(fetch)
                self._acknowledge(part, find)
                self._ready[part] = None

    def _acknowledge(self, part: SessionPartition, find: FindLeader) -> None:
        replica = None
        try:
            replica = find(part.topic, part.partition)
            replica.check_epoch(part.current_leader_epoch)
            part.diverging = replica.acknowledge(
                self.broker_id, self.broker_epoch, part, self._visits
            )
            part.follow(replica)
        except KafkaError as error:
            part.fail(error, replica)

    def has_news(self, part: SessionPartition) -> None:
        """Look at a partition again when the turn ends."""
        self._ready[part] = None
        if self.parked is not None:
            self._host.news.sessions[self] = None

    def has_hint(self, part: SessionPartition, *, hurry: bool) -> None:
        """Send a partition's high watermark, at the latest when there is an opportunity.

        There is one soon as long as records come, and one when the wait for them is over. Only who
        has readers is in a hurry (KIP-392): to tell every new one at once would double the number
        of fetches, and the next record would find the follower not waiting for it.
        """
        self._hints[part] = None
        if hurry:
            self._hurries = True
            if self.parked is not None:
                self._host.news.sessions[self] = None

    def wake(self) -> None:
        """Answer the parked request if there is something to send."""
        if self.parked is None:
            return
        response = self.answer(all_hints=False)
        if response.responses:
            parked, self.parked = self.parked, None
            parked(response)

    def answer(self, *, all_hints: bool) -> FetchResponse:
        """Return what there is to send, and count it as sent.

        Without ``all_hints``, high watermarks are no reason to send anything if nobody is in a
        hurry. What only the disk knows is loaded in a thread, and sent after that.
        """
        response = self._gather(all_hints=all_hints)
        cold, self._cold = self._cold, {}
        if cold and not self._loading:
            self._load(cold)
            if not response.responses:  # it may be loaded already
                response = self._gather(all_hints=all_hints)
                self._cold = {}
        return response

    def _load(self, cold: "dict[SessionPartition, Cold]") -> None:
        self._loading = True

        def run() -> None:
            for read in cold.values():
                read.run()

        def then() -> None:
            self._loading = False
            for part in cold:
                part.may_wait = True
            if self.parked is not None:
                self._host.news.sessions[self] = None

        self._host.aside(run, then)

    def _gather(self, *, all_hints: bool) -> FetchResponse:
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        left_bytes = self._max_bytes
        sent_bytes = 0
        self.held_until_ms = 0
        too_large: list[SessionPartition] = []
        for part in list(self._ready):
            if left_bytes <= 0 < sent_bytes:
                break  # the rest comes first the next time
            del self._ready[part]
            data = self._data_of(part, left_bytes, at_least_one=sent_bytes == 0)
            if part.still_waits:
                too_large.append(part)
            if data is not None:
                size_bytes = len(data.records or b"")
                left_bytes -= size_bytes
                sent_bytes += size_bytes
                _add(topics, part, data)
        self._ready.update(dict.fromkeys(too_large))
        if topics or all_hints or self._hurries:
            self._hurries = False
            for part in self._hints:
                if part in self._ready or part.replica is None:
                    continue
                if part.told_high_watermark < part.replica.high_watermark:
                    _add(topics, part, part.state(part.replica))
            self._hints.clear()
        return FetchResponse(session_id=self.session_id, responses=list(topics.values()))

    def _data_of(
        self, part: SessionPartition, room_bytes: int, *, at_least_one: bool
    ) -> PartitionData | None:
        """Return what is to be sent about a partition, or None if that is nothing."""
        replica = part.replica
        if replica is None:
            self._drop(part)
            return part.failure
        if part.diverging is not None:
            part.is_asked_for = False
            data = part.state(replica)
            data.diverging_epoch = FetchEpochEndOffset(
                epoch=part.diverging.leader_epoch, end_offset=part.diverging.end_offset
            )
            return data
        return self._read(part, replica, room_bytes, at_least_one=at_least_one)

    def _read(
        self,
        part: SessionPartition,
        replica: LeaderReplica,
        room_bytes: int,
        *,
        at_least_one: bool,
    ) -> PartitionData | None:
        """Return the records at the follower's position, if they may be sent now."""
        data = part.state(replica)
        joining = self.broker_id not in replica.isr.committed
        if joining and self._is_held_back(replica):
            return self._without_records(part, data)
        try:
            records = replica.read_for_follower(
                part.offset,
                max_bytes=max(min(part.max_bytes, room_bytes), 0),
                at_least_one=at_least_one,
                may_wait=part.may_wait,
            )
        except ColdError as error:
            self._cold[part] = error.cold
            return None
        except KafkaError as error:
            part.fail(error, replica)
            self._drop(part)
            return part.failure
        if records is not None:
            part.is_asked_for = part.may_wait = False
            data.records = records
            if joining:
                self._count(replica, len(records))
            return data
        return self._without_records(part, data)

    def _without_records(self, part: SessionPartition, data: PartitionData) -> PartitionData | None:
        """Return the state of a partition if it is to be told now, when there are no records."""
        if part.told_log_start_offset < data.log_start_offset:
            return data
        self._hints[part] = None
        return None

    def _is_held_back(self, replica: LeaderReplica) -> bool:
        """Whether a replica that is throttled has sent as much as it may by now (KIP-73)."""
        host = self._host
        partition, config = replica.topic_partition.partition, replica.log.config
        until_ms = host.sending.held_until_ms(host.image, config, partition)
        if until_ms <= host.now_ms:
            return False
        self.held_until_ms = until_ms
        return True

    def _count(self, replica: LeaderReplica, size_bytes: int) -> None:
        host = self._host
        sent = replica.topic_partition, size_bytes
        host.sending.resume_ms(host.image, replica.log.config, sent, host.now_ms)

    def _drop(self, part: SessionPartition) -> None:
        """Forget a partition; a follower that still wants it will say where it is."""
        part.follow(None)
        self._ready.pop(part, None)
        self._hints.pop(part, None)
        self._parts.pop(part.key, None)

    def close(self) -> None:
        """Forget everything: the follower begins anew, or is gone."""
        self.parked = None
        self._host.news.sessions.pop(self, None)
        for part in list(self._parts.values()):
            self._drop(part)


def _add(
    topics: dict[str | bytes, FetchableTopicResponse], part: SessionPartition, data: PartitionData
) -> None:
    """Put a partition's answer in its place, and note what it tells."""
    topic = part.topic
    named = topic.topic or topic.topic_id
    answers = topics.get(named)
    if answers is None:
        answers = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id)
        topics[named] = answers
    answers.partitions.append(data)
    part.told_high_watermark = data.high_watermark
    part.told_log_start_offset = data.log_start_offset


class FollowerSessions:
    """The sessions of all followers: one of each broker, that of its newest connection."""

    def __init__(self, host: Host, find: FindLeader) -> None:
        self._host = host
        self._find = find
        self._sessions: dict[int, FollowerSession] = {}
        self._last_id = NO_SESSION

    def __len__(self) -> int:
        return len(self._sessions)

    def take(self, request: FetchRequest) -> FollowerSession | ErrorCode:
        """Return the session of a follower's request, which was taken note of.

        A request that is parked there is answered first.
        """
        broker_id, broker_epoch = follower_of(request)
        session = self._sessions.get(broker_id)
        if request.session_epoch <= NEW_SESSION_EPOCH:
            self._make_room(broker_id)
            self._last_id = self._last_id % SESSION_ID_MAX + 1
            session = FollowerSession(self._host, self._last_id, broker_id, broker_epoch)
            self._sessions[broker_id] = session
        elif session is None or session.session_id != request.session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        elif session.epoch + 1 != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        else:
            session.epoch = request.session_epoch % SESSION_ID_MAX
            session.broker_epoch = broker_epoch  # it may have registered again since
            end_waiting(session)
        session.take(request, self._find)
        return session

    def _make_room(self, broker_id: int) -> None:
        """End the sessions of the broker, and of all that are not registered, as far as we know.

        So there are no more than there are brokers: anybody may say to be any number of them.
        """
        brokers = self._host.image.brokers
        for each in [b for b in self._sessions if b == broker_id or b not in brokers]:
            session = self._sessions.pop(each)
            end_waiting(session)
            session.close()


def end_waiting(session: FollowerSession) -> None:
    """Answer the request that is parked, if one is, with what there is by now."""
    parked, session.parked = session.parked, None
    if parked is not None:
        parked(session.answer(all_hints=True))


def follower_of(request: FetchRequest) -> tuple[int, int]:
    """Return the broker that fetches and the epoch of its registration; -1 is a consumer."""
    state = request.replica_state
    if state is not None:
        return state.replica_id, state.replica_epoch
    return request.replica_id, UNKNOWN_BROKER_EPOCH
