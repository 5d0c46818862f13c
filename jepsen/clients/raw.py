"""A plain client that finds leaders and coordinators, and sends each request exactly once.

What became of a request its caller learns: an answer, :class:`wire.ClosedError` (nobody knows), or
:class:`NotNowError` (nothing was sent).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from quorate.client.routing.cluster import parse_bootstrap
from quorate.errors import ErrorCode, QuorateError, known_code
from quorate.jepsen.clients.wire import Client, ClosedError
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.groups import FindCoordinatorRequest
from quorate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

METADATA_VERSION: Final = 12
FIND_COORDINATOR_VERSION: Final = 3
TIMEOUT_S: Final = 4.0


class NotNowError(QuorateError):
    """There is nobody to send it to; nothing was sent."""


class NewestLeaders:
    """Never goes back to who led before, as other clients do not (KIP-320).

    A broker that was stopped goes on as if it led, and refuses what follows records that it lacks.
    State: the newest leader epoch of each partition that was asked for.
    """

    def __init__(self) -> None:
        self._epochs: dict[tuple[bytes, int], int] = {}

    def leader_id(self, topic: MetadataResponseTopic, partition: int) -> int | None:
        """Return who leads by an answer; None if it does not say, or something newer was said."""
        for said in topic.partitions:
            if said.partition_index == partition:
                key = topic.topic_id, partition
                newest = self._epochs.setdefault(key, said.leader_epoch)
                if said.leader_epoch >= newest:
                    self._epochs[key] = said.leader_epoch
                    return said.leader_id
        return None


class Raw:
    """Connections to brokers, and who leads; for one thread.

    State: a connection to each broker that was asked, and what the last metadata said.
    """

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self._timeout_s = timeout_s
        self._turn = 0
        self._endpoints: dict[int, Endpoint] = {}
        self._topics: dict[str, MetadataResponseTopic] = {}
        self._newest = NewestLeaders()
        self._clients: dict[Endpoint, Client] = {}

    def ask(self, endpoint: Endpoint, api_key: int, version: int, body: Any) -> Any:
        """Ask one broker, once.

        Raises:
            ClosedError: nobody knows what became of it.
            NotNowError: nobody is there.
        """
        client = self._clients.get(endpoint)
        if client is None:
            try:
                client = self._clients[endpoint] = Client(endpoint, self._timeout_s)
            except ClosedError as error:
                raise NotNowError(f"{endpoint}: {error}") from error
        try:
            return client.ask(api_key, version, body)
        except ClosedError:
            self.hang_up(endpoint)
            raise

    def ask_any(self, api_key: int, version: int, body: Any) -> Any:
        """Ask one broker after the other until one answers; for what may be asked many times.

        Raises:
            NotNowError: none answers.
        """
        places = self._places()
        reason = "there is no broker"
        for _ in places:
            place = places[self._turn % len(places)]
            try:
                return self.ask(place, api_key, version, body)
            except (ClosedError, NotNowError) as error:
                self._turn += 1
                reason = str(error)
        raise NotNowError(reason)

    def ask_once(self, api_key: int, version: int, body: Any) -> Any:
        """Ask some broker, once; another one the next time, if this one does not answer.

        Raises:
            ClosedError: nobody knows what became of it.
            NotNowError: nobody is there.
        """
        places = self._places()
        try:
            return self.ask(places[self._turn % len(places)], api_key, version, body)
        except (ClosedError, NotNowError):
            self._turn += 1
            raise

    def _places(self) -> list[Endpoint]:
        return [*self._bootstrap, *set(self._endpoints.values()) - set(self._bootstrap)]

    def learn(self, topics: Sequence[str]) -> Mapping[str, MetadataResponseTopic]:
        """Return what some broker says of topics now, by name; it may be behind.

        Raises:
            NotNowError: none answers.
        """
        asked = [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer: MetadataResponse = self.ask_any(ApiKey.METADATA, METADATA_VERSION, request)
        self._endpoints = {b.node_id: Endpoint(b.host, b.port) for b in answer.brokers}
        found = {topic.name or "": topic for topic in answer.topics}
        for name in topics:
            self._topics.pop(name, None)
            if name in found and found[name].error_code == ErrorCode.NONE:
                self._topics[name] = found[name]
        return found

    def broker_ids(self) -> list[int]:
        """Return the brokers that the last metadata named."""
        return sorted(self._endpoints)

    def brokers(self) -> Mapping[int, Endpoint]:
        """Return the brokers that the last metadata named, by their ids."""
        return dict(self._endpoints)

    def leader(self, where: TopicPartition) -> Endpoint:
        """Return who led a partition by the last metadata, which is asked for if need be.

        Raises:
            NotNowError: nobody did.
        """
        leader_id = self.leader_id(where)  # which may learn of other endpoints
        return self._endpoints[leader_id]

    def leader_id(self, where: TopicPartition) -> int:
        """Return the id of who led a partition, as :meth:`leader`."""
        if where.topic not in self._topics:
            self.learn([where.topic])
        topic = self._topics.get(where.topic)
        leader_id = None if topic is None else self._newest.leader_id(topic, where.partition)
        if leader_id is not None and leader_id in self._endpoints:
            return leader_id
        self.forget(where.topic)  # and ask another one the next time
        raise NotNowError(f"nobody leads {where}")

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic had by the last metadata."""
        return len(self._topics[topic].partitions) if topic in self._topics else 0

    def forget(self, topic: str) -> None:
        """Doubt what the last metadata said of a topic."""
        self._topics.pop(topic, None)
        self._turn += 1

    def coordinator(self, group: str) -> Endpoint:
        """Return who coordinates a group, as some broker says.

        Raises:
            NotNowError: nobody does.
        """
        request = FindCoordinatorRequest(key=group, key_type=0)
        answer = self.ask_any(ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, request)
        if answer.error_code != ErrorCode.NONE:
            self._turn += 1
            raise NotNowError(f"no coordinator: {known_code(answer.error_code).name}")
        return Endpoint(answer.host, answer.port)

    def hang_up(self, endpoint: Endpoint) -> None:
        """Close the connection to a broker, if there is one."""
        client = self._clients.pop(endpoint, None)
        if client is not None:
            client.close()

    def close(self) -> None:
        """Close all connections."""
        for endpoint in list(self._clients):
            self.hang_up(endpoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
