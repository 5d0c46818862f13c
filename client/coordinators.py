"""Trio shell: who coordinates which group or transaction, and asking them, anew when they move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from quorate.client.connections import RETRY
from quorate.client.errors import error_for
from quorate.errors import (
    MEANINGS,
    RETRIABLE,
    ErrorCode,
    KafkaError,
    NetworkError,
    RequestTimedOutError,
    known_code,
)
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from quorate.client.connections import Cluster

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1

_KINDS: Final = {GROUP_KEY: "group", TRANSACTION_KEY: "transactional id"}

MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a coordinator answers that cannot, or that is none any more: look it up, ask again."""


class Coordinators:
    """Knows who coordinates which group, or which transactional id (``TRANSACTION_KEY``).

    A group is looked up once, and again after :meth:`forget`. Everything here gives up after the
    client's ``request_timeout_ms``.
    """

    def __init__(self, cluster: Cluster, key_type: int = GROUP_KEY) -> None:
        self._cluster = cluster
        self._key_type = key_type
        self._known: dict[str, int] = {}
        self._trouble: KafkaError | None = None

    def known(self, group_id: str) -> int | None:
        """Return who coordinates a group, if that has been found out."""
        return self._known.get(group_id)

    @property
    def has_stumbled(self) -> bool:
        """Whether the last call asked once in vain, at least: that may have arrived all the same.

        Of calls at the same time it is one of them that this is about.
        """
        return self._trouble is not None

    def forget(self, group_id: str) -> None:
        """Look a group up anew next time: its coordinator is another one, or does not answer."""
        self._known.pop(group_id, None)

    async def find(self, group_id: str) -> int:
        """Return who coordinates a group.

        Raises:
            KafkaError: Nobody does in time, or the group may not be seen.
        """
        self._trouble = None
        await self._look_up([group_id])
        return self._known[group_id]

    async def call(
        self,
        group_id: str,
        api_key: int,
        request: Any,
        codes: Callable[[Any], Iterable[int]],
        *,
        version_max: int | None = None,
    ) -> Any:
        """Ask a group's coordinator, anew while another one is to be asked, or this one not yet.

        Args:
            group_id: The group.
            api_key: Which API.
            request: What to ask; it is asked again as it is.
            codes: Returns the error codes of a response, wherever it has them.
            version_max: The highest version of the API to use.

        Raises:
            KafkaError: No coordinator, or no answer in time.
        """
        (response,) = await self.call_many(
            [group_id], api_key, lambda _: request, codes, version_max=version_max
        )
        return response

    async def call_many(
        self,
        group_ids: Sequence[str],
        api_key: int,
        request_for: Callable[[list[str]], Any],
        codes: Callable[[Any], Iterable[int]],
        *,
        version_max: int | None = None,
    ) -> list[Any]:
        """Ask the coordinators of groups, with one request each, and return their responses.

        A coordinator one of whose groups has moved is asked anew about all of them; so the requests
        are to be such that this does no harm.

        Raises:
            KafkaError: A group has no coordinator, or one does not answer in time.
        """
        responses: list[Any] = []
        pending = list(group_ids)
        self._trouble = None
        attempts = 0
        with trio.move_on_after(self._cluster.settings.request_timeout_ms / 1000):
            while pending:
                await self._look_up(pending)
                by_broker: dict[int, list[str]] = {}
                for group_id in pending:
                    by_broker.setdefault(self._known[group_id], []).append(group_id)
                for broker_id, its_groups in by_broker.items():
                    request = request_for(its_groups)
                    answer = await self._ask(broker_id, api_key, request, codes, version_max)
                    if isinstance(answer, KafkaError):
                        self._trouble = answer
                        for group_id in its_groups:
                            self.forget(group_id)
                    else:
                        responses.append(answer)
                        pending = [group_id for group_id in pending if group_id not in its_groups]
                if pending:
                    attempts += 1
                    await trio.sleep(self._cluster.pause_s(RETRY, attempts))
        if pending:
            self._trouble = self._trouble or self._too_slow(pending)
            raise self._trouble
        return responses

    async def _ask(
        self,
        broker_id: int,
        api_key: int,
        request: Any,
        codes: Callable[[Any], Iterable[int]],
        version_max: int | None,
    ) -> Any:
        """Return the response, or the error after which to look for the coordinator anew."""
        try:
            connection = await self._cluster.reach(broker_id)
            timeout_ms = self._cluster.settings.request_timeout_ms
            response = await connection.call(
                api_key, request, timeout_ms=timeout_ms, version_max=version_max
            )
        except NetworkError as error:
            self._cluster.refresh_soon()
            return error
        for code in map(known_code, codes(response)):
            if code in MOVED:
                return error_for(code, f"broker {broker_id}: {MEANINGS[code]}")
        return response

    async def _look_up(self, group_ids: Sequence[str]) -> None:
        """Find out who coordinates groups of which that is not known."""
        attempts = 0
        with trio.move_on_after(self._cluster.settings.request_timeout_ms / 1000):
            while missing := [each for each in group_ids if each not in self._known]:
                found = await self._find(missing)
                self._known.update(found)
                if not found:
                    attempts += 1
                    await trio.sleep(self._cluster.pause_s(RETRY, attempts))
            return
        raise self._trouble or self._too_slow(group_ids)

    async def _find(self, group_ids: list[str]) -> dict[str, int]:
        """Ask a broker once; return who was found.

        Brokers that take one group at a time (before version 4) answer for the first.

        Raises:
            KafkaError: Asking again would not help.
        """
        request = FindCoordinatorRequest(
            key=group_ids[0], key_type=self._key_type, coordinator_keys=group_ids
        )
        response: FindCoordinatorResponse = await self._cluster.call_any(
            ApiKey.FIND_COORDINATOR, request
        )
        told = {
            each.key: (each.node_id, each.error_code, each.error_message)
            for each in response.coordinators
        } or {group_ids[0]: (response.node_id, response.error_code, response.error_message)}
        found: dict[str, int] = {}
        for group_id, (node_id, number, message) in told.items():
            code = known_code(number)
            if code == ErrorCode.NONE:
                found[group_id] = node_id
                continue
            why = message or MEANINGS[code]
            text = f"no coordinator of {_KINDS[self._key_type]} {group_id!r}: {why}"
            self._trouble = error_for(code, text)
            if code not in RETRIABLE:
                raise self._trouble
        if any(broker_id not in self._cluster.view.brokers for broker_id in found.values()):
            self._cluster.refresh_soon()
        return found

    def _too_slow(self, group_ids: Sequence[str]) -> RequestTimedOutError:
        groups = ", ".join(map(repr, group_ids[:3]))
        return RequestTimedOutError(
            f"no answer about {_KINDS[self._key_type]} {groups} within"
            f" {self._cluster.settings.request_timeout_ms} ms"
        )
