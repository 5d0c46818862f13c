"""How a broker or a tool reaches the controllers: over one connection, to the one that leads."""

import logging
import math
import secrets
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import trio

from quorate.control import messages as m
from quorate.control.partition_messages import AlterPartition
from quorate.errors import (
    ErrorCode,
    KafkaError,
    NetworkError,
    NotControllerError,
    RequestTimedOutError,
)
from quorate.model import Endpoint
from quorate.net.control import ControlConnection, connect_control
from quorate.net.control_server import notice_dead_peers
from quorate.net.rpc import connect

logger: Final = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 2.0
REQUEST_TIMEOUT_S: Final = 35.0
"""More than a controller takes to give up on a commit, so that its own answer comes first."""

TRY_S: Final = 2.0
"""A controller that does not answer within this is taken for one that never will."""

RETRY_S: Final = 0.2
RETRY_MIN_S: Final = 0.02
RETRY_MAX_S: Final = 0.1
"""Short, because an election is: a second after the last leader's death there is another."""

REQUEST_ID_BYTES: Final = 16

REPEATABLE: Final = (
    m.FetchMetadata, m.DescribeQuorum, m.RegisterBroker, m.BrokerHeartbeat, m.AllocateProducerIds,
    AlterPartition,
)  # fmt: skip
"""What may be carried out twice; all else carries an id, so that it is not."""

LOOKS: Final = (m.FetchMetadata, m.DescribeQuorum)
"""What changes nothing, whether it is answered or not."""

ONCE: Final = (m.AddVoter, m.RemoveVoter, m.TransferLeadership)
"""What controllers keep no answers of: a person decides whether to try again."""

A = TypeVar("A", bound=m.Answer)


class RemoteController:
    """Owns the connection to a controller; :meth:`run` must run while it is used.

    Invariant: one connection at most; whoever comes while it is being made waits for it.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        node_id: int,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._endpoints = tuple(endpoints)
        self._next = 0
        self._node_id = node_id
        self._ssl_context = ssl_context
        self._cluster_id = ""
        self._connection: ControlConnection | None = None
        self._connecting = trio.Lock()
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the connection's task, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    async def find_cluster(self, known: str = "") -> str:
        """Return the cluster's id, waiting until a controller is there.

        The cluster that is ``known`` already is looked for at all addresses first.
        """
        warned = False
        while True:
            try:
                connection = await self._connected_in(known)
            except (NetworkError, NotControllerError) as error:
                if not warned:
                    logger.warning("waiting for a controller: %s", error.message)
                    warned = True
                await trio.sleep(RETRY_S)
            else:
                self._cluster_id = connection.controller.cluster_id
                return self._cluster_id

    async def call(self, request: m.Request[A], /, timeout_s: float = REQUEST_TIMEOUT_S) -> A:
        """Send a request to the active controller, to others if that one is gone.

        Raises:
            KafkaError: it failed; after a NetworkError or a RequestTimedOutError it may have been
                carried out all the same, unless the message says otherwise.
        """
        kind = type(request)
        request_id = b""
        if kind not in REPEATABLE + ONCE:
            request_id = secrets.token_bytes(REQUEST_ID_BYTES)
        wait_s = _wait_s(request)
        timeout_s, try_s = timeout_s + wait_s, TRY_S + wait_s
        deadline_s = trio.current_time() + timeout_s
        why: KafkaError = NetworkError("no controller was reached")
        doubtful = False
        pause_s = RETRY_MIN_S
        while (left_s := deadline_s - trio.current_time()) > 0:
            try:
                with trio.move_on_at(deadline_s):
                    this_s = left_s if kind in ONCE else min(try_s, left_s)
                    return await self._try(request, request_id, this_s, left_s)
            except NotControllerError as error:
                why = error
                if error.leader_endpoint is not None and pause_s == RETRY_MIN_S:
                    pause_s *= 2
                    continue
            except (NetworkError, RequestTimedOutError) as error:
                if kind in ONCE:
                    raise
                why, doubtful = error, True
            with trio.move_on_at(deadline_s):
                await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_MAX_S)
        if why.code == ErrorCode.NOT_CONTROLLER:
            done = "; it may be done all the same" if doubtful else "; nothing was done"
            raise RequestTimedOutError(
                f"no controller leads the quorum, for {timeout_s:g} s now"
                + ("" if kind in LOOKS else done)
            ) from why
        raise RequestTimedOutError(f"no answer within {timeout_s:g} s: {why.message}") from why

    async def _try(
        self, request: m.Request[A], request_id: bytes, try_s: float, left_s: float
    ) -> A:
        """Send a request once; leave a controller that cannot serve it."""
        connection = await self._connected()
        try:
            with trio.move_on_after(try_s):
                answer: A = await connection.request(  # pyright: ignore[reportAssignmentType]
                    request, request_id=request_id, timeout_ms=math.ceil(left_s * 1000)
                )
                return answer
        except NotControllerError as error:
            await self._follow(connection, error.leader_endpoint)
            raise
        except NetworkError:
            await self._drop(connection)
            raise
        await self._drop(connection)
        raise RequestTimedOutError(f"the controller did not answer in {try_s:.1f} s")

    async def _connected(self) -> ControlConnection:
        async with self._connecting:
            if self._connection is None:
                self._connection = await self._connect()
            return self._connection

    async def _connected_in(self, known: str) -> ControlConnection:
        """Return a connection within a cluster, to any other if it cannot be found."""
        if known:
            self._cluster_id = known
            with suppress(NetworkError, NotControllerError):
                return await self._connected()
            self._cluster_id = ""
        return await self._connected()

    async def _follow(self, connection: ControlConnection, leader: Endpoint | None) -> None:
        """Go from a controller that does not lead to the one that does, if that is known."""
        async with self._connecting:
            if self._connection is not connection:
                return  # somebody else went already
            await self._drop(connection)
            if leader is None:
                return
            try:
                self._connection = await self._connect_to(leader)
            except KafkaError as error:
                logger.info("the controller that should lead is not there: %s", error.message)

    async def _connect(self) -> ControlConnection:
        """Connect to the next controller that takes us."""
        errors: list[str] = []
        for _ in self._endpoints:
            endpoint = self._endpoints[self._next % len(self._endpoints)]
            self._next += 1
            try:
                return await self._connect_to(endpoint)
            except (NetworkError, NotControllerError) as error:
                errors.append(error.message)
        raise NetworkError("; ".join(errors))

    async def _connect_to(self, endpoint: Endpoint) -> ControlConnection:
        assert self._nursery is not None, "requests are made while run() runs"
        with trio.move_on_after(CONNECT_TIMEOUT_S):
            try:
                stream = await connect(
                    endpoint,
                    ssl_context=self._ssl_context,
                    timeout_ms=int(CONNECT_TIMEOUT_S * 1000),
                )
            except NetworkError as error:
                raise NetworkError(f"no controller at {endpoint}: {error.message}") from None
            notice_dead_peers(stream)
            try:
                connection = await connect_control(stream, m.Hello(self._cluster_id, self._node_id))
            except KafkaError as error:
                if error.code != ErrorCode.INCONSISTENT_CLUSTER_ID:
                    raise
                raise NetworkError(f"not our controller, {endpoint}: {error.message}") from None
            self._nursery.start_soon(self._run, connection)
            return connection
        raise NetworkError(f"no controller at {endpoint}: it does not answer")

    async def _run(self, connection: ControlConnection) -> None:
        await connection.run()
        if self._connection is connection:
            self._connection = None

    async def _drop(self, connection: ControlConnection) -> None:
        if self._connection is connection:
            self._connection = None
        await connection.aclose()


def _wait_s(request: m.Request[Any]) -> float:
    """Return how long a request asks the controller to wait."""
    return request.wait_ms / 1000 if isinstance(request, m.FetchMetadata) else 0.0


async def ask_once(
    endpoints: Sequence[Endpoint],
    request: m.Request[Any],
    timeout_s: float,
    ssl_context: ssl.SSLContext | None = None,
) -> Any:
    """Ask the controllers one thing, as a tool does.

    Raises:
        KafkaError: nobody answers, or what the controller says.
    """
    remote = RemoteController(endpoints, m.NO_NODE, ssl_context)
    async with trio.open_nursery() as nursery:
        await nursery.start(remote.run)
        answer: Any
        try:
            answer = await remote.call(request, timeout_s)
        except KafkaError as error:
            answer = error
        nursery.cancel_scope.cancel()
    if isinstance(answer, KafkaError):
        raise answer
    return answer
