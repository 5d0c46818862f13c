"""Trio shell: registers with the controller, heartbeats, follows metadata, forwards requests."""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

import trio

from quorate.broker.handlers.context import ASK_TIMEOUT_MS, Broker
from quorate.control.messages import (
    UNKNOWN_CHECKSUM,
    AllocateProducerIds,
    AllocateProducerIdsAnswer,
    Answer,
    BrokerHeartbeat,
    BrokerHeartbeatAnswer,
    ErrorAnswer,
    FetchMetadata,
    FetchMetadataAnswer,
    RegisterBroker,
    Request,
)
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import Endpoint
from quorate.promise import Promise
from quorate.quorum.metadata.applying import apply_batch
from quorate.quorum.metadata.codec import decode_facts
from quorate.quorum.metadata.delta import MetadataDelta, difference, unchanged
from quorate.quorum.metadata.features import SUPPORTED
from quorate.quorum.metadata.image import MetadataImage
from quorate.quorum.metadata.snapshot import decode_image

logger = logging.getLogger(__name__)

METADATA_WAIT_MS: Final = 30_000
RETRY_S: Final = 0.1
RETRY_MAX_S: Final = 2.0
SHUTDOWN_S: Final = 5.0
LEAVING_S: Final = 0.05
EARLY_MS: Final = 1_000
CATCH_UP_S: Final = 5.0
LOST_S: Final = 30.0
"""How long controllers have to lack what this broker was told until it believes them: one that
another has replaced may not know that yet.
"""
LARGE_BYTES: Final = 256 * 2**10
"""Metadata of this size takes some 50 ms to read: in a thread, so that clients are served."""

A = TypeVar("A", bound=Answer)


class MetadataLostError(QuorateError):
    """The controllers lack metadata that this broker was told: it cannot follow theirs."""

    def __init__(self, refusal: KafkaError) -> None:
        super().__init__(
            f"{refusal.message}; start this broker again to have it follow them: files of topics"
            " that they do not know are set aside, as *-stray, and kept"
        )


class Call(Protocol):
    """Sends a request to the active controller."""

    async def __call__(self, request: Request[A], /, timeout_s: float = ...) -> A:
        """Return the answer, in time.

        Raises:
            KafkaError: the request failed, or nobody knows whether it did.
        """
        ...


FATAL: Final = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Refusals of a registration that trying again does not mend."""

DUPLICATE: Final = ErrorCode.DUPLICATE_BROKER_REGISTRATION
"""A refusal that the end of another broker's session mends, if that one is gone."""

SESSIONS_WAITED: Final = 1.5

NOT_REGISTERED: Final = frozenset(
    {ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED}
)
"""What a broker hears whose registration is void: it has to register again."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who registers: the process (incarnation), its data directory, and where it listens."""

    incarnation_id: bytes
    directory_id: bytes
    endpoints: Mapping[str, Endpoint]


class ControllerLink:
    """Keeps a broker in the cluster, and its metadata current.

    State: the broker epoch of this registration, and what the replicas do not know yet of what was
    followed. They are given images from that epoch on only: an older one, on the way there, may
    lack topics that this broker has logs of, and what the image lacks is deleted. ``end_turn`` is
    called after metadata was applied or an answer given, because both may make client answers
    ready.
    """

    def __init__(
        self, broker: Broker, identity: Identity, call: Call, end_turn: Callable[[], None]
    ) -> None:
        self._broker = broker
        self._identity = identity
        self._call = call
        self._end_turn = end_turn
        self._epoch = -1
        self._leaving = False
        self._was_refused = False
        self._lost_since_s = math.inf
        self._delta = unchanged(broker.replicas.image)
        self._checksum = UNKNOWN_CHECKSUM
        self._applying = trio.Lock()
        self._much_is_new = False
        self._waiting: set[trio.Event] = set()
        self._nursery: trio.Nursery | None = None
        broker.ask_controller = self.ask
        broker.producer_ids.request_block = self._request_producer_ids

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Stay registered until cancelled; started once this broker may serve.

        Raises:
            KafkaError: the controller will never accept this registration.
            MetadataLostError: this broker has to begin anew with the controllers' metadata.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await self._join()
            nursery.start_soon(self._follow)
            nursery.start_soon(self._heartbeat)
            task_status.started()
            await trio.sleep_forever()

    # --- registration ---------------------------------------------------------

    async def _join(self) -> None:
        """Register, follow the metadata up to there, and be taken into service."""
        await self._register()
        while True:
            await self._catch_up()
            try:
                answer = await self._beat()
            except KafkaError as error:
                logger.warning("no heartbeat with the controller: %s", error)
                if error.code in NOT_REGISTERED:
                    await self._register()
            else:
                if not answer.fenced:
                    break
            await trio.sleep(RETRY_S)
        await self._catch_up()

    async def _register(self) -> None:
        config, identity = self._broker.config, self._identity
        request = RegisterBroker(
            broker_id=config.node_id,
            incarnation_id=identity.incarnation_id,
            endpoints=identity.endpoints,
            rack=config.broker_rack or None,
            directory_id=identity.directory_id,
            cluster_id=self._broker.cluster_id,
            features=tuple(SUPPORTED.values()),
            previous_broker_epoch=self._broker.replicas.store.previous_broker_epoch,
        )
        pause_s = RETRY_S
        # One of our id that is gone for good, with another directory, counts as alive so long.
        session_ends_s = (
            trio.current_time() + SESSIONS_WAITED * config.broker_session_timeout_ms / 1000
        )
        while True:
            try:
                answer = await self._call(request)
            except KafkaError as error:
                is_late = trio.current_time() >= session_ends_s
                if error.code in FATAL or (error.code == DUPLICATE and is_late):
                    raise
                logger.warning("cannot register with the controller, trying again: %s", error)
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            else:
                self._epoch = answer.broker_epoch
                self._broker.replicas.host.broker_epoch = answer.broker_epoch
                self._broker.replicas.store.registered(answer.broker_epoch)
                return

    async def _beat(self) -> BrokerHeartbeatAnswer:
        # It is said until somebody has heard it.
        now_ms = int(trio.current_time() * 1000)
        self._was_refused |= self._broker.replicas.store.refusals.go_on(now_ms)
        request = BrokerHeartbeat(
            broker_id=self._broker.config.node_id,
            broker_epoch=self._epoch,
            metadata_version=self._broker.replicas.image.version,
            # Whichever task it is: who says otherwise once fenced is taken into service again.
            wants_shut_down=self._leaving,
            cannot_write=self._was_refused,
        )
        try:
            answer = await self._call(request)
        except KafkaError as error:
            if error.code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._note_lost(error)
            raise
        self._was_refused = False
        self._lost_since_s = math.inf
        return answer

    def _note_lost(self, error: KafkaError) -> None:
        self._lost_since_s = min(self._lost_since_s, trio.current_time())
        if trio.current_time() - self._lost_since_s >= LOST_S:
            raise MetadataLostError(error) from error

    async def _heartbeat(self) -> None:
        while True:
            await trio.sleep(self._broker.config.broker_heartbeat_interval_ms / 1000)
            try:
                await self._beat()
            except KafkaError as error:
                logger.warning("no heartbeat with the controller: %s", error)
                if error.code in NOT_REGISTERED:
                    await self._join()

    async def leave(self) -> None:
        """Have the controller move away what this broker leads, so that it can stop unnoticed.

        Clients are served meanwhile: they hear who leads now. Returns at the latest after
        ``SHUTDOWN_S``: then some partitions have nobody else to lead them, or the controller is
        gone.
        """
        self._leaving = True
        with trio.move_on_after(SHUTDOWN_S):
            while True:
                try:
                    answer = await self._beat()
                except KafkaError as error:
                    logger.info("stopping without the controller's leave: %s", error)
                    return
                if answer.should_shut_down:
                    return
                await trio.sleep(LEAVING_S)

    # --- metadata -------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            try:
                await self._fetch(METADATA_WAIT_MS)
            except KafkaError as error:
                logger.warning("cannot follow the metadata, trying again: %s", error)
                await trio.sleep(RETRY_S)

    async def _catch_up(self) -> None:
        """Apply all that the controller has committed by now; on failure the follower will."""
        try:
            while await self._fetch(0):
                pass
        except KafkaError as error:
            logger.warning("cannot follow the metadata: %s", error)

    async def _fetch(self, wait_ms: int) -> bool:
        """Follow one step; return whether there was anything new.

        What is committed stays so: metadata that contradict what was told are not waited for to
        agree again, as heartbeats are that a controller refuses which may only lag.
        """
        version, checksum = self._delta.after.version, self._checksum
        request = FetchMetadata(version, wait_ms, self._broker.config.node_id, checksum)
        try:
            answer = await self._call(request)
        except KafkaError as error:
            if error.code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                raise MetadataLostError(error) from error
            raise
        if answer_bytes(answer) < LARGE_BYTES:
            async with self._applying:
                return await self._follow_to(followed(self._delta.after, answer), answer)
        self._much_is_new = True
        for seen in self._waiting:
            seen.set()
        try:
            async with self._applying:
                news = await trio.to_thread.run_sync(followed, self._delta.after, answer)
                return await self._follow_to(news, answer)
        finally:
            self._much_is_new = False

    async def _follow_to(self, news: MetadataDelta, answer: FetchMetadataAnswer) -> bool:
        is_new = news.after is not news.before
        self._delta = self._delta.then(news)
        if is_new:
            self._checksum = answer.batches[-1].checksum if answer.batches else UNKNOWN_CHECKSUM
        await self._apply()
        return is_new

    async def _apply(self) -> None:
        """Have the replicas follow, in steps, between which clients are served."""
        delta = self._delta
        if delta.before.version < delta.after.version >= self._epoch:
            self._delta = unchanged(delta.after)
            self._broker.replicas.host.now_ms = int(trio.current_time() * 1000)
            for _ in self._broker.replicas.follow(delta, self._broker.now_ms):
                await trio.lowlevel.checkpoint()
            self._end_turn()

    # --- requests -------------------------------------------------------------

    def ask(self, request: Request[A], /, timeout_ms: int) -> Promise[A | ErrorAnswer]:
        """Send a request to the controller; the promise resolves once its metadata is applied.

        If that is much, it resolves before.
        """
        assert self._nursery is not None, "requests are served once the link runs"
        promise: Promise[A | ErrorAnswer] = Promise()
        self._nursery.start_soon(self._ask, request, timeout_ms, promise)
        return promise

    async def _ask(
        self, request: Request[A], timeout_ms: int, promise: Promise[A | ErrorAnswer]
    ) -> None:
        answer: A | ErrorAnswer
        # Early enough for the client to hear why, instead of giving up by itself.
        timeout_s = (timeout_ms - min(timeout_ms // 5, EARLY_MS)) / 1000
        try:
            answer = await self._call(request, timeout_s)
        except KafkaError as error:
            answer = ErrorAnswer(int(error.code), error.message)
        else:
            await self._wait_to_see()
        promise.resolve(answer)
        self._end_turn()

    async def _wait_to_see(self) -> None:
        """Wait until all that is committed by now is applied, unless that is much.

        So whoever makes a topic finds it here. Kafka never waits, its clients try again.
        """
        if self._much_is_new:
            return
        assert self._nursery is not None, "requests are served once the link runs"
        seen = trio.Event()
        self._waiting.add(seen)
        self._nursery.start_soon(self._see, seen)
        with trio.move_on_after(CATCH_UP_S):
            await seen.wait()
        self._waiting.discard(seen)

    async def _see(self, seen: trio.Event) -> None:
        # Never cancelled midway: the replicas would not follow to the end.
        await self._catch_up()
        seen.set()

    def _request_producer_ids(self) -> None:
        request = AllocateProducerIds(self._broker.config.node_id, self._epoch)
        self.ask(request, ASK_TIMEOUT_MS).when_resolved(self._producer_ids_came)

    def _producer_ids_came(self, answer: AllocateProducerIdsAnswer | ErrorAnswer) -> None:
        if isinstance(answer, AllocateProducerIdsAnswer):
            self._broker.producer_ids.add_block(answer.first_producer_id, answer.count)
        else:
            logger.warning("the controller gives no producer ids: %s", answer)
            self._broker.producer_ids.no_block()


def followed(image: MetadataImage, answer: FetchMetadataAnswer) -> MetadataDelta:
    """Return what the controller sent since the image; what is known already is skipped.

    Raises:
        UnsupportedLevelError: this broker is too old for the cluster.
    """
    delta = unchanged(image)
    if answer.snapshot is not None:
        snapshot = decode_image(answer.snapshot)
        if snapshot.version > image.version:
            delta = difference(image, snapshot)
    for batch in answer.batches:
        if batch.version > delta.after.version:
            records = decode_facts(batch.records)
            delta = delta.then(apply_batch(delta.after, batch.version, records))
    return delta


def answer_bytes(answer: FetchMetadataAnswer) -> int:
    """Return how much there is to read."""
    return len(answer.snapshot or b"") + sum(len(batch.records) for batch in answer.batches)
