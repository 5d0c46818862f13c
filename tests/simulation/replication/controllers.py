"""The controllers as brokers see them: a log of decisions, and those who pass it on.

How controllers agree is simulated elsewhere (``tests/simulation/quorum``). Here their log is one,
every controller follows it some time later, and whoever was active until a moment ago does not know
better: what it decides is dropped, because it decided on an old version.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from quorate.control import messages as m
from quorate.control import partition_messages as p
from quorate.errors import KafkaError, NotControllerError, StaleBrokerEpochError
from quorate.quorum.control import brokers, partitions, topics
from quorate.quorum.control.decision import Decision
from quorate.quorum.metadata.applying import apply_batch
from quorate.quorum.metadata.codec import decode_batch, encode_batch
from quorate.quorum.metadata.features import bootstrap_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.quorum.metadata.records import MetadataRecord
from quorate.quorum.metadata.snapshot import encode_image
from tests.simulation.replication.network import Answered
from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace

CLUSTER_ID: Final = "simulated"
SESSION_S: Final = 1.5
TICK_S: Final = 0.15
FOLLOWING_S_MAX: Final = 0.01
BATCHES_KEPT: Final = 50
FIRST_WALL_MS: Final = 1_800_000_000_000
DEFAULTS: Final = topics.TopicDefaults(1, 3)

Decide = Callable[[MetadataImage], Decision[Any]]


@dataclass(slots=True)
class _Poll:
    """A broker that waits for news."""

    from_version: int
    reply: Answered


@dataclass(slots=True, eq=False)
class Controller:
    """One controller: how far it has followed, and whether it takes itself for the active one."""

    name: str
    world: "Controllers"
    image: MetadataImage = EMPTY_IMAGE
    active_since_s: float | None = None
    sessions: brokers.Sessions = field(default_factory=lambda: brokers.Sessions(0, 0))
    polls: list[_Poll] = field(default_factory=list[_Poll])
    alive: bool = True
    paused_until_s: float = 0.0

    def serve(self, source: str, request: object, reply: Answered) -> None:
        self.world.serve(self, request, reply)


def _nothing(_before: MetadataImage, _after: MetadataImage) -> None:
    """Do nothing."""


class Controllers:
    """Owns the log of decisions, the image it adds up to, and who is active.

    Attributes:
        committed: the records of every version, oldest first.
        on_commit: called with the image before, the image after and the records.
    """

    def __init__(self, count: int, timeline: Timeline, rng: Random, trace: Trace) -> None:
        self._timeline = timeline
        self._rng = rng
        self._trace = trace
        self.image = EMPTY_IMAGE
        self._gone = set[tuple[int, int]]()
        self.committed: list[tuple[int, tuple[MetadataRecord, ...]]] = []
        self.on_commit: Callable[[MetadataImage, MetadataImage], None] = _nothing
        self.all = {f"c{n}": Controller(f"c{n}", self) for n in range(1, count + 1)}
        self._active = next(iter(self.all.values()))
        self._commit(bootstrap_records(CLUSTER_ID, self.wall_ms))
        self.become_active(self._active)
        self._tick()

    @property
    def wall_ms(self) -> int:
        return FIRST_WALL_MS + self.session_ms

    @property
    def session_ms(self) -> int:
        return int(self._timeline.now_s * 1000)

    @property
    def active(self) -> Controller:
        return self._active

    def become_active(self, controller: Controller) -> None:
        """Elect a controller; the one before learns of it when it decides something, or later."""
        self._trace.note("active", controller.name)
        self._active = controller
        controller.image = self.image
        controller.active_since_s = self._timeline.now_s
        controller.sessions = brokers.Sessions(self.session_ms, int(SESSION_S * 1000))
        self._news(controller)

    # --- requests

    def serve(self, controller: Controller, request: object, reply: Answered) -> None:
        if isinstance(request, m.FetchMetadata):
            self._fetch(controller, request, reply)
            return
        try:
            reply(self._decided(controller, request))
        except KafkaError as error:
            reply(m.ErrorAnswer(int(error.code), error.message))

    def decide(self, decide: Decide) -> m.Answer:
        """Carry out a decision at the active controller, now."""
        decision = decide(self.image)
        if decision.records:
            self._commit(decision.records)
        answer: m.Answer = decision.answer
        return answer

    def _decided(self, controller: Controller, request: object) -> m.Answer:
        if controller.active_since_s is None:
            raise NotControllerError
        if isinstance(request, m.BrokerHeartbeat) and self._is_gone(request):
            raise StaleBrokerEpochError
        decision = self._decide_on(controller, request)(controller.image)
        answer: m.Answer = decision.answer
        if controller is not self._active:
            if decision.records:
                controller.active_since_s = None  # the majority drops it, and says who is active
                raise NotControllerError
            return answer
        if decision.records:
            self._commit(decision.records)
        self._note_session(controller, request)
        return answer

    def _is_gone(self, beat: m.BrokerHeartbeat) -> bool:
        return (beat.broker_id, beat.broker_epoch) in self._gone

    def _note_session(self, controller: Controller, request: object) -> None:
        if isinstance(request, m.RegisterBroker | m.BrokerHeartbeat):
            controller.sessions.touch(request.broker_id, self.session_ms)

    def _decide_on(self, controller: Controller, request: object) -> Decide:
        now = brokers.Now(self.session_ms, self.wall_ms)
        decides: dict[type, Callable[[MetadataImage, Any], Decision[Any]]] = {
            m.RegisterBroker: lambda i, r: brokers.register(i, controller.sessions, r, now),
            m.BrokerHeartbeat: lambda i, r: brokers.heartbeat(i, r, now.wall_ms),
            p.AlterPartition: lambda i, r: partitions.alter_partition(i, r, now.wall_ms),
            m.CreateTopics: lambda i, r: topics.create_topics(
                i, r, DEFAULTS, now.wall_ms, self._rng
            ),
        }
        decide = decides[type(request)]
        return lambda image: decide(image, request)

    def fence(self, broker_id: int) -> None:
        """Find out at once that a broker is gone; what is heard of it later is void."""
        now = brokers.Now(self.session_ms, self.wall_ms)
        sessions = brokers.Sessions(self.session_ms - 2, 1)
        for other in self.image.brokers:
            if other != broker_id:
                sessions.touch(other, self.session_ms)
        self._active.sessions.forget(broker_id)
        broker = self.image.brokers.get(broker_id)
        self._gone.add((broker_id, -1 if broker is None else broker.broker_epoch))
        while records := brokers.fence_stale(self.image, sessions, now):
            self._commit(records)

    # --- the log

    def _commit(self, records: tuple[MetadataRecord, ...]) -> None:
        before = self.image
        version = before.version + self._rng.randint(1, 3)
        self.image = apply_batch(before, version, records).after
        self.committed.append((version, records))
        for record in records:
            self._trace.note("record", str(record))
        self.on_commit(before, self.image)
        for controller in self.all.values():
            if controller is self._active:
                controller.image = self.image
                self._news(controller)
            else:
                delay_s = self._rng.uniform(0, FOLLOWING_S_MAX)
                self._timeline.after(delay_s, partial(self._follow, controller, version))

    def _follow(self, controller: Controller, version: int) -> None:
        for number, records in self.committed:
            if controller.image.version < number <= version:
                controller.image = apply_batch(controller.image, number, records).after
        self._news(controller)

    def _news(self, controller: Controller) -> None:
        for poll in list(controller.polls):
            if poll.from_version < controller.image.version:
                controller.polls.remove(poll)
                poll.reply(self._since(controller, poll.from_version))

    def _fetch(self, controller: Controller, request: m.FetchMetadata, reply: Answered) -> None:
        if request.from_version < controller.image.version:
            reply(self._since(controller, request.from_version))
            return
        poll = _Poll(request.from_version, reply)
        controller.polls.append(poll)

        def give_up() -> None:
            if poll in controller.polls:
                controller.polls.remove(poll)
                reply(m.FetchMetadataAnswer(controller.image.version))

        self._timeline.after(request.wait_ms / 1000, give_up)

    def _since(self, controller: Controller, version: int) -> m.FetchMetadataAnswer:
        image = controller.image
        kept = [(v, r) for v, r in self.committed[-BATCHES_KEPT:] if v <= image.version]
        older = self.committed[: -BATCHES_KEPT or None]
        if len(self.committed) > BATCHES_KEPT and version < older[-1][0]:
            return m.FetchMetadataAnswer(image.version, (), encode_image(image))
        batches = tuple(m.MetadataBatch(v, encode_batch(r)) for v, r in kept if v > version)
        assert all(decode_batch(batch.records) for batch in batches)
        return m.FetchMetadataAnswer(image.version, batches)

    # --- sessions

    def _tick(self) -> None:
        controller = self._active
        if controller.alive and self._timeline.now_s >= controller.paused_until_s:
            now = brokers.Now(self.session_ms, self.wall_ms)
            records = brokers.fence_stale(self.image, controller.sessions, now)
            if records:
                self._commit(tuple(records))
        self._timeline.after(TICK_S, self._tick)
