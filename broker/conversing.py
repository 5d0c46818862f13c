"""Trio shell: connections over which this broker asks others, for as long as they last."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from quorate.broker.handlers.context import Broker
from quorate.broker.listeners import BetweenBrokers, endpoint_of
from quorate.errors import NetworkError, QuorateError
from quorate.net.exchange import Exchange
from quorate.net.rpc import connect

CONNECT_TIMEOUT_MS: Final = 2_000


@asynccontextmanager
async def connected(
    broker: Broker, peer_id: int, way: BetweenBrokers, *, role: str, apis: tuple[int, ...]
) -> AsyncGenerator[Exchange]:
    """Open a connection to another broker, which is closed in the end.

    Args:
        broker: this one.
        peer_id: the other one.
        way: how brokers connect to each other.
        role: what this one does there, for the other's log.
        apis: what it is going to be asked.

    Raises:
        QuorateError: there is no connection.
    """
    endpoint = endpoint_of(broker.replicas.image, peer_id, way.protocol)
    stream = await connect(endpoint, ssl_context=way.context, timeout_ms=CONNECT_TIMEOUT_MS)
    client_id = f"broker-{broker.config.node_id}-{role}"
    exchange = Exchange(stream, peer=f"broker {peer_id}", client_id=client_id)
    try:
        try:
            with trio.fail_after(CONNECT_TIMEOUT_MS / 1000):
                await exchange.negotiate(apis)
        except trio.TooSlowError:
            raise NetworkError(f"broker {peer_id} does not answer") from None
        yield exchange
    finally:
        with trio.CancelScope(shield=True):
            await exchange.close()


async def until_one_breaks(*works: Callable[[], Awaitable[None]]) -> None:
    """Do things side by side until one of them raises a QuorateError: that ends them all.

    Raises:
        QuorateError: that one.
    """
    failure: QuorateError | None = None

    async def until_broken(work: Callable[[], Awaitable[None]]) -> None:
        nonlocal failure
        try:
            await work()
        except QuorateError as error:
            failure = failure or error
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(until_broken, work)
    if failure is not None:
        raise failure
