"""Trio shell: registers with the controller, heartbeats, follows metadata, forwards requests."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import trio

from quorate.broker.handlers.context import Broker
from quorate.control.messages import (
    AllocateProducerIds,
    AllocateProducerIdsAnswer,
    Answer,
    BrokerHeartbeat,
    BrokerHeartbeatAnswer,
    ErrorAnswer,
    FetchMetadata,
    FetchMetadataAnswer,
    RegisterBroker,
    RegisterBrokerAnswer,
    Request,
)
from quorate.errors import ErrorCode, KafkaError
from quorate.model import Endpoint
from quorate.promise import Promise
from quorate.quorum.metadata.codec import decode_image, decode_record
from quorate.quorum.metadata.image import MetadataImage, apply_records

logger = logging.getLogger(__name__)

METADATA_WAIT_MS: Final = 30_000
RETRY_S: Final = 0.1
RETRY_MAX_S: Final = 2.0
SHUTDOWN_S: Final = 1.0

Call = Callable[[Request[Any]], Awaitable[Answer]]
"""Sends a request to the active controller; raises KafkaError when it fails."""

FATAL: Final = frozenset(
    {
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
    }
)
"""Refusals of a registration that trying again does not mend."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who registers: the process (incarnation), its data directory, and where it listens."""

    incarnation_id: bytes
    directory_id: bytes
    endpoints: Mapping[str, Endpoint]


class ControllerLink:
    """Keeps a broker in the cluster, and its metadata current.

    State: the broker epoch of this registration. The image itself is the replicas'. ``end_turn`` is
        called
    after metadata was applied or an answer given, because both may make client answers ready.
    """

    def __init__(
        self, broker: Broker, identity: Identity, call: Call, end_turn: Callable[[], None]
    ) -> None:
        self._broker = broker
        self._identity = identity
        self._call = call
        self._end_turn = end_turn
        self._epoch = -1
        self._applying = trio.Lock()
        self._nursery: trio.Nursery | None = None
        broker.ask_controller = self.ask
        broker.producer_ids.request_block = self._request_producer_ids

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Stay registered until cancelled; started once this broker may serve.

        Raises:
            KafkaError: the controller will never accept this registration.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await self._register()
            await self._catch_up()
            await self._heartbeat_until_unfenced()
            nursery.start_soon(self._follow)
            nursery.start_soon(self._heartbeat)
            task_status.started()
            await trio.sleep_forever()

    # --- registration ---------------------------------------------------------

    async def _register(self) -> None:
        config, identity = self._broker.config, self._identity
        request = RegisterBroker(
            broker_id=config.node_id,
            incarnation_id=identity.incarnation_id,
            endpoints=identity.endpoints,
            rack=config.broker_rack or None,
            directory_id=identity.directory_id,
            cluster_id=self._broker.cluster_id,
        )
        pause_s = RETRY_S
        while True:
            try:
                answer = await self._call(request)
            except KafkaError as error:
                if error.code in FATAL:
                    raise
                logger.warning("cannot register with the controller, trying again: %s", error)
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
                continue
            assert isinstance(answer, RegisterBrokerAnswer), "the answer to a registration"
            self._epoch = answer.broker_epoch
            return

    async def _beat(self, *, wants_shut_down: bool) -> BrokerHeartbeatAnswer:
        answer = await self._call(
            BrokerHeartbeat(
                broker_id=self._broker.config.node_id,
                broker_epoch=self._epoch,
                metadata_version=self._broker.replicas.image.version,
                wants_shut_down=wants_shut_down,
            )
        )
        assert isinstance(answer, BrokerHeartbeatAnswer), "the answer to a heartbeat"
        return answer

    async def _heartbeat_until_unfenced(self) -> None:
        while True:
            try:
                answer = await self._beat(wants_shut_down=False)
            except KafkaError as error:
                logger.warning("no heartbeat with the controller: %s", error)
                await trio.sleep(RETRY_S)
                continue
            await self._catch_up()
            if not answer.fenced:
                return

    async def _heartbeat(self) -> None:
        while True:
            await trio.sleep(self._broker.config.broker_heartbeat_interval_ms / 1000)
            try:
                await self._beat(wants_shut_down=False)
            except KafkaError as error:
                logger.warning("no heartbeat with the controller: %s", error)
                if error.code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
                    await self._register()

    async def leave(self) -> None:
        """Tell the controller that this broker stops, so that it need not find out."""
        with trio.move_on_after(SHUTDOWN_S):
            try:
                await self._beat(wants_shut_down=True)
            except KafkaError as error:
                logger.info("stopping without the controller's leave: %s", error)

    # --- metadata -------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            try:
                await self._fetch(METADATA_WAIT_MS)
            except KafkaError as error:
                logger.warning("cannot follow the metadata, trying again: %s", error)
                await trio.sleep(RETRY_S)

    async def _catch_up(self) -> None:
        """Apply what the controller has committed by now; on failure the follower will."""
        try:
            await self._fetch(0)
        except KafkaError as error:
            logger.warning("cannot follow the metadata: %s", error)

    async def _fetch(self, wait_ms: int) -> None:
        version = self._broker.replicas.image.version
        answer = await self._call(FetchMetadata(version, wait_ms))
        assert isinstance(answer, FetchMetadataAnswer), "the answer to a metadata fetch"
        async with self._applying:
            image = followed(self._broker.replicas.image, answer)
            if image.version > self._broker.replicas.image.version:
                self._broker.replicas.apply(image, self._broker.now_ms)
                self._end_turn()

    # --- requests -------------------------------------------------------------

    def ask(self, request: Request[Any]) -> Promise[Answer]:
        """Send a request to the controller; the promise resolves once its metadata is applied."""
        assert self._nursery is not None, "requests are served once the link runs"
        promise: Promise[Answer] = Promise()
        self._nursery.start_soon(self._ask, request, promise)
        return promise

    async def _ask(self, request: Request[Any], promise: Promise[Answer]) -> None:
        try:
            answer = await self._call(request)
            await self._catch_up()
        except KafkaError as error:
            answer = ErrorAnswer(int(error.code), error.message)
        promise.resolve(answer)
        self._end_turn()

    def _request_producer_ids(self) -> None:
        request = AllocateProducerIds(self._broker.config.node_id, self._epoch)
        self.ask(request).when_resolved(self._producer_ids_came)

    def _producer_ids_came(self, answer: Answer) -> None:
        if isinstance(answer, AllocateProducerIdsAnswer):
            self._broker.producer_ids.add_block(answer.first_producer_id, answer.count)
        else:
            logger.warning("the controller gives no producer ids: %s", answer)
            self._broker.producer_ids.no_block()


def followed(image: MetadataImage, answer: FetchMetadataAnswer) -> MetadataImage:
    """Return the image after what the controller sent; what is known already is skipped."""
    if answer.snapshot is not None:
        snapshot = decode_image(answer.snapshot)
        if snapshot.version > image.version:
            image = snapshot
    for batch in answer.batches:
        if batch.version > image.version:
            records = [decode_record(record) for record in batch.records]
            image = apply_records(image, batch.version, records)
    return image
