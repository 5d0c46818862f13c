"""Trio shell: what all of the Admin client stands on: its connection, asking, errors."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

import trio

from quorate.client.connections import RETRY, Cluster, ConnectionOptions, client_settings
from quorate.client.errors import error_for
from quorate.client.lifetime import Lifetime
from quorate.errors import MEANINGS, ErrorCode, KafkaError, QuorateError, known_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack


class AdminBase:
    """Owns the connection to a cluster; it lives from the beginning of a block to its end."""

    def __init__(
        self, bootstrap: str | Sequence[str], **options: Unpack[ConnectionOptions]
    ) -> None:
        """Check and keep the settings; ``async with`` connects.

        Args:
            bootstrap: Where to find a first broker: ``host:port``, several with commas.
            **options: See :class:`quorate.client.connections.ConnectionOptions`.

        Raises:
            ValueError: A setting makes no sense.
        """
        self._settings = client_settings(bootstrap, options)
        self._rng = Random()  # noqa: S311 - spreads load, guards no secret
        self._lifetime = Lifetime("admin client")
        self._cluster: Cluster | None = None

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            BootstrapError: No bootstrap address led to a broker in time.
        """
        self._cluster = await self._lifetime.open(self._settings, self._rng)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Disconnect."""
        await self._lifetime.close(error, traceback)

    async def call(self, api_key: int, request: Any, broker_id: int | None = None) -> Any:
        """Ask a broker, anew while the cluster has no controller."""
        cluster = self.connected()
        attempts = 0
        while True:
            if broker_id is None:
                response = await cluster.call_any(api_key, request)
            else:
                response = await cluster.call_broker(broker_id, api_key, request)
            attempts += 1
            if not _lacks_controller(response) or attempts > CONTROLLER_ATTEMPTS:
                return response
            await trio.sleep(cluster.pause_s(RETRY, attempts))

    def connected(self) -> Cluster:
        """Return the cluster, if the client is open."""
        self._lifetime.check_open()
        assert self._cluster is not None
        return self._cluster


CONTROLLER_ATTEMPTS: Final = 5


def _lacks_controller(response: Any) -> bool:
    """Whether all that a response says is that no controller could be asked."""
    told = None
    for name in ("topics", "responses", "results"):
        told = told or getattr(response, name, None)
    codes = {getattr(result, "error_code", 0) for result in told or (response,)}
    return codes == {ErrorCode.NOT_CONTROLLER}


def raise_first(results: Mapping[Any, object]) -> None:
    """Raise the first error among the results of a method on several things."""
    for result in results.values():
        if isinstance(result, QuorateError):
            raise result


def error_of(code: int, message: str | None, what: str) -> KafkaError | None:
    """Return the error that an answer tells of, None if it tells of none."""
    known = known_code(code)
    if known == ErrorCode.NONE:
        return None
    return error_for(known, f"{what}: {message or MEANINGS[known]}")


def check(code: int, message: str | None, what: str) -> None:
    """Raise the error that an answer tells of, if it tells of one."""
    error = error_of(code, message, what)
    if error is not None:
        raise error
