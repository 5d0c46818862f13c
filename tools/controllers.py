"""How a broker or a tool reaches controllers in other processes: over one connection."""

import itertools
import logging
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import trio

from quorate.control.messages import NO_NODE, Answer, FetchMetadata, Hello, Request
from quorate.errors import (
    ErrorCode,
    KafkaError,
    NetworkError,
    NotControllerError,
    RequestTimedOutError,
)
from quorate.model import Endpoint
from quorate.net.control import ControlConnection, connect_control
from quorate.net.rpc import connect

logger: Final = logging.getLogger(__name__)

CONNECT_TIMEOUT_MS: Final = 5_000
ANSWER_TIMEOUT_S: Final = 35.0
"""More than a controller takes to give up on a commit, so that its own answer comes first."""

RETRY_S: Final = 0.2

A = TypeVar("A", bound=Answer)


class RemoteController:
    """Owns the connection to a controller; :meth:`run` must run while it is used.

    Invariant: one connection at most; whoever comes while it is being made waits for it.
    """

    def __init__(self, endpoints: Sequence[Endpoint], node_id: int) -> None:
        self._endpoints = itertools.cycle(endpoints)
        self._endpoint_count = len(endpoints)
        self._node_id = node_id
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

    async def find_cluster(self) -> str:
        """Return the cluster's id, waiting until a controller is there."""
        warned = False
        while True:
            try:
                connection = await self._connected()
            except NetworkError as error:
                if not warned:
                    logger.warning("waiting for a controller: %s", error.message)
                    warned = True
                await trio.sleep(RETRY_S)
            else:
                self._cluster_id = connection.controller.cluster_id
                return self._cluster_id

    async def call(self, request: Request[A]) -> A:
        """Send a request to the active controller.

        Raises:
            KafkaError: it failed; after a NetworkError or a RequestTimedOutError it may have been
                carried out all the same.
        """
        connection = await self._connected()
        timeout_s = ANSWER_TIMEOUT_S
        if isinstance(request, FetchMetadata):
            timeout_s += request.wait_ms / 1000
        try:
            with trio.move_on_after(timeout_s):
                answer: A = await connection.request(request)  # pyright: ignore[reportAssignmentType]
                return answer
        except KafkaError as error:
            if error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION):
                await self._drop(connection)
            raise
        await self._drop(connection)
        raise RequestTimedOutError(f"the controller did not answer in {timeout_s:.0f} s")

    async def _connected(self) -> ControlConnection:
        async with self._connecting:
            if self._connection is None:
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> ControlConnection:
        """Connect to the first controller that takes us."""
        assert self._nursery is not None, "requests are made while run() runs"
        errors: list[str] = []
        for endpoint in itertools.islice(self._endpoints, self._endpoint_count):
            try:
                connection = await self._connect_to(endpoint)
            except (NetworkError, NotControllerError) as error:
                errors.append(error.message)
            else:
                self._nursery.start_soon(self._run, connection)
                return connection
        raise NetworkError("; ".join(errors))

    async def _connect_to(self, endpoint: Endpoint) -> ControlConnection:
        try:
            stream = await connect(endpoint, ssl_context=None, timeout_ms=CONNECT_TIMEOUT_MS)
        except NetworkError as error:
            raise NetworkError(f"no controller at {endpoint}: {error.message}") from None
        return await connect_control(stream, Hello(self._cluster_id, self._node_id))

    async def _run(self, connection: ControlConnection) -> None:
        await connection.run()
        if self._connection is connection:
            self._connection = None

    async def _drop(self, connection: ControlConnection) -> None:
        if self._connection is connection:
            self._connection = None
        await connection.aclose()


async def ask_once(endpoints: Sequence[Endpoint], request: Request[Any], timeout_s: float) -> Any:
    """Ask a controller one thing, as a tool does.

    Raises:
        KafkaError: nobody answers, or what the controller says.
    """
    remote = RemoteController(endpoints, NO_NODE)
    with trio.move_on_after(timeout_s):
        async with trio.open_nursery() as nursery:
            await nursery.start(remote.run)
            answer = await remote.call(request)
            nursery.cancel_scope.cancel()
            return answer
    raise RequestTimedOutError(f"no controller answered in {timeout_s:g} s")
