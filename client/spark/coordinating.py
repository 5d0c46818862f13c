"""Asks coordinators of groups and of transactions, blocking, for tasks and the driver of Spark."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from quorate.client.errors import in_words
from quorate.errors import MEANINGS, RETRIABLE, ErrorCode, KafkaError, NetworkError, known_code
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.groups import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from quorate.client.spark.cluster import Cluster
    from quorate.client.spark.connection import Connection

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1

CONCURRENT_PAUSE_S: Final = 0.01
"""How soon to try again while the last transaction is being finished."""

_MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Coordinators:
    """Knows who coordinates which group, or which transactional id, and asks them."""

    def __init__(self, cluster: Cluster, key_type: int, timeout_ms: int) -> None:
        self._cluster = cluster
        self._key_type = key_type
        self._timeout_ms = timeout_ms
        self._known = cluster.coordinators
        self._problem = "nothing was asked"

    def find(self, key: str) -> None:
        """Find out who coordinates a key, so that the topic that they keep it in is there.

        Raises:
            NetworkError: Nobody says in time.
            KafkaError: Nobody does.
        """
        deadline_s = time.monotonic() + self._timeout_ms / 1_000
        attempts = 0
        while not self._look_up([key]):
            attempts += 1
            self._pause(attempts, deadline_s, key)

    def ask(
        self,
        key: str,
        api_key: int,
        request: Any,
        codes: Callable[[Any], Iterable[int]],
        *,
        version_max: int | None = None,
    ) -> Any:
        """Return the answer about one key; see :meth:`ask_all`."""
        return self.ask_all({key: request}, api_key, codes, version_max=version_max)[key]

    def ask_all(
        self,
        requests: Mapping[str, Any],
        api_key: int,
        codes: Callable[[Any], Iterable[int]],
        *,
        version_max: int | None = None,
    ) -> dict[str, Any]:
        """Ask the coordinator of each key, and again while it moves or says "later".

        Args:
            requests: What to ask, by key; it must do no harm when it is asked twice.
            api_key: Which API.
            codes: Returns the error codes of an answer; what it returns is final if asking again
                would not help.
            version_max: The highest version of the API to use.

        Raises:
            NetworkError: There is no such answer in time.
            KafkaError: There is no coordinator.
        """
        answers: dict[str, Any] = {}
        deadline_s = time.monotonic() + self._timeout_ms / 1_000
        attempts = 0
        while len(answers) < len(requests):
            pending = {key: each for key, each in requests.items() if key not in answers}
            for key, answer in self._round(pending, api_key, version_max).items():
                retriable = [code for code in map(known_code, codes(answer)) if code in RETRIABLE]
                if not retriable:
                    answers[key] = answer
                    continue
                self._problem = MEANINGS[retriable[0]]
                if not _MOVED.isdisjoint(retriable):
                    self._known.pop((self._key_type, key), None)
            if len(answers) < len(requests):
                attempts += 1
                self._pause(attempts, deadline_s, next(iter(pending)))
        return answers

    def _pause(self, attempts: int, deadline_s: float, key: str) -> None:
        if time.monotonic() > deadline_s:
            kind = "transactional id" if self._key_type == TRANSACTION_KEY else "group"
            raise NetworkError(
                f"no answer about {kind} {key!r} within {self._timeout_ms} ms: {self._problem}"
            )
        if self._problem == MEANINGS[ErrorCode.CONCURRENT_TRANSACTIONS]:
            time.sleep(CONCURRENT_PAUSE_S)
        else:
            self._cluster.pause(attempts)

    def _round(
        self, requests: Mapping[str, Any], api_key: int, version_max: int | None
    ) -> dict[str, Any]:
        """Send every request to who coordinates its key, and return what is answered."""
        by_broker: dict[int, list[str]] = {}
        for key in self._look_up(requests):
            by_broker.setdefault(self._known[self._key_type, key], []).append(key)
        sent: list[tuple[Connection, list[str]]] = []
        answers: dict[str, Any] = {}
        for broker_id, keys in by_broker.items():
            try:
                connection = self._cluster.connection(self._cluster.endpoint_of(broker_id))
                sent.append((connection, keys))
                for key in keys:
                    connection.send(api_key, requests[key], version_max=version_max)
            except NetworkError as error:
                self._lose(keys, error)
        for connection, keys in sent:
            try:
                for key in keys:
                    answers[key] = connection.receive()
            except NetworkError as error:
                self._lose(keys, error)
        return answers

    def _lose(self, keys: Iterable[str], error: NetworkError) -> None:
        self._problem = in_words(error)
        for key in keys:
            self._known.pop((self._key_type, key), None)
        self._refresh()

    def _refresh(self) -> None:
        try:
            self._cluster.refresh([])
        except NetworkError as error:
            self._problem = in_words(error)

    def _look_up(self, keys: Iterable[str]) -> list[str]:
        """Find out who coordinates the keys of which that is not known; return those that have one.

        Brokers that take one key at a time (before version 4) answer for the first.
        """
        missing = [key for key in keys if (self._key_type, key) not in self._known]
        if missing:
            request = FindCoordinatorRequest(
                key=missing[0], key_type=self._key_type, coordinator_keys=missing
            )
            try:
                answer: FindCoordinatorResponse = self._cluster.call_any(
                    ApiKey.FIND_COORDINATOR, request
                )
            except NetworkError as error:
                self._problem = in_words(error)
            else:
                self._take(answer, missing[0])
        return [key for key in keys if (self._key_type, key) in self._known]

    def _take(self, answer: FindCoordinatorResponse, first: str) -> None:
        told = {
            each.key: (each.node_id, each.error_code, each.error_message)
            for each in answer.coordinators
        } or {first: (answer.node_id, answer.error_code, answer.error_message)}
        for key, (node_id, number, message) in told.items():
            code = known_code(number)
            if code == ErrorCode.NONE:
                self._known[self._key_type, key] = node_id
                continue
            self._problem = message or MEANINGS[code]
            if code not in RETRIABLE:
                raise KafkaError(f"no coordinator of {key!r}: {self._problem}", code=code)
        if any(node_id not in self._cluster.view.brokers for node_id in self._known.values()):
            self._refresh()
