"""Connections between controllers: each dials every other for its own Raft frames.

Raft needs no reliable transport: whatever cannot be sent soon is dropped, with its connection, and
Raft sends again what is still true by then.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import trio

from quorate.control.codec import DecodeError
from quorate.control.frames import LENGTH_BYTES
from quorate.control.messages import Hello, HelloAnswer, Purpose
from quorate.dataclass import dataclass
from quorate.errors import (
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    NetworkError,
    QuorateError,
)
from quorate.model import Endpoint
from quorate.net.bell import Bell
from quorate.net.control import ControlStream, introduce
from quorate.quorum.raft.messages import (
    FRAME_BYTES_MAX,
    RaftMessage,
    decode_message,
    encode_message,
)
from quorate.quorum.raft.rounds import Outgoing
from quorate.quorum.raft.voters import DIRECTORY_ID_BYTES, NO_VOTERS, ReplicaKey, VoterSet

if TYPE_CHECKING:
    from random import Random

logger: Final = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 2.0
RECONNECT_MIN_S: Final = 0.05
RECONNECT_MAX_S: Final = 0.5
QUEUE_BYTES_MAX: Final = 16 * 2**20
ALIVE_S: Final = 2.0
"""A connection that something came from so recently is one of a living process."""
TWIN_S: Final = 10.0
"""So long may others take to notice that who had our id before is gone."""

Connect = Callable[[Endpoint], Awaitable[trio.abc.Stream]]


class TwinError(QuorateError):
    """Another controller lives under our id, and that one votes; the message is for a person."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this controller is, to the others of its cluster."""

    key: ReplicaKey
    cluster_id: str
    endpoint: Endpoint
    incarnation_id: bytes

    def hello(self, purpose: Purpose) -> Hello:
        """Return how this controller introduces itself."""
        return Hello(
            self.cluster_id,
            self.key.node_id,
            directory_id=self.key.directory_id,
            purpose=purpose,
            endpoint=self.endpoint,
            incarnation_id=self.incarnation_id,
        )


class Replica(Protocol):
    """What the mesh tells its owner."""

    def receive(self, source: ReplicaKey, message: RaftMessage) -> None:
        """Take a message."""
        ...

    def peer_connected(self, key: ReplicaKey) -> None:
        """Messages to this replica have a chance."""
        ...

    def peer_disconnected(self, key: ReplicaKey) -> None:
        """Messages to this replica have none."""
        ...


class _Link:
    """An outgoing connection that is up: frames that wait to be sent."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self.scope = scope
        self.bell = Bell()
        self.queue: list[bytes] = []
        self.queued_bytes = 0


@dataclass(slots=True)
class _Incoming:
    """A connection that another controller made, and when it was last heard."""

    hello: Hello
    endpoint: Endpoint
    frames: ControlStream
    heard_s: float


@dataclass(slots=True)
class _Tried:
    """The last time that somebody was dialed."""

    at_s: float = -math.inf
    met: ReplicaKey | None = None
    """Who was there."""
    complaint: str = ""
    """What was wrong, if it was not said to be another thing since."""


@dataclass(frozen=True, slots=True)
class _Dialer:
    """A task that keeps a connection to an endpoint, and what ends it."""

    endpoint: Endpoint
    scope: trio.CancelScope


class RaftMesh:
    """Owns a controller's connections to the others; :meth:`run` must run while it is used.

    It dials the voters, whoever dials us (that is how observers are found), and, while no voters
    are known, ``bootstrap`` and who votes as those reached there say. Invariant: one outgoing
    connection per controller at most.
    """

    def __init__(
        self,
        identity: Identity,
        connect: Connect,
        rng: "Random",
        *,
        bootstrap: Sequence[Endpoint] = (),
    ) -> None:
        self._identity = identity
        self._connect = connect
        self._rng = rng
        self._bootstrap = tuple(bootstrap)
        self._voters = NO_VOTERS
        self._told: dict[ReplicaKey, list[Endpoint]] = {}
        """Where voters are, by who says so; for as long as we know none ourselves."""
        self._links: dict[ReplicaKey, _Link] = {}
        self._incoming: dict[ReplicaKey, _Incoming] = {}
        self._refused = ""
        """Why a controller was refused the last time."""
        self._waiting: dict[ReplicaKey, list[_Incoming]] = {}
        self._dialers: dict[ReplicaKey | Endpoint, _Dialer] = {}
        self._tried: dict[ReplicaKey | Endpoint, _Tried] = {}
        """Who is dialed, or was a moment ago: anybody may say to be any number of controllers."""
        self._refused_s: float | None = None
        """Since when others have refused us as the second controller with our id."""
        self._replica: Replica | None = None
        self._nursery: trio.Nursery | None = None

    async def run(
        self, replica: Replica, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep connections and hand over what comes, until cancelled.

        Raises:
            TwinError: (in a group) another controller has our id, and is not going away.
        """
        async with trio.open_nursery() as nursery:
            self._replica, self._nursery = replica, nursery
            self._dial_whom_we_want()
            task_status.started()
            await trio.sleep_forever()

    def follow(self, voters: VoterSet) -> None:
        """Be connected to these from now on."""
        if voters != self._voters:
            self._voters = voters
            self._told.clear()
            self._dial_whom_we_want()

    @property
    def voters(self) -> VoterSet:
        """Whom it was told to be connected to."""
        return self._voters

    def send(self, messages: Iterable[Outgoing]) -> None:
        """Queue messages; those to whom there is no connection are dropped."""
        for target, message in messages:
            link = self._links.get(target)
            if link is not None:
                self._enqueue(target, link, message)

    def _enqueue(self, target: ReplicaKey, link: _Link, message: RaftMessage) -> None:
        body = encode_message(message)
        link.queue += (len(body).to_bytes(LENGTH_BYTES, "big"), body)
        link.queued_bytes += LENGTH_BYTES + len(body)
        if link.queued_bytes > QUEUE_BYTES_MAX:
            logger.warning("controller %s takes no more, connecting anew", target)
            link.scope.cancel()
        link.bell.ring()

    def endpoint_of(self, key: ReplicaKey) -> Endpoint | None:
        """Return where another controller listens: as it says, else as the voter set says."""
        incoming = self._incoming.get(key)
        if incoming is not None:
            return incoming.endpoint
        return next((v.endpoint for v in self._voters.voters if v.key == key), None)

    # --- outgoing

    def _dial_whom_we_want(self) -> None:
        if self._nursery is None:
            return
        wanted = self._wanted()
        soon_s = trio.current_time() - RECONNECT_MIN_S
        self._tried = {t: v for t, v in self._tried.items() if t in wanted or v.at_s > soon_s}
        for target, dialer in list(self._dialers.items()):
            if wanted.get(target) != dialer.endpoint:
                del self._dialers[target]
                dialer.scope.cancel()
        for target, endpoint in wanted.items():
            if target not in self._dialers:
                dialer = self._dialers[target] = _Dialer(endpoint, trio.CancelScope())
                self._nursery.start_soon(self._keep_connected, target, dialer)

    def _wanted(self) -> Mapping[ReplicaKey | Endpoint, Endpoint]:
        """Return whom to dial, and where; addresses stand for whom we do not know yet."""
        wanted: dict[ReplicaKey | Endpoint, Endpoint] = {}
        wanted.update({voter.key: voter.endpoint for voter in self._voters.voters})
        wanted.update({key: incoming.endpoint for key, incoming in self._incoming.items()})
        if not self._voters:
            told = (each for endpoints in self._told.values() for each in endpoints)
            wanted.update({each: each for each in (*self._bootstrap, *told)})
        mine = self._identity.endpoint  # also of a voter whose lost disk ours is to replace
        return {target: endpoint for target, endpoint in wanted.items() if endpoint != mine}

    async def _keep_connected(self, target: ReplicaKey | Endpoint, dialer: _Dialer) -> None:
        pause_s = RECONNECT_MIN_S
        with dialer.scope:
            while True:
                tried = self._tried.setdefault(target, _Tried())
                # A second connection would be taken for the first one's successor.
                if target in self._links or tried.met in self._links:
                    await trio.sleep(RECONNECT_MAX_S)
                    continue
                await trio.sleep_until(tried.at_s + RECONNECT_MIN_S)
                tried.at_s = trio.current_time()
                try:
                    frames, key = await self._dial(target, dialer.endpoint, tried)
                except KafkaError as error:
                    _complain(dialer.endpoint, tried, error)
                    self._check_twin(error)
                    pause_s = min(2 * pause_s, RECONNECT_MAX_S)
                else:
                    tried.complaint = ""
                    self._refused_s = None
                    await self._write_to(key, frames)
                    pause_s = RECONNECT_MIN_S
                await trio.sleep(pause_s * self._rng.uniform(0.5, 1))

    def _check_twin(self, error: KafkaError) -> None:
        """Give up if others insist that our id is taken: a voter is never the one to go.

        Raises:
            TwinError: they do.
        """
        if error.code != ErrorCode.DUPLICATE_VOTER or self._identity.key in self._voters:
            return
        if self._refused_s is None:
            self._refused_s = trio.current_time()
        if trio.current_time() - self._refused_s >= TWIN_S:
            raise TwinError(f"{error.message}; or give this one another --id")

    async def _dial(
        self, target: ReplicaKey | Endpoint, endpoint: Endpoint, tried: _Tried
    ) -> tuple[ControlStream, ReplicaKey]:
        with trio.move_on_after(CONNECT_TIMEOUT_S):
            stream = await self._connect(endpoint)
            frames, answer = await introduce(stream, self._identity.hello(Purpose.MESH))
            try:
                key = tried.met = ReplicaKey(answer.node_id, answer.directory_id)
                self._check(target, key, answer)
            except BaseException:
                await frames.aclose()
                raise
            self._learn_from(key, answer)
            return frames, key
        raise NetworkError(f"{endpoint} did not answer within {CONNECT_TIMEOUT_S:g} s")

    def _check(self, target: ReplicaKey | Endpoint, key: ReplicaKey, answer: HelloAnswer) -> None:
        """Refuse whom we have reached if it is not whom we want.

        Raises:
            KafkaError: that is so.
        """
        if answer.cluster_id != self._identity.cluster_id:
            raise NetworkError(f"it is not in cluster {self._identity.cluster_id} yet")
        if isinstance(target, ReplicaKey) and key != target:
            raise NetworkError(f"there is {key}, not {target}")
        if key in self._links:
            raise NetworkError(f"there is a connection to {key} already")

    def _learn_from(self, key: ReplicaKey, answer: HelloAnswer) -> None:
        """Dial those, too, of whom another one says that they vote: who leads must hear of us."""
        if not self._voters:
            self._told[key] = [each.endpoint for each in answer.voters if each.endpoint is not None]
            self._dial_whom_we_want()

    async def _write_to(self, key: ReplicaKey, frames: ControlStream) -> None:
        """Send what is queued for another controller until the connection breaks."""
        assert self._replica is not None
        with trio.CancelScope() as scope:
            link = self._links[key] = _Link(scope)
            self._replica.peer_connected(key)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_end_with, frames, scope)
                    await _write(link, frames)
            except* (NetworkError, DecodeError):
                pass
            finally:
                del self._links[key]
                self._replica.peer_disconnected(key)
                await frames.aclose()

    # --- incoming

    def admit(self, hello: Hello) -> None:
        """Let another controller in.

        Raises:
            KafkaError: it is not one of this cluster, or not the only one with its id.
        """
        me, key = self._identity, ReplicaKey(hello.node_id, hello.directory_id)
        if hello.cluster_id != me.cluster_id or hello.endpoint is None or hello.node_id < 0:
            raise InvalidRequestError("controllers say their cluster, their id and where they are")
        if not hello.endpoint.can_be_dialed:
            raise InvalidRequestError(f"nobody can connect to a controller at {hello.endpoint}")
        if len(hello.directory_id) != DIRECTORY_ID_BYTES or not any(hello.directory_id):
            raise InvalidRequestError(f"directory ids have {DIRECTORY_ID_BYTES} bytes")
        if key == me.key and hello.incarnation_id == me.incarnation_id:
            raise InvalidRequestError("that is this controller itself")
        if self._replica is None:
            raise NetworkError("this controller is not ready")
        other = self._other_with_id(hello)
        if other is not None:
            message = (
                f"two controllers have the id {key.node_id}: {other}, and the one at"
                f" {hello.endpoint} with directory {key}; stop one of them"
            )
            if message != self._refused:  # it comes again, several times a second
                self._refused = message
                logger.error("refused a controller: %s", message)
            raise KafkaError(message, code=ErrorCode.DUPLICATE_VOTER)

    def _other_with_id(self, hello: Hello) -> str | None:
        """Return who else has the id of this hello, and is alive."""
        me = self._identity
        if hello.node_id == me.key.node_id:
            return f"this one with directory {me.key}"
        is_voter = ReplicaKey(hello.node_id, hello.directory_id) in self._voters
        for key, incoming in self._incoming.items():
            if key.node_id != hello.node_id:
                continue
            if is_voter and key not in self._voters:
                continue  # Who merely says that it has a voter's id does not keep the voter out.
            recently = trio.current_time() - incoming.heard_s < ALIVE_S
            same = key.directory_id == hello.directory_id
            restarted = same and incoming.hello.incarnation_id == hello.incarnation_id
            # An old connection of the same directory may be one that broke without a word.
            if not restarted and (recently or not same):
                return f"the one at {incoming.endpoint} with directory {key}"
        return None

    async def serve(self, hello: Hello, frames: ControlStream) -> None:
        """Take in what another controller that was admitted sends, until the connection ends.

        Raises:
            DecodeError: what comes is no Raft frame.
            NetworkError: the connection broke.
        """
        assert self._replica is not None, "others are admitted while the mesh runs"
        assert hello.endpoint is not None, "they say where they are"
        key = ReplicaKey(hello.node_id, hello.directory_id)
        incoming = _Incoming(hello, hello.endpoint, frames, trio.current_time())
        waiting = self._waiting.setdefault(key, [])
        waiting.append(incoming)
        self._incoming.setdefault(key, incoming)
        self._dial_whom_we_want()
        try:
            while (body := await frames.receive_body(FRAME_BYTES_MAX)) is not None:
                message = decode_message(body)
                incoming.heard_s = trio.current_time()
                if self._incoming.get(key) is not incoming:
                    await self._prefer(key, incoming)
                self._replica.receive(key, message)
        finally:
            waiting.remove(incoming)
            if self._incoming.get(key) is incoming:
                del self._incoming[key]
                if waiting:
                    self._incoming[key] = waiting[-1]
                self._dial_whom_we_want()
            if not waiting:
                del self._waiting[key]

    async def _prefer(self, key: ReplicaKey, incoming: _Incoming) -> None:
        """Go by the connection that is in use: the one before it broke without a word."""
        before = self._incoming.get(key)
        self._incoming[key] = incoming
        self._dial_whom_we_want()
        if before is not None:
            await before.frames.aclose()


def _complain(endpoint: Endpoint, tried: _Tried, error: KafkaError) -> None:
    """Say why there is no connection, once per reason."""
    if tried.complaint == error.message:
        return
    tried.complaint = error.message
    if error.code == ErrorCode.NETWORK_EXCEPTION:
        logger.info("no connection to the controller at %s: %s", endpoint, error.message)
    else:
        logger.error("the controller at %s refuses this one: %s", endpoint, error.message)


async def _write(link: _Link, frames: ControlStream) -> None:
    while True:
        await link.bell.wait()
        data = b"".join(link.queue)
        link.queue.clear()
        link.queued_bytes = 0
        await frames.send_bytes(data)


async def _end_with(frames: ControlStream, scope: trio.CancelScope) -> None:
    """End a connection when the other side does; it has nothing to say."""
    try:
        await frames.receive_body(1)
    finally:
        scope.cancel()
