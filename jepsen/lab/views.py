"""What brokers and controllers say of the cluster, asked over connections that are kept."""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quorate.control import messages as m
from quorate.dataclass import dataclass
from quorate.jepsen.clients.controllers import MaybeDoneError, NotDoneError, QuorumClient
from quorate.jepsen.clients.wire import Client, ClosedError
from quorate.jepsen.lab.cluster import NOBODY, ClusterView, PartitionView, TermView
from quorate.model import Endpoint
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.groups import FindCoordinatorRequest
from quorate.protocol.messages.metadata import MetadataRequest, MetadataResponse
from quorate.protocol.messages.quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)

METADATA_VERSION: Final = 12
COORDINATOR_VERSION: Final = 3
QUORUM_VERSION: Final = 0
QUORUM_TOPIC: Final = "__cluster_metadata"
ANSWER_S_MAX: Final = 1.0
SHORTEST_S: Final = 0.05
SHORT_ID: Final = 8


@dataclass(frozen=True, slots=True)
class BrokerSaid:
    """What one broker says: the brokers that it knows, the controller, the partitions."""

    brokers: Mapping[int, Endpoint]
    controller: int
    partitions: Mapping[str, PartitionView]


class Eyes:
    """Looks at a cluster.  For any number of threads, one after the other.

    State: a connection to each broker that answered, and the first id of each topic: partitions of
    a topic that was made anew are called ``name@<id>-0``, because they are others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[Endpoint, Client] = {}
        self._first_ids: dict[str, bytes] = {}

    def look(self, where: Sequence[Endpoint]) -> list[BrokerSaid]:
        """Return what each of them says that answers within a second."""
        with self._lock:
            asked = [endpoint for endpoint in where if self._ask(endpoint)]
            answers = [self._answer(endpoint) for endpoint in asked]
            return [self._said(answer) for answer in answers if answer is not None]

    def coordinator_of(self, group: str, where: Sequence[Endpoint]) -> int:
        """Return who coordinates a group, as the first says that knows; NOBODY if none does."""
        request = FindCoordinatorRequest(key=group)
        for endpoint in where:
            try:
                with Client(endpoint, ANSWER_S_MAX) as client:
                    said = client.ask(ApiKey.FIND_COORDINATOR, COORDINATOR_VERSION, request)
            except ClosedError:
                continue
            if not said.error_code:
                return int(said.node_id)
        return NOBODY

    def quorum_leader(self, where: Sequence[Endpoint]) -> int:
        """Return which controller leads, as the first broker says that knows; NOBODY if none."""
        partitions = [DescribeQuorumPartitionRequest(partition_index=0)]
        topics = [DescribeQuorumTopicRequest(topic_name=QUORUM_TOPIC, partitions=partitions)]
        for endpoint in where:
            try:
                with Client(endpoint, ANSWER_S_MAX) as client:
                    request = DescribeQuorumRequest(topics=topics)
                    said = client.ask(ApiKey.DESCRIBE_QUORUM, QUORUM_VERSION, request)
            except ClosedError:
                continue
            if not said.error_code and said.topics:
                return int(said.topics[0].partitions[0].leader_id)
        return NOBODY

    def close(self) -> None:
        """Hang up."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _ask(self, endpoint: Endpoint) -> bool:
        try:
            client = self._clients.get(endpoint)
            if client is None:
                client = self._clients[endpoint] = Client(endpoint, ANSWER_S_MAX)
            client.send(ApiKey.METADATA, METADATA_VERSION, MetadataRequest(topics=None))
        except ClosedError:
            self._forget(endpoint)
            return False
        return True

    def _answer(self, endpoint: Endpoint) -> MetadataResponse | None:
        try:
            answer: MetadataResponse = self._clients[endpoint].receive()
        except ClosedError:
            self._forget(endpoint)
            return None
        return answer

    def _forget(self, endpoint: Endpoint) -> None:
        client = self._clients.pop(endpoint, None)
        if client is not None:
            client.close()

    def _said(self, answer: MetadataResponse) -> BrokerSaid:
        partitions: dict[str, PartitionView] = {}
        for topic in answer.topics:
            name = topic.name or ""
            if self._first_ids.setdefault(name, topic.topic_id) != topic.topic_id:
                name = f"{name}@{topic.topic_id.hex()[:SHORT_ID]}"
            for each in topic.partitions:
                partitions[f"{name}-{each.partition_index}"] = PartitionView(
                    each.leader_id,
                    each.leader_epoch,
                    frozenset(each.isr_nodes),
                    tuple(each.replica_nodes),
                )
        brokers = {b.node_id: Endpoint(b.host, b.port) for b in answer.brokers}
        return BrokerSaid(brokers, answer.controller_id, partitions)


def quorum_terms(controllers: Sequence[Endpoint], seconds_max: float) -> tuple[TermView, ...]:
    """Return what those of our controllers say of the quorum that answer in this time."""
    terms: list[TermView] = []
    deadline_s = time.monotonic() + seconds_max
    for place, endpoint in enumerate(controllers):
        rest_s = max(SHORTEST_S, (deadline_s - time.monotonic()) / (len(controllers) - place))
        try:
            with QuorumClient([endpoint], 0) as client:
                answer = client.ask(
                    m.DescribeQuorum(local=True),
                    m.DescribeQuorumAnswer,
                    request_id=b"",
                    timeout_s=rest_s,
                )
        except (NotDoneError, MaybeDoneError):
            continue
        leader = NOBODY if answer.leader_id == m.NO_NODE else answer.leader_id
        terms.append(TermView(answer.node_id, answer.leader_epoch, leader))
    return tuple(terms)


def newest_leader(terms: Iterable[TermView]) -> int:
    """Return which controller leads, as the newest term has it; NOBODY if none says so."""
    led = [said for said in terms if said.leader != NOBODY]
    return max(led, key=lambda said: said.term).leader if led else NOBODY


def merged(
    said: Iterable[BrokerSaid], controller: int, terms: tuple[TermView, ...] = ()
) -> ClusterView:
    """Return one view: of each partition, what those say that know of the newest election."""
    newest: dict[str, PartitionView] = {}
    others: list[tuple[str, PartitionView]] = []
    for view in said:
        for name, state in view.partitions.items():
            if name not in newest or state.leader_epoch > newest[name].leader_epoch:
                newest[name] = state
            elif _is_disputed(newest[name], state):
                others.append((name, state))
    disputed = tuple(each for each in others if _is_disputed(newest[each[0]], each[1]))
    return ClusterView(None if controller == NOBODY else controller, newest, terms, disputed)


def _is_disputed(one: PartitionView, other: PartitionView) -> bool:
    """Whether two say that different brokers lead in the same epoch."""
    led = {one.leader, other.leader}
    return one.leader_epoch == other.leader_epoch and len(led) > 1 and NOBODY not in led


def are_whole(said: Sequence[BrokerSaid], topics: Iterable[str], brokers: int) -> bool:
    """Whether so many brokers agree that all replicas of these topics are in sync, and led."""
    wanted = set(topics)
    views = [
        {name: state for name, state in each.partitions.items() if topic_of(name) in wanted}
        for each in said
    ]
    return (
        len(views) == brokers
        and all(view == views[0] for view in views)
        and {topic_of(name) for name in views[0]} == wanted
        and all(
            state.in_sync == frozenset(state.replicas) and state.leader != NOBODY
            for state in views[0].values()
        )
    )


def topic_of(partition: str) -> str:
    """Return the name of a partition's topic."""
    return partition.rpartition("-")[0]
