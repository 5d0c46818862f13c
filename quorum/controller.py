"""Trio shell of a controller: decide on the image, propose, wait for the commit, answer."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from quorate.control import messages as m
from quorate.control.frames import Frame
from quorate.errors import (
    ErrorCode,
    InconsistentClusterIdError,
    KafkaError,
    NotControllerError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from quorate.net.control import ControlStream, serve_control_connection
from quorate.quorum.control import brokers, configs, topics
from quorate.quorum.control.decision import Decision
from quorate.quorum.directory import ControllerDirectory
from quorate.quorum.metadata.image import MetadataImage
from quorate.quorum.metadata.machine import Committed, Conflict, Refused
from quorate.quorum.metadata.records import ClusterFormatted
from quorate.quorum.raft.core import CommandTooLargeError
from quorate.quorum.raft.proposals import Lost, NotLeader, Unknown
from quorate.quorum.raft_node import RaftNode, RunBlocking, in_thread
from quorate.settings import NodeConfig

if TYPE_CHECKING:
    from random import Random

logger: Final = logging.getLogger(__name__)

DECISIONS_MAX: Final = 10
"""How often a decision is made again because the image moved on meanwhile."""

COMMIT_TIMEOUT_S: Final = 30.0
METADATA_WAIT_MAX_S: Final = 60.0
SESSION_CHECKS_PER_TIMEOUT: Final = 10
CONNECTIONS_MAX: Final = 2000

A = TypeVar("A", bound=m.Answer)


def wall_clock_ms() -> int:
    """Return the time of day, for records."""
    return time.time_ns() // 1_000_000


def _session_clock_ms() -> int:
    """Return a time that only goes forward, for sessions."""
    return int(trio.current_time() * 1000)


class Controller:
    """Owns the controller's part of a node: its Raft node, and the brokers' sessions.

    Brokers in the same process call :meth:`handle`; others come through :meth:`serve`.
    """

    def __init__(
        self,
        directory: ControllerDirectory,
        config: NodeConfig,
        rng: "Random",
        *,
        clock_ms: Callable[[], int] = wall_clock_ms,
        run_blocking: RunBlocking = in_thread,
    ) -> None:
        """Recover the metadata from the directory.

        Raises:
            JournalDamagedError: the journal is not what was written.
            SnapshotDamagedError: the snapshot is not what was written.
        """
        self._meta = directory.meta
        self._config = config
        self._rng = rng
        self._clock_ms = clock_ms
        self._raft = RaftNode(
            directory.meta.node_id, directory.storage, rng=rng, run_blocking=run_blocking
        )
        self._deciding = trio.Lock()
        self._connections = 0
        self._sessions = brokers.Sessions(0, config.broker_session_timeout_ms)
        self._handlers: Final[dict[type[Any], Callable[[Any], Awaitable[m.Answer]]]] = {
            m.RegisterBroker: self._register_broker,
            m.BrokerHeartbeat: self._broker_heartbeat,
            m.UnregisterBroker: self._unregister_broker,
            m.AllocateProducerIds: self._allocate_producer_ids,
            m.FetchMetadata: self._fetch_metadata,
            m.DescribeQuorum: self._describe_quorum,
            m.CreateTopics: self._create_topics,
            m.DeleteTopics: self._delete_topics,
            m.CreatePartitions: self._create_partitions,
            m.AlterConfigs: self._alter_configs,
        }

    @property
    def cluster_id(self) -> str:
        """Which cluster this controller belongs to."""
        return self._meta.cluster_id

    @property
    def image(self) -> MetadataImage:
        """The metadata as of the last committed records."""
        return self._raft.image

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be a controller until cancelled; started once requests are served.

        Raises:
            OSError: the disk failed: end the process.
            InconsistentClusterIdError: the journal is another cluster's.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self._raft.run)
            await self._become_active()
            task_status.started()
            await self._watch_sessions()

    async def serve(self, listeners: Sequence[trio.abc.Listener[Any]]) -> None:
        """Serve brokers and tools of other processes, until cancelled."""
        await trio.serve_listeners(self._serve_connection, list(listeners))

    async def handle(self, request: m.Request[A]) -> A:
        """Carry out a request.

        Raises:
            KafkaError: it failed as a whole. ``NotControllerError``: nothing was done;
                ``RequestTimedOutError``: it may or may not have been carried out.
        """
        handler = self._handlers.get(type(request))
        if handler is None:
            raise UnsupportedVersionError(f"{type(request).__name__} is no request to a controller")
        answer: Any = await handler(request)
        return answer  # type: ignore[no-any-return]  # the table pairs each request with its answer

    # --- being active

    async def _become_active(self) -> None:
        self._begin_sessions()
        if not self.image.cluster_id:
            now_ms = self._clock_ms()
            formatted = ClusterFormatted("the cluster was formatted", now_ms, self.cluster_id)
            await self._raft.propose(self.image.version, (formatted,))
        if self.image.cluster_id != self.cluster_id:
            raise InconsistentClusterIdError(
                f"the metadata belongs to cluster {self.image.cluster_id}, not {self.cluster_id}"
            )

    def _begin_sessions(self) -> None:
        self._sessions = brokers.Sessions(
            _session_clock_ms(), self._config.broker_session_timeout_ms
        )

    async def _watch_sessions(self) -> None:
        timeout_s = self._config.broker_session_timeout_ms / 1000
        while True:
            asleep_since_s = trio.current_time()
            await trio.sleep(timeout_s / SESSION_CHECKS_PER_TIMEOUT)
            if trio.current_time() - asleep_since_s > timeout_s / 2:
                # This process was stopped or starved: it is the one that could hear nobody.
                self._begin_sessions()
                continue
            try:
                await self._decide(self._fence_stale)
            except KafkaError as error:
                logger.warning("stale brokers could not be fenced: %s", error)

    def _fence_stale(self, image: MetadataImage) -> Decision[m.UnregisterBrokerAnswer]:
        records = brokers.fence_stale(image, self._sessions, self._now())
        return Decision(records, m.UnregisterBrokerAnswer())

    def _now(self) -> brokers.Now:
        return brokers.Now(_session_clock_ms(), self._clock_ms())

    # --- deciding

    async def _decide(self, decide: Callable[[MetadataImage], Decision[A]]) -> A:
        """Commit what is decided on the current image, and return its answer.

        Raises:
            KafkaError: the decision's own, or the commit failed.
        """
        self._check_active()
        decision = decide(self.image)
        if not decision.records:
            return decision.answer
        with trio.move_on_after(COMMIT_TIMEOUT_S):
            # One at a time: two decisions on one version would only make each other wait.
            async with self._deciding:
                return await self._commit(decide)
        raise RequestTimedOutError("not committed in time; it may be later")

    async def _commit(self, decide: Callable[[MetadataImage], Decision[A]]) -> A:
        for _ in range(DECISIONS_MAX):
            self._check_active()
            image = self.image
            decision = decide(image)
            if not decision.records:
                return decision.answer
            if await self._committed(image.version, decision):
                return decision.answer
        raise RequestTimedOutError("the metadata changed again and again meanwhile")

    async def _committed(self, version: int, decision: Decision[Any]) -> bool:
        """Return whether a decision was committed; if not, it must be made again."""
        try:
            outcome = await self._raft.propose(version, decision.records)
        except CommandTooLargeError as error:
            raise KafkaError(
                f"the change is too large, split it: {error}", code=ErrorCode.POLICY_VIOLATION
            ) from error
        match outcome:
            case Committed():
                return True
            case Conflict():
                return False
            case NotLeader() | Lost():
                raise NotControllerError
            case Unknown():
                raise RequestTimedOutError("the controller stops; the change may be committed")
            case Refused(reason):
                logger.error("a decision contradicts the metadata, this is a bug: %s", reason)
                raise KafkaError(reason)

    def _check_active(self) -> None:
        if not self._raft.is_leader:
            raise NotControllerError

    # --- requests

    async def _register_broker(self, request: m.RegisterBroker) -> m.RegisterBrokerAnswer:
        before = self.image.brokers.get(request.broker_id)
        answer = await self._decide(
            lambda image: brokers.register(image, self._sessions, request, self._now())
        )
        if before is not None and before.incarnation_id != request.incarnation_id:
            self._sessions.replace(before.incarnation_id)
        self._sessions.touch(request.broker_id, _session_clock_ms())
        return answer

    async def _broker_heartbeat(self, request: m.BrokerHeartbeat) -> m.BrokerHeartbeatAnswer:
        answer = await self._decide(
            lambda image: brokers.heartbeat(image, request, self._clock_ms())
        )
        self._sessions.touch(request.broker_id, _session_clock_ms())
        return answer

    async def _unregister_broker(self, request: m.UnregisterBroker) -> m.UnregisterBrokerAnswer:
        answer = await self._decide(
            lambda image: brokers.unregister(image, request, self._clock_ms())
        )
        self._sessions.forget(request.broker_id)
        return answer

    async def _allocate_producer_ids(
        self, request: m.AllocateProducerIds
    ) -> m.AllocateProducerIdsAnswer:
        return await self._decide(
            lambda image: brokers.allocate_producer_ids(image, request, self._clock_ms())
        )

    async def _create_topics(self, request: m.CreateTopics) -> m.CreateTopicsAnswer:
        configured = topics.TopicDefaults(
            self._config.num_partitions, self._config.default_replication_factor
        )

        def decide(image: MetadataImage) -> Decision[m.CreateTopicsAnswer]:
            defaults = topics.current_defaults(image, configured)
            return topics.create_topics(image, request, defaults, self._clock_ms(), self._rng)

        return await self._decide(decide)

    async def _delete_topics(self, request: m.DeleteTopics) -> m.DeleteTopicsAnswer:
        if not self._config.delete_topic_enable:
            raise KafkaError(code=ErrorCode.TOPIC_DELETION_DISABLED)
        return await self._decide(
            lambda image: topics.delete_topics(image, request, self._clock_ms())
        )

    async def _create_partitions(self, request: m.CreatePartitions) -> m.CreatePartitionsAnswer:
        return await self._decide(
            lambda image: topics.create_partitions(image, request, self._clock_ms(), self._rng)
        )

    async def _alter_configs(self, request: m.AlterConfigs) -> m.AlterConfigsAnswer:
        return await self._decide(
            lambda image: configs.alter_configs(image, request, self._clock_ms())
        )

    async def _fetch_metadata(self, request: m.FetchMetadata) -> m.FetchMetadataAnswer:
        wait_s = min(max(0, request.wait_ms) / 1000, METADATA_WAIT_MAX_S)
        with trio.move_on_after(wait_s):
            await self._raft.wait_for_version_after(request.from_version)
        return self._raft.machine.since(request.from_version)

    async def _describe_quorum(self, _: m.DescribeQuorum) -> m.DescribeQuorumAnswer:
        if not await self._raft.read_barrier():
            raise NotControllerError
        node_id = self._meta.node_id
        return m.DescribeQuorumAnswer(
            leader_id=node_id,
            leader_epoch=self._raft.term,
            high_watermark=self._raft.commit_index + 1,
            voters=(m.QuorumReplica(node_id, self._raft.last_index + 1),),
            metadata_version=self.image.version,
        )

    # --- the listener

    async def _serve_connection(self, stream: trio.abc.Stream) -> None:
        if self._connections >= CONNECTIONS_MAX:
            logger.warning("refused a control connection: there are %d", self._connections)
            await trio.aclose_forcefully(stream)
            return
        self._connections += 1
        try:
            await serve_control_connection(stream, self)
        finally:
            self._connections -= 1

    async def answer(self, frame: Frame) -> m.Answer:
        """Carry out a request that came through the listener."""
        assert isinstance(frame.message, m.Request), "the connection looked"
        answer: m.Answer = await self.handle(frame.message)
        return answer

    async def serve_mesh(self, hello: m.Hello, frames: ControlStream) -> None:
        """Take in nothing: this controller is alone."""

    def greet(self, hello: m.Hello) -> m.HelloAnswer:
        """Return who we are, or refuse."""
        if hello.cluster_id and hello.cluster_id != self.cluster_id:
            raise InconsistentClusterIdError(
                f"this is cluster {self.cluster_id}, not {hello.cluster_id}"
            )
        version = min(hello.version_max, m.PROTOCOL_VERSION_MAX)
        if version < max(hello.version_min, m.PROTOCOL_VERSION_MIN):
            raise UnsupportedVersionError(
                f"this controller speaks versions {m.PROTOCOL_VERSION_MIN} to "
                f"{m.PROTOCOL_VERSION_MAX}, you {hello.version_min} to {hello.version_max}"
            )
        return m.HelloAnswer(self.cluster_id, self._meta.node_id, version)
