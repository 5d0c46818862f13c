"""A cluster as a task of Spark sees it: connections, leaders and offsets, all blocking.

Spark's Python workers live longer than a task; what was learned and opened is kept for the next.
"""

from __future__ import annotations

import os
import re
import time
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quorate.client.errors import BootstrapError, in_words
from quorate.client.receiving.fetches import offsets_request
from quorate.client.routing.cluster import ClusterView, TopicView
from quorate.client.routing.retries import Backoff, Remedy, remedy_for
from quorate.client.spark.connection import Connection
from quorate.client.spark.options import Subscribing
from quorate.errors import (
    MEANINGS,
    ErrorCode,
    KafkaError,
    NetworkError,
    UnknownTopicOrPartitionError,
    known_code,
)
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.cluster import DescribeLogDirsRequest
from quorate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from quorate.client.routing.cluster import Leader
    from quorate.client.spark.lookup import ConnectionSettings
    from quorate.client.spark.options import Subscription
    from quorate.model import Endpoint
    from quorate.protocol.messages.cluster import DescribeLogDirsResponse
    from quorate.protocol.messages.data import ListOffsetsResponse

T = TypeVar("T")

RETRY: Final = Backoff(first_ms=50, max_ms=1_000)
CONNECT_TIMEOUT_MS: Final = 10_000
TOPIC_WAIT_MS: Final = 5_000
"""How long a topic may take to appear: metadata of brokers lag behind."""

NO_ID: Final = bytes(16)


class Cluster:
    """Owns the connections to a cluster, one a broker, and what was heard about it last."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.view = ClusterView()
        self.coordinators: dict[tuple[int, str], int] = {}
        """Which broker coordinates a group or a transactional id, by type and name."""

        self._connections: dict[Endpoint, Connection] = {}
        self._rng = Random()  # noqa: S311 - spreads load, guards no secret

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Whom to ask

    def connection(self, endpoint: Endpoint) -> Connection:
        """Return the connection to a broker, made if there is none that can be used.

        Raises:
            NetworkError: It cannot be reached.
        """
        connection = self._connections.get(endpoint)
        if connection is None or not connection.is_idle:
            if connection is not None:
                connection.close()
            connection = self._connections[endpoint] = Connection(
                endpoint,
                self.settings.security,
                client_id=self.settings.client_id,
                timeout_ms=min(self.settings.request_timeout_ms, CONNECT_TIMEOUT_MS),
            )
            connection.set_timeout(self.settings.request_timeout_ms)
        return connection

    def call_any(self, api_key: int, request: Any) -> Any:
        """Ask any broker.

        Raises:
            BootstrapError: None can be reached.
            UnsupportedVersionError: It does not speak the API in our versions.
        """
        known = [*self.view.brokers.values()]
        self._rng.shuffle(known)
        endpoints = list(dict.fromkeys((*known, *self.settings.bootstrap)))
        problems: list[str] = []
        for endpoint in endpoints:
            try:
                return self.connection(endpoint).call(api_key, request)
            except NetworkError as error:
                problems.append(in_words(error))
        addresses = ", ".join(map(str, self.settings.bootstrap))
        raise BootstrapError(
            f"no broker at {addresses}: {'; '.join(problems)}. Is one running there? Check the"
            " address, and whether the listener wants TLS"
        )

    def call_broker(self, broker_id: int, api_key: int, request: Any) -> Any:
        """Ask one broker.

        Raises:
            NetworkError: It is not there, or does not answer.
            UnsupportedVersionError: It does not speak the API in our versions.
        """
        return self.connection(self.endpoint_of(broker_id)).call(api_key, request)

    def endpoint_of(self, broker_id: int) -> Endpoint:
        """Return where a broker listens.

        Raises:
            NetworkError: There is none of that number that is alive.
        """
        endpoint = self.view.brokers.get(broker_id)
        if endpoint is None:
            raise NetworkError(f"the cluster has no broker {broker_id} that is alive")
        return endpoint

    def pause(self, attempts: int) -> None:
        """Wait before another attempt."""
        time.sleep(RETRY.pause_ms(attempts, self._rng) / 1_000)

    # What there is

    def refresh(self, topics: Sequence[str] | None) -> MetadataResponse:
        """Learn anew about topics; about all of them for None.

        Raises:
            BootstrapError: No broker can be reached.
        """
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        response: MetadataResponse = self.call_any(ApiKey.METADATA, request)
        self.view.update(response)
        return response

    def topics(self, names: Sequence[str]) -> dict[str, TopicView]:
        """Return topics that exist, waiting a little for them to appear.

        Raises:
            UnknownTopicOrPartitionError: One does not exist.
            KafkaError: One may not be seen.
        """
        deadline_s = time.monotonic() + TOPIC_WAIT_MS / 1_000
        attempts = 0
        while True:
            self.refresh(names)
            missing = [name for name in names if not self._is_there(name)]
            if not missing:
                return {name: self.view.topics[name] for name in names}
            attempts += 1
            if time.monotonic() > deadline_s:
                raise UnknownTopicOrPartitionError(
                    f"there is no topic {missing[0]!r}: This server does not host this"
                    " topic-partition. Create it, or check the name"
                )
            self.pause(attempts)

    def _is_there(self, name: str) -> bool:
        view = self.view.topics.get(name)
        if view is None:
            return False
        if view.error != ErrorCode.NONE and remedy_for(view.error) is Remedy.GIVE_UP:
            raise KafkaError(f"topic {name!r}: {MEANINGS[view.error]}", code=view.error)
        return view.error == ErrorCode.NONE and bool(view.partitions)

    def subscribed(self, subscription: Subscription) -> set[TopicPartition]:
        """Return the partitions that a subscription stands for now.

        Raises:
            UnknownTopicOrPartitionError: A topic or a partition does not exist.
        """
        if subscription.by is Subscribing.PATTERN:
            pattern = re.compile(subscription.pattern)
            told = self.refresh(None).topics
            names = [t.name for t in told if t.name is not None and not t.is_internal]
            return self._partitions(self.topics([n for n in names if pattern.fullmatch(n)]))
        if subscription.by is Subscribing.TOPICS:
            return self._partitions(self.topics(subscription.topics))
        found = self._partitions(self.topics(list(subscription.assigned)))
        asked = {
            TopicPartition(topic, number)
            for topic, numbers in subscription.assigned.items()
            for number in numbers
        }
        for partition in sorted(asked - found):
            count = len(self.view.topics[partition.topic].partitions)
            raise UnknownTopicOrPartitionError(
                f"topic {partition.topic!r} has no partition {partition.partition}; it has {count},"
                " numbered from 0"
            )
        return asked

    def _partitions(self, topics: Mapping[str, TopicView]) -> set[TopicPartition]:
        return {
            TopicPartition(name, number)
            for name, view in topics.items()
            for number in view.partitions
        }

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics that were looked up before; without those that have none."""
        ids = {
            name: self.view.topics[name].topic_id for name in set(names) & self.view.topics.keys()
        }
        return {name: topic_id.hex() for name, topic_id in ids.items() if topic_id != NO_ID}

    # Offsets

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, committed_only: bool
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record of that time or later; -1 if none is so late.

        -1 instead of a time asks for the end, -2 for the beginning. Leaders are asked for all of
        their partitions at once, and again while leaders change.

        Raises:
            KafkaError: A leader refuses.
            NetworkError: Nobody answers in time.
        """
        results: dict[TopicPartition, int] = {}
        pending: dict[TopicPartition, int] = dict(timestamps)
        deadline_s = time.monotonic() + self.settings.request_timeout_ms / 1_000
        attempts = 0
        while pending:
            try:
                if attempts:
                    self.refresh(sorted({partition.topic for partition in pending}))
                problem = self._list_once(pending, results, committed_only=committed_only)
            except NetworkError as error:
                problem = in_words(error)
            pending = {p: time_ms for p, time_ms in pending.items() if p not in results}
            if pending:
                attempts += 1
                if time.monotonic() > deadline_s:
                    raise NetworkError(f"no offsets of {min(pending)} in time: {problem}")
                self.pause(attempts)
        return results

    def _list_once(
        self,
        pending: Mapping[TopicPartition, int],
        results: dict[TopicPartition, int],
        *,
        committed_only: bool,
    ) -> str:
        """Fill in what leaders answer, and return why some did not."""
        by_leader: dict[int, list[tuple[TopicPartition, int]]] = {}
        problem = "its leader is not known"
        for partition, timestamp in pending.items():
            leader = self.leader_of(partition)
            if leader is not None:
                by_leader.setdefault(leader.broker_id, []).append((partition, timestamp))
        for broker_id, asked in by_leader.items():
            request = offsets_request(
                asked, committed_only=committed_only, timeout_ms=self.settings.request_timeout_ms
            )
            try:
                response: ListOffsetsResponse = self.call_broker(
                    broker_id, ApiKey.LIST_OFFSETS, request
                )
            except NetworkError as error:
                problem = in_words(error)
                continue
            for topic in response.topics:
                for answer in topic.partitions:
                    partition = TopicPartition(topic.name, answer.partition_index)
                    code = known_code(answer.error_code)
                    if code == ErrorCode.NONE:
                        results[partition] = answer.offset
                    elif remedy_for(code) is Remedy.GIVE_UP:
                        raise KafkaError(f"no offset of {partition}: {MEANINGS[code]}", code=code)
                    else:
                        problem = MEANINGS[code]
        return problem

    def log_sizes(self) -> dict[TopicPartition, int]:
        """Return the bytes of each partition's log, of its largest replica that a broker tells."""
        sizes: dict[TopicPartition, int] = {}
        for broker_id in sorted(self.view.brokers):
            try:
                response: DescribeLogDirsResponse = self.call_broker(
                    broker_id, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None)
                )
            except NetworkError:
                continue  # it is down: its replicas are elsewhere, too
            for result in response.results:
                for topic in result.topics:
                    for each in topic.partitions:
                        partition = TopicPartition(topic.name, each.partition_index)
                        sizes[partition] = max(sizes.get(partition, 0), each.partition_size)
        return sizes

    def leader_of(self, partition: TopicPartition) -> Leader | None:
        """Return who leads a partition, asking if that was not heard yet; None for nobody."""
        leader = self.view.leader_of(partition)
        if leader is None:
            self.refresh([partition.topic])
            leader = self.view.leader_of(partition)
        return leader


_kept: dict[tuple[int, ConnectionSettings], Cluster] = {}


def cluster(settings: ConnectionSettings) -> Cluster:
    """Return this process's view of a cluster; connections are not inherited by a fork."""
    key = os.getpid(), settings
    if key not in _kept:
        for others in [other for other in _kept if other[0] != os.getpid()]:
            del _kept[others]
        _kept[key] = Cluster(settings)
    return _kept[key]


def forget() -> None:
    """Close the connections to all clusters; whoever needs one again connects anew."""
    for known in _kept.values():
        known.close()
    _kept.clear()


def retried(call: Callable[[], T], retries: int, pause_ms: int) -> T:
    """Return what a call returns, trying again after errors of the network."""
    for _ in range(retries):
        try:
            return call()
        except NetworkError:
            time.sleep(pause_ms / 1_000)
    return call()
