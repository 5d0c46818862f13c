"""Topics are made, widened, moved and deleted at random: both brokers tell the same.

What differs on purpose is in ``differs``; whatever else does fails the test with its seed, the
request and both answers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.metadata import (
    Cursor,
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from quorate.protocol.messages.placement import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from quorate.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.compat.asking import Session
from tests.compat.telling import Difference
from tests.compat.twins import Asked, Make, Side, Told, Twins, alike

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Quorate")]

STEPS: Final = 150
NODE_ID: Final = 1
NODES: Final[tuple[list[int], ...]] = (
    [NODE_ID],
    [NODE_ID],
    [NODE_ID],
    [7],
    [NODE_ID, 7],
    [NODE_ID] * 2,
    [],
    [-1],
)
CONFIGS: Final = (
    ("retention.ms", "5"), ("retention.ms", None), ("retention.ms", "x"), ("nonsense", "1"),
    ("cleanup.policy", "compact"), ("max.message.bytes", "-1"), ("", ""),
)  # fmt: skip
TIMEOUT_MS: Final = 10_000
ZERO: Final = bytes(16)
NAME_MAX: Final = 249
CLUSTERS_OWN: Final = "min.insync.replicas"
"""What Kafka with eligible leader replicas sets for all brokers in the beginning."""
FAULTS: Final = frozenset({"INVALID_REQUEST", "INVALID_REPLICA_ASSIGNMENT", "INVALID_CONFIG"})
"""What is found by who translates the request, before the controller looks for other faults."""


class Topics(Session):
    """Asks about topics of its own, of which the names are nearly alike."""

    def __init__(self, twins: Twins, topics: Sequence[str], seed: int) -> None:
        super().__init__(twins, topics, seed)
        stamp = f"{self.stamp}"
        odd = ["", ".", "..", "a b", "é", stamp.rjust(NAME_MAX + 1, "x"), "__cluster_metadata"]
        self.own = [f"{name}{stamp}" for name in ("t.", "t_", "t-", "u", "v.w_", "v_w.")]
        self.own += [stamp.rjust(NAME_MAX, "x"), f"none{stamp}"]
        self.names = [*self.own * 4, *odd]

    def differences(self, asked: Asked, told: Told) -> list[Difference]:
        found = super().differences(asked, told)
        return [d for d in found if not differs(d, asked, told)]

    def name(self) -> str:
        return self.rng.choice(self.names)

    def some(self, count: Sequence[int] = (1, 1, 1, 2, 3)) -> list[str]:
        return [self.name() for _ in range(self.rng.choice(count))]

    # --- what is asked ---------------------------------------------------------

    def create(self) -> None:
        # Kafka does not see that two of one request would collide in metrics.
        names = {name.replace(".", "_"): name for name in self.some()}
        twice = [*names.values(), *names.values()] if self.rng.random() < 0.03 else names.values()
        body = CreateTopicsRequest(
            topics=[self.new_topic(name) for name in twice],
            timeout_ms=TIMEOUT_MS,
            validate_only=self.rng.random() < 0.2,
        )
        version = self.rng.randrange(2, 8)
        told = self.twins.ask(ApiKey.CREATE_TOPICS, version, alike(body))
        for kafka, ours in zip(told.kafka["topics"], told.ours["topics"], strict=False):
            self.same_configs(kafka, ours)
            if ZERO not in (kafka["topic_id"], ours["topic_id"]):
                kafka["topic_id"] = ours["topic_id"]
        self.compare(Asked(ApiKey.CREATE_TOPICS, version, alike(body)), told)
        self.learn()

    @staticmethod
    def same_configs(kafka: Any, ours: Any) -> None:
        """Leave out properties that only one of them has."""
        both = {c["name"] for c in kafka["configs"]} & {c["name"] for c in ours["configs"]}
        for one in (kafka, ours):
            one["configs"] = [
                c for c in one["configs"] if c["name"] in both and c["name"] != CLUSTERS_OWN
            ]

    def new_topic(self, name: str) -> CreatableTopic:
        rng = self.rng
        configs = [rng.choice(CONFIGS)] if rng.random() < 0.3 else []
        if rng.random() < 0.02:
            configs = configs * 2
        numbers = (rng.choice([1, 2, 3, -1, -1, 0, -2]), rng.choice([1, 1, 1, -1, -1, 0, 2, -2]))
        assignments: list[CreatableReplicaAssignment] = []
        if rng.random() < 0.3:
            numbers = rng.choice([(-1, -1), (-1, -1), (-1, -1), (-1, -1), (1, -1), (-1, 1)])
            places = rng.choice([[0], [0, 1], [1, 0], [1], [0, 0], [0, 2], [-1]])
            assignments = [
                CreatableReplicaAssignment(partition_index=place, broker_ids=rng.choice(NODES))
                for place in places
            ]
        return CreatableTopic(
            name=name,
            num_partitions=numbers[0],
            replication_factor=numbers[1],
            assignments=assignments,
            configs=[CreatableTopicConfig(name=n, value=v) for n, v in configs],
        )

    def learn(self) -> None:
        """Name the ids of topics alike."""
        for name in self.own:
            told = [side.wires[0].topic(name) for side in self.twins.sides]
            if all(not one.error_code for one in told):
                for side, one in zip(self.twins.sides, told, strict=True):
                    side.name(f"id of {name}", one.topic_id)

    def places(self) -> list[CreatePartitionsAssignment]:
        return [
            CreatePartitionsAssignment(broker_ids=self.rng.choice(NODES))
            for _ in range(self.rng.choice([1, 1, 2]))
        ]

    def widen(self) -> None:
        rng = self.rng
        topics = [
            CreatePartitionsTopic(
                name=name,
                count=rng.choice([1, 2, 3, 4, 5, 6, 0, -1]),
                assignments=rng.choice([None, None, None, [], self.places(), self.places()]),
            )
            for name in self.some()
        ]
        body = CreatePartitionsRequest(
            topics=topics, timeout_ms=TIMEOUT_MS, validate_only=rng.random() < 0.2
        )
        self.ask(ApiKey.CREATE_PARTITIONS, rng.randrange(4), alike(body))

    def delete(self) -> None:
        rng, names, version = self.rng, self.some((1, 1, 1, 1, 2)), self.rng.randrange(1, 7)
        named = [rng.choice(["name", "name", "id", "id", "both", "neither"]) for _ in names]

        def make(side: Side) -> DeleteTopicsRequest:
            ids = [side.values.get(f"id of {name}", b"\7" * 16) for name in names]
            states = [
                DeleteTopicState(
                    name=name if how in ("name", "both") else None,
                    topic_id=topic_id if how in ("id", "both") else ZERO,
                )
                for name, topic_id, how in zip(names, ids, named, strict=True)
            ]
            return DeleteTopicsRequest(topics=states, topic_names=names, timeout_ms=TIMEOUT_MS)

        self.ask(ApiKey.DELETE_TOPICS, version, make)

    def move(self) -> None:
        rng = self.rng
        topics = [
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(
                        partition_index=index, replicas=rng.choice([*NODES, None, None])
                    )
                    for index in rng.sample([0, 1, 2, 9, -1], rng.choice([1, 1, 1, 2]))
                ],
            )
            for name in dict.fromkeys(self.some())
        ]
        body = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS,
            allow_replication_factor_change=rng.random() < 0.7,
            topics=topics,
        )
        self.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, rng.randrange(2), alike(body))

    def list_moves(self) -> None:
        rng = self.rng
        topics = [
            ListPartitionReassignmentsTopics(
                name=name, partition_indexes=rng.choice([[0], [0, 0], [], [9]])
            )
            for name in self.some()
        ]
        body = ListPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=rng.choice([topics, topics, None])
        )
        self.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, alike(body))

    def elect(self) -> None:
        rng = self.rng
        topics = [
            TopicPartitions(topic=name, partitions=rng.choice([[0], [0, 1], [9], [-1]]))
            for name in dict.fromkeys(self.some())
        ]
        version = rng.randrange(3)
        kind = rng.choice([0, 0, 1, 1, 2, -1]) if version else 0
        body = ElectLeadersRequest(
            election_type=kind, topic_partitions=topics, timeout_ms=TIMEOUT_MS
        )
        self.ask(ApiKey.ELECT_LEADERS, version, alike(body))

    def describe_cluster(self) -> None:
        rng, version = self.rng, self.rng.randrange(3)
        body = DescribeClusterRequest(
            include_cluster_authorized_operations=rng.random() < 0.5,
            endpoint_type=rng.choice([1, 1, 2, 3, 0, -1]) if version else 1,
            include_fenced_brokers=rng.random() < 0.5 if version > 1 else False,
        )
        told = self.twins.ask(ApiKey.DESCRIBE_CLUSTER, version, alike(body))
        for one in told:
            one["cluster_id"] = bool(one["cluster_id"])
            for node in one["brokers"]:
                node["port"] = 0
        self.compare(Asked(ApiKey.DESCRIBE_CLUSTER, version, alike(body)), told)

    def describe_pages(self) -> None:
        rng = self.rng
        cursor = Cursor(topic_name=self.name(), partition_index=rng.choice([0, 0, 1, 2, 9, -1]))
        body = DescribeTopicPartitionsRequest(
            topics=[
                DescribeTopicPartitionsTopicRequest(name=name) for name in self.some((1, 2, 3, 4))
            ],
            response_partition_limit=rng.choice([1, 2, 3, 4, 2000, 0, -1]),
            cursor=rng.choice([None, None, cursor]),
        )
        self.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, alike(body))

    def describe(self) -> None:
        rng, names, version = self.rng, self.some((1, 1, 2)), self.rng.randrange(0, 14)
        by_id = version >= 12 and rng.random() < 0.5
        operations = version >= 8 and rng.random() < 0.5
        make: Make = lambda side: MetadataRequest(  # noqa: E731
            topics=[
                MetadataRequestTopic(
                    name=None if by_id else name,
                    topic_id=side.values.get(f"id of {name}", b"\7" * 16) if by_id else ZERO,
                )
                for name in names
            ],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=operations,
        )
        if version < 4:
            return
        told = self.twins.ask(ApiKey.METADATA, version, make)
        for one in told:
            one["cluster_id"] = bool(one["cluster_id"])
            for node in one["brokers"]:
                node["port"] = 0
        self.compare(Asked(ApiKey.METADATA, version, make), told)

    def steps(self) -> list[Callable[[], None]]:
        return [
            *[self.create] * 6, *[self.widen] * 4, *[self.delete] * 3, *[self.move] * 3,
            self.list_moves, *[self.elect] * 2, self.describe_cluster, *[self.describe_pages] * 3,
            *[self.describe] * 2,
        ]  # fmt: skip


def differs(difference: Difference, asked: Asked, told: Told) -> bool:
    """Whether Quorate differs there on purpose, or in what nobody can rely on."""
    kafka, ours = difference.kafka, difference.ours
    match asked.api_key:
        case ApiKey.CREATE_TOPICS:  # of several faults another one is told
            return "NONE" not in (kafka, ours) and not {kafka, ours}.isdisjoint(FAULTS)
        case ApiKey.DESCRIBE_TOPIC_PARTITIONS:  # of Kafka, if a name is none that topics may have
            codes = {topic["error_code"] for topic in told.kafka["topics"]}
            return "UNKNOWN_SERVER_ERROR" in codes
        case ApiKey.DELETE_TOPICS:  # of a topic that is named twice
            return difference.path.endswith(".topic_id") and ZERO in (kafka, ours)
        case ApiKey.METADATA:  # of a topic without a name
            return difference.path.endswith(".topic_authorized_operations") and not all(
                topic["name"] for topic in told.kafka["topics"]
            )
        case _:
            return False


@pytest.mark.feature("random requests about topics, right and wrong ones: told what Kafka tells")
@pytest.mark.parametrize("seed", range(3))
def test_both_tell_of_topics_the_same(twins: Twins, seed: int) -> None:
    session = Topics(twins, [], seed)
    for _ in range(STEPS):
        session.rng.choice(session.steps())()
