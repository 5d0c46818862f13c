"""Trio shell of a controller: decide on the image, propose, wait for the commit, answer."""

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from quorate.control import feature_messages as f
from quorate.control import messages as m
from quorate.control import partition_messages as p
from quorate.control.frames import Frame
from quorate.dataclass import dataclass
from quorate.errors import (
    ErrorCode,
    InconsistentClusterIdError,
    KafkaError,
    NotControllerError,
    UnsupportedVersionError,
)
from quorate.model import Endpoint
from quorate.net.bell import Bell
from quorate.net.control import ControlStream
from quorate.net.looking import all_refuse
from quorate.promise import Promise
from quorate.quorum.control import (
    brokers,
    configs,
    elections,
    features,
    partitions,
    reassignments,
    topics,
)
from quorate.quorum.control.decision import Decision, Reason
from quorate.quorum.control.greeting import common_version
from quorate.quorum.control.presence import Presence
from quorate.quorum.deciding import Asked, Decide, Decider, decided
from quorate.quorum.directory import ControllerDirectory
from quorate.quorum.metadata.effective import MIN_INSYNC_REPLICAS_DEFAULT
from quorate.quorum.metadata.features import bootstrap_records
from quorate.quorum.metadata.image import MetadataImage
from quorate.quorum.metadata.records import MetadataRecord
from quorate.quorum.quorum_requests import QuorumRequests, members_of
from quorate.quorum.raft.outcomes import LeadershipMoved
from quorate.quorum.raft.rules import rules_of
from quorate.quorum.raft.voters import NO_VOTERS, VoterSet
from quorate.quorum.raft_mesh import Connect, Identity, RaftMesh
from quorate.quorum.raft_node import RaftNode, RaftPlan, RunBlocking, Standing
from quorate.settings import NodeConfig

if TYPE_CHECKING:
    from random import Random

logger: Final = logging.getLogger(__name__)

REQUEST_TIMEOUT_S: Final = 30.0
"""How long a request may take that does not say how long it may take."""

REQUEST_TIMEOUT_MAX_S: Final = 300.0
METADATA_WAIT_MAX_S: Final = 60.0
HAND_OVER_S: Final = 0.2
LEADER_WAIT_S: Final = 1.0
FORMAT_TIMEOUT_S: Final = 10.0
SESSION_CHECKS_PER_TIMEOUT: Final = 10
SESSION_CHECK_S: Final = 0.1
INCARNATION_BYTES: Final = 16

A = TypeVar("A", bound=m.Answer)
Facts = Callable[[MetadataImage], Iterable[MetadataRecord]]
DecideRequest = Callable[[MetadataImage, Any, int], Decision[Any]]
"""Takes the image, the request that it is the decision on, and the time of day."""


def wall_clock_ms() -> int:
    """Return the time of day, for records."""
    return time.time_ns() // 1_000_000


def _session_clock_ms() -> int:
    """Return a time that only goes forward, for sessions."""
    return int(trio.current_time() * 1000)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a controller meets the world with.

    ``endpoint`` is where others reach it, ``connect`` reaches others; ``bootstrap`` are addresses
    of controllers to look for a cluster at that it joins. ``run_blocking`` runs what waits for the
    disk. ``min_insync_replicas`` is what topics need that do not say otherwise, in a cluster that
    this controller begins.
    """

    endpoint: Endpoint
    connect: Connect
    bootstrap: tuple[Endpoint, ...]
    run_blocking: RunBlocking
    clock_ms: Callable[[], int] = wall_clock_ms
    min_insync_replicas: int = MIN_INSYNC_REPLICAS_DEFAULT


async def _connect_to_nobody(endpoint: Endpoint) -> trio.abc.Stream:
    raise AssertionError(f"a controller that is alone connects to nobody, not to {endpoint}")


NO_LISTENER: Final = Endpoint("localhost", 0)
"""Where a controller listens that is one process with its only broker: nowhere."""


def alone(
    run_blocking: RunBlocking, min_insync_replicas: int = MIN_INSYNC_REPLICAS_DEFAULT
) -> Surroundings:
    """Return the surroundings of a controller that is the only one."""
    return Surroundings(
        NO_LISTENER,
        _connect_to_nobody,
        (),
        run_blocking,
        min_insync_replicas=min_insync_replicas,
    )


class Controller:
    """Owns the controller's part of a node: its Raft node, and the brokers' sessions.

    Brokers in the same process call :meth:`handle`; others come through a ``ControlServer``. It is
    active while its Raft node leads; in between it only passes metadata on.
    """

    def __init__(
        self,
        directory: ControllerDirectory,
        config: NodeConfig,
        rng: "Random",
        surroundings: Surroundings,
    ) -> None:
        """Recover the metadata from the directory, which is formatted.

        Raises:
            JournalDamagedError: the journal is not what was written.
            SnapshotDamagedError: the snapshot is not what was written.
        """
        meta = self._meta = directory.meta
        assert meta.is_formatted, "a controller is in a cluster"
        self._config = config
        self._rng = rng
        self._clock_ms = surroundings.clock_ms
        self._min_insync_replicas = surroundings.min_insync_replicas
        self._identity = Identity(
            meta.key,
            meta.cluster_id,
            surroundings.endpoint,
            secrets.token_bytes(INCARNATION_BYTES),
        )
        self._mesh = RaftMesh(
            self._identity, surroundings.connect, rng, bootstrap=surroundings.bootstrap
        )
        plan = RaftPlan(meta.key, meta.founders, rules_of(config), surroundings.run_blocking)
        self._raft = RaftNode(plan, directory.storage, self._mesh.send, rng)
        self._quorum = QuorumRequests(self._raft, self._mesh, self._identity, self._clock_ms)
        self._decider = Decider(self._raft, self._refusal, self._clock_ms)
        self._active_term = 0
        self._first_active = trio.Event()
        self._making_snapshot = trio.Lock()
        self._sessions = brokers.Sessions(0, config.broker_session_timeout_ms)
        self._session_over = Bell()
        self._returned: frozenset[int] = frozenset()
        self._presence = Presence()
        self._handlers: Final[dict[type[Any], Callable[[Any, Asked], Awaitable[m.Answer]]]] = {
            m.RegisterBroker: self._register_broker,
            m.BrokerHeartbeat: self._broker_heartbeat,
            m.UnregisterBroker: self._unregister_broker,
            m.FetchMetadata: self._fetch_metadata,
            m.DescribeQuorum: self._quorum.describe,
            m.AddVoter: self._quorum.add_voter,
            m.RemoveVoter: self._quorum.remove_voter,
            m.TransferLeadership: self._quorum.transfer,
        }
        self._decisions: Final[dict[type[Any], DecideRequest]] = {
            m.AllocateProducerIds: brokers.allocate_producer_ids,
            m.CreateTopics: self._create_topics,
            m.DeleteTopics: self._delete_topics,
            m.CreatePartitions: self._create_partitions,
            m.AlterConfigs: self._alter_configs,
            p.AlterPartition: partitions.alter_partition,
            p.ElectLeaders: elections.elect_leaders,
            p.AlterReassignments: reassignments.alter_reassignments,
            p.ChangeBroker: brokers.change_broker,
            f.UpdateFeatures: features.update_features,
        }

    @property
    def cluster_id(self) -> str:
        """Which cluster this controller belongs to."""
        return self._meta.cluster_id

    @property
    def image(self) -> MetadataImage:
        """The metadata as of the last committed records."""
        return self._raft.image

    @property
    def raft(self) -> RaftNode:
        """The Raft node, to look at."""
        return self._raft

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be a controller until cancelled; started once requests are served.

        Raises:
            OSError: the disk failed: end the process.
            InconsistentClusterIdError: the journal is another cluster's.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self._raft.run)
            await nursery.start(self._mesh.run, self._raft)
            nursery.start_soon(self._keep_mesh)
            nursery.start_soon(self._decider.run)
            nursery.start_soon(self._lead_when_elected)
            if self._raft.rounds.voters.keys == (self._meta.key,):
                await self._first_active.wait()
            task_status.started()
            await trio.sleep_forever()

    async def hand_over(self) -> None:
        """Let another controller lead before this one stops, if there is one and it is quick."""
        if not self._raft.is_leader or len(self._raft.rounds.voters) < 2:
            return
        deadline_s = trio.current_time() + HAND_OVER_S
        with trio.move_on_at(deadline_s):
            match await self._raft.transfer_leadership(None, deadline_s):
                case LeadershipMoved(leader):
                    logger.info("controller %d leads now, this one stops", leader.node_id)
                case outcome:
                    logger.info("stopping though nobody leads yet: %s", outcome)

    # --- the listener

    def greet(self, hello: m.Hello) -> m.HelloAnswer:
        """Return who we are.

        Raises:
            KafkaError: the other side is not of this cluster, or speaks another language.
        """
        if hello.cluster_id and hello.cluster_id != self.cluster_id:
            raise InconsistentClusterIdError(
                f"this is cluster {self.cluster_id}, not {hello.cluster_id}"
            )
        version = common_version(hello)
        if hello.purpose is m.Purpose.MESH:
            self._mesh.admit(hello)
        return m.HelloAnswer(
            self.cluster_id,
            self._meta.node_id,
            version,
            self._meta.key.directory_id,
            self._identity.endpoint,
            members_of(self._meta.founders),
            members_of(self._mesh.voters),
        )

    def begin(self, frame: Frame) -> Promise[m.Answer | KafkaError] | None:
        """Take a request that is nothing but a decision, which is ours; leave others alone."""
        decide, standing = self._decisions.get(type(frame.message)), self._raft.standing
        # As of the last round, which costs nothing to ask; who decides asks once more.
        if decide is None or not standing.is_leader or standing.term != self._active_term:
            return None
        return self._decider.begin(self._decision(decide, frame.message), _asked(frame))

    async def answer(self, frame: Frame) -> m.Answer:
        """Carry out a request that came through the listener.

        Raises:
            KafkaError: as :meth:`handle` does.
        """
        asked = _asked(frame)
        try:
            return await self._handle(frame.message, asked)
        except NotControllerError as error:
            if error.leader_endpoint is not None:
                raise
        # During an election, whoever waits here learns soonest who leads.
        with trio.move_on_at(min(asked.deadline_s, trio.current_time() + LEADER_WAIT_S)):
            await self._raft.wait_until(self._somebody_is_active)
        return await self._handle(frame.message, asked)

    async def serve_mesh(self, hello: m.Hello, frames: ControlStream) -> None:
        """Take in the Raft frames of another controller."""
        await self._mesh.serve(hello, frames)

    async def handle(self, request: m.Request[A], /, timeout_s: float = REQUEST_TIMEOUT_S) -> A:
        """Carry out a request.

        Raises:
            KafkaError: it failed as a whole. ``NotControllerError``: nothing was done;
                ``RequestTimedOutError``: it may or may not have been carried out.
        """
        asked = Asked(b"", trio.current_time() + timeout_s)
        answer: Any = await self._handle(request, asked)
        return answer  # type: ignore[no-any-return]  # the table pairs each request with its answer

    async def _handle(self, request: object, asked: Asked) -> m.Answer:
        decide = self._decisions.get(type(request))
        if decide is not None:
            return await self._decider.carry_out(self._decision(decide, request), asked)
        handler = self._handlers.get(type(request))
        if handler is None:
            raise UnsupportedVersionError(f"{type(request).__name__} is no request to a controller")
        return await handler(request, asked)

    def _decision(self, decide: DecideRequest, request: object) -> Decide[Any]:
        return lambda image: decide(image, request, self._clock_ms())

    # --- being active

    async def _keep_mesh(self) -> None:
        """Stay connected to those who vote."""
        followed = NO_VOTERS
        while True:
            standing = await self._raft.wait_until(partial(_votes_otherwise, followed))
            followed = standing.voters
            self._mesh.follow(followed)

    async def _lead_when_elected(self) -> None:
        while True:
            standing = await self._raft.wait_until(lambda now: now.is_leader)
            logger.info("this controller is active in term %d", standing.term)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._be_active, standing)
                await self._raft.wait_until(partial(_leads_no_more, standing.term))
                nursery.cancel_scope.cancel()
            self._active_term = 0
            logger.info("this controller is not active any more")

    async def _be_active(self, standing: Standing) -> None:
        """Decide, for as long as this controller leads in this term."""
        self._begin_sessions()
        # The controller before this one may not have come to an end with them.
        self._returned = self.image.live_broker_ids()
        if not self.image.cluster_id:
            await self._format()
        if self.image.cluster_id and self.image.cluster_id != self.cluster_id:
            raise InconsistentClusterIdError(
                f"the metadata belongs to cluster {self.image.cluster_id}, not {self.cluster_id}"
            )
        self._active_term = standing.term
        self._first_active.set()
        self._raft.wake_waiting()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_sessions)
            nursery.start_soon(self._look_for_brokers)
            if self._config.auto_leader_rebalance_enable:
                nursery.start_soon(self._balance_leaders)

    async def _format(self) -> None:
        """Say in the metadata whose it is, unless somebody has by now."""
        first = bootstrap_records(self.cluster_id, self._clock_ms(), self._min_insync_replicas)
        while not self.image.cluster_id:
            deadline_s = trio.current_time() + FORMAT_TIMEOUT_S
            await self._raft.propose(self.image.version, first, deadline_s)

    def _begin_sessions(self) -> None:
        self._sessions = brokers.Sessions(
            _session_clock_ms(), self._config.broker_session_timeout_ms
        )
        self._presence.expect(self.image.live_broker_ids(), _session_clock_ms())

    async def _watch_sessions(self) -> None:
        timeout_s = self._config.broker_session_timeout_ms / 1000
        while True:
            asleep_since_s = trio.current_time()
            check_s = min(timeout_s / SESSION_CHECKS_PER_TIMEOUT, SESSION_CHECK_S)
            await self._session_over.wait_until(asleep_since_s + check_s)
            if trio.current_time() - asleep_since_s > timeout_s / 2:
                # This process was stopped or starved: it is the one that could hear nobody.
                self._begin_sessions()
                continue
            returned = self._returned
            failed = "stale brokers could not be fenced, or those that have returned not lead"
            if await self._on_our_own(failed, self._see_to_brokers):
                self._returned -= returned

    async def _look_for_brokers(self) -> None:
        """End the sessions of brokers whose processes are gone, without waiting for their time."""
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(SESSION_CHECK_S)
                for broker_id in self._presence.absent(_session_clock_ms()):
                    nursery.start_soon(self._look_for, broker_id)

    async def _look_for(self, broker_id: int) -> None:
        try:
            await self._end_if_gone(broker_id)
        finally:
            self._presence.looked(broker_id, _session_clock_ms())

    async def _end_if_gone(self, broker_id: int) -> None:
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            self._presence.forget(broker_id)
            return
        refused = await all_refuse(broker.endpoints.values())
        now = self.image.brokers.get(broker_id)
        if now is None or now.incarnation_id != broker.incarnation_id:
            return  # another process has taken its place
        if not self._presence.is_gone(broker_id, refused=refused):
            return
        logger.warning("broker %d is gone: nobody listens where it did", broker_id)
        self._sessions.end(broker_id)
        self._session_over.ring()

    async def _balance_leaders(self) -> None:
        """Let preferred leaders lead again, from time to time."""
        while True:
            await trio.sleep(self._config.leader_imbalance_check_interval_seconds)
            reason = Reason("preferred leaders lead again", self._clock_ms())
            await self._on_our_own(
                "leaders could not be balanced", partial(elections.balance_leaders, reason=reason)
            )

    async def _on_our_own(self, failed: str, decide: Facts) -> bool:
        """Commit what nobody asked for, as many commands as it takes; return whether that is done.

        If that fails, there will be another occasion.
        """
        version = -1
        try:
            while version != self.image.version:
                version = self.image.version
                await self._decide_unless_nothing(
                    lambda image: Decision(tuple(decide(image)), m.UnregisterBrokerAnswer()),
                    _in_time(),
                )
        except KafkaError as error:
            logger.warning("%s: %s", failed, error)
            return False
        return True

    def _see_to_brokers(self, image: MetadataImage) -> tuple[MetadataRecord, ...]:
        """Fence who is silent, then have those who have returned lead all that waits for them."""
        sessions, now = self._sessions, self._now()
        return brokers.fence_stale(image, sessions, now) or brokers.lead_what_waits(
            image, sessions, self._returned, now
        )

    def _now(self) -> brokers.Now:
        return brokers.Now(_session_clock_ms(), self._clock_ms())

    def _somebody_is_active(self, standing: Standing) -> bool:
        """Whether this controller decides, or knows of another that may."""
        if standing.leader == self._identity.key:
            return self._active_term == standing.term
        return standing.leader is not None

    def _refusal(self) -> NotControllerError | None:
        """Return why this controller does not decide, if it does not."""
        if self._raft.is_leader and self._raft.term == self._active_term:
            return None
        return self._quorum.not_active()

    async def _decide_unless_nothing(self, decide: Decide[A], asked: Asked) -> A:
        """Carry out what is often nothing: then nobody need be asked whether it is still true."""
        refusal = self._refusal()
        if refusal is not None:
            raise refusal
        seen = self.image
        decision = decided(decide, seen)
        if not decision.records:
            return decision.answer
        return await self._decider.carry_out(
            lambda image: decision if image is seen else decide(image), asked
        )

    # --- requests

    async def _register_broker(
        self, request: m.RegisterBroker, asked: Asked
    ) -> m.RegisterBrokerAnswer:
        before = self.image.brokers.get(request.broker_id)
        answer = await self._decider.carry_out(
            lambda image: self._decide_registration(image, request), asked
        )
        if before is not None and before.incarnation_id != request.incarnation_id:
            self._sessions.replace(before.incarnation_id)
        self._sessions.touch(request.broker_id, _session_clock_ms())
        self._presence.forget(request.broker_id)
        return answer

    def _decide_registration(
        self, image: MetadataImage, request: m.RegisterBroker
    ) -> Decision[m.RegisterBrokerAnswer]:
        decision = brokers.register(image, self._sessions, request, self._now())
        if not decision.completes:
            # The process before it is given nothing back; if its successor gives up, it is fenced.
            self._sessions.end(request.broker_id)
        return decision

    async def _broker_heartbeat(
        self, request: m.BrokerHeartbeat, asked: Asked
    ) -> m.BrokerHeartbeatAnswer:
        before = self.image.brokers.get(request.broker_id)
        if request.cannot_write:
            self._sessions.refuse(request.broker_id, _session_clock_ms())
        unable = self._sessions.unable(_session_clock_ms())
        answer = await self._decide_unless_nothing(
            lambda image: brokers.heartbeat(image, request, self._clock_ms(), unable=unable),
            asked,
        )
        if before is not None and before.fenced and not answer.fenced:
            self._returned |= {request.broker_id}
        if answer.should_shut_down:
            self._sessions.end(request.broker_id)
        else:
            self._sessions.touch(request.broker_id, _session_clock_ms())
        return answer

    async def _unregister_broker(
        self, request: m.UnregisterBroker, asked: Asked
    ) -> m.UnregisterBrokerAnswer:
        answer = await self._decider.carry_out(
            lambda image: brokers.unregister(image, request, self._clock_ms()), asked
        )
        self._sessions.forget(request.broker_id)
        return answer

    def _create_topics(
        self, image: MetadataImage, request: m.CreateTopics, now_ms: int
    ) -> Decision[m.CreateTopicsAnswer]:
        configured = topics.TopicDefaults(
            self._config.num_partitions, self._config.default_replication_factor
        )
        defaults = topics.current_defaults(image, configured)
        return topics.create_topics(image, request, defaults, now_ms, self._rng)

    def _alter_configs(
        self, image: MetadataImage, request: m.AlterConfigs, now_ms: int
    ) -> Decision[m.AlterConfigsAnswer]:
        return configs.alter_configs(image, request, now_ms, self._config)

    def _delete_topics(
        self, image: MetadataImage, request: m.DeleteTopics, now_ms: int
    ) -> Decision[m.DeleteTopicsAnswer]:
        if not self._config.delete_topic_enable:
            raise KafkaError(code=ErrorCode.TOPIC_DELETION_DISABLED)
        return topics.delete_topics(image, request, now_ms)

    def _create_partitions(
        self, image: MetadataImage, request: m.CreatePartitions, now_ms: int
    ) -> Decision[m.CreatePartitionsAnswer]:
        return topics.create_partitions(image, request, now_ms, self._rng)

    async def _fetch_metadata(self, request: m.FetchMetadata, _: Asked) -> m.FetchMetadataAnswer:
        wait_s = min(max(0, request.wait_ms) / 1000, METADATA_WAIT_MAX_S)
        if request.broker_id != m.NO_NODE:
            self._presence.begin(request.broker_id, _session_clock_ms())
        try:
            with trio.move_on_after(wait_s):
                await self._raft.wait_for_version_after(request.from_version)
        finally:
            if request.broker_id != m.NO_NODE:
                self._presence.end(request.broker_id, _session_clock_ms())
        machine = self._raft.machine
        machine.check_past(request.from_version, request.checksum)
        if machine.needs_snapshot(request.from_version):
            async with self._making_snapshot:
                while machine.needs_snapshot(request.from_version):
                    version, frozen = self.image.version, machine.freeze()
                    data = await trio.to_thread.run_sync(frozen)
                    machine.keep(m.FetchMetadataAnswer(version, (), data))
        return machine.since(request.from_version)


def _votes_otherwise(voters: VoterSet, now: Standing) -> bool:
    return now.voters != voters


def _leads_no_more(term: int, now: Standing) -> bool:
    return not now.is_leader or now.term != term


def _asked(frame: Frame) -> Asked:
    timeout_s = min(frame.timeout_ms / 1000 or REQUEST_TIMEOUT_S, REQUEST_TIMEOUT_MAX_S)
    return Asked(frame.request_id, trio.current_time() + timeout_s)


def _in_time() -> Asked:
    return Asked(b"", trio.current_time() + REQUEST_TIMEOUT_S)
