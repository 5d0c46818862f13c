"""What one seed asks of two brokers about groups: commits, and how groups stand."""

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, Final

from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.groups import (
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.compat.clients.model import DEADLINE_S, Server, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.telling import Difference
from tests.compat.twins import Asked, Make, Side, Told, Twins, alike
from tests.compat.wire import Wire, connected

CONNECTIONS: Final = 8
PARTITIONS: Final = 3
KEPT: Final = 2
"""The partition whose offset keeps a group without members from being forgotten meanwhile."""
MISSING: Final = "missing"
MISSING_ID: Final = b"\7" * 16
SESSION_MS: Final = 30_000
REBALANCE_MS: Final = 60_000
TIMEOUT_MS: Final = 60_000
METADATA_MAX: Final = 4096
NOT_ALIKE: Final = {
    # When the end of a transaction was written, and by which coordinator.
    ApiKey.FETCH: ("crc", "base_timestamp_ms", "max_timestamp_ms", "records"),
    ApiKey.FIND_COORDINATOR: ("port",),
}


def expected(difference: Difference, api_key: ApiKey) -> bool:
    """Whether Quorate differs there on purpose, or in what nobody can rely on."""
    field = difference.path.rpartition(".")[2]
    kafka, ours = difference.kafka, difference.ours
    match api_key, field:
        case ApiKey.PRODUCE, "log_append_time_ms":  # of a repeated batch
            return bool(ours == -1)
        case ApiKey.DESCRIBE_TRANSACTIONS, "transaction_start_time_ms":
            return bool((kafka > 0) == (ours > 0))
        case ApiKey.DESCRIBE_TRANSACTIONS, "producer_id":  # of none
            return (kafka, ours) == (0, -1)
        case ApiKey.LIST_OFFSETS, "leader_epoch":  # of a log without records
            return (kafka, ours) == (0, -1)
        case _:
            return field in NOT_ALIKE.get(api_key, ())


class Session:
    """What one seed asks of both."""

    def __init__(self, twins: Twins, topics: Sequence[str], seed: int) -> None:
        self.twins = twins
        self.topics = topics
        self.seed = seed
        self.rng = Random(seed)
        self.stamp = time.time_ns()
        self.groups = [f"g{number}-{self.stamp}" for number in range(3)]
        self.members: dict[str, list[str]] = {group: ["", "nobody"] for group in self.groups}
        self.generations = dict.fromkeys(self.groups, 0)

    def ask(self, api_key: ApiKey, version: int, make: Make, *names: str) -> Any:
        """Ask both, compare, and return what Kafka said."""
        told = self.twins.ask(api_key, version, make, *names)
        return self.compare(Asked(api_key, version, make), told)

    def differences(self, asked: Asked, told: Told) -> list[Difference]:
        return [d for d in told.differences() if not expected(d, asked.api_key)]

    def compare(self, asked: Asked, told: Told) -> Any:
        found = self.differences(asked, told)
        body = asked.make(self.twins.kafka)
        assert not found, (f"seed {self.seed}", asked.api_key.name, asked.version, body, found)
        return told.kafka

    def settle(self) -> None:
        """Read what has been answered by now to who had to wait."""

    # --- what is asked about ---------------------------------------------------

    def group(self) -> str:
        return self.rng.choice([*self.groups * 6, f"none-{self.stamp}"])

    def member(self, group: str) -> str:
        known = self.members.get(group, ["nobody"])
        return self.rng.choice([*known[-4:], known[0]])

    def generation(self, group: str) -> int:
        return self.generations.get(group, 0) + self.rng.choice([0] * 8 + [-1, 1, -100])

    def instance(self) -> str | None:
        return self.rng.choice([None, None, None, None, None, "a", "b"])

    def some_topics(self) -> list[str]:
        """Return one or two topics; one that is named twice is told once by Kafka."""
        return self.rng.sample([*self.topics, MISSING], self.rng.choice([1, 1, 2]))

    def topic_id(self, side: Side, topic: str) -> bytes:
        told: bytes = MISSING_ID if topic == MISSING else side.of(f"id of {topic}")
        return told

    def metadata(self) -> str | None:
        too_long = "m" * (METADATA_MAX + 1)
        return self.rng.choice([None, "", "x", too_long[1:], too_long])

    # --- groups and their offsets ----------------------------------------------

    def found(self, group: str) -> None:
        """Have a member come and go: what has only been asked for is told as a group by Kafka."""
        state = self.state_of(group)
        if state not in ("Empty", "Dead"):
            return
        joining = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        )
        joined = self.ask(ApiKey.JOIN_GROUP, 3, alike(joining), "member_id")
        leaving: Make = lambda side: LeaveGroupRequest(  # noqa: E731
            group_id=group, member_id=side.of(joined["member_id"])
        )
        self.ask(ApiKey.LEAVE_GROUP, 0, leaving)
        self.generations[group] = joined["generation_id"] + 1
        kept = OffsetCommitRequestPartition(partition_index=KEPT, committed_offset=1)
        topics = [OffsetCommitRequestTopic(name=self.topics[0], partitions=[kept])]
        commit = OffsetCommitRequest(group_id=group, topics=topics)
        self.ask(ApiKey.OFFSET_COMMIT, 8, alike(commit))

    def describe_one(self, group: str) -> Any:
        body = DescribeGroupsRequest(groups=[group])
        return self.ask(ApiKey.DESCRIBE_GROUPS, 5, alike(body))["groups"][0]

    def state_of(self, group: str) -> str:
        return str(self.describe_one(group)["group_state"])

    def commit(self) -> None:
        rng, group, version = self.rng, self.rng.choice(self.groups), self.rng.randrange(2, 11)
        alone = rng.random() < 0.4
        member = rng.choice(["", "", "nobody"]) if alone else self.member(group)
        generation = rng.choice([-1, -1, 0]) if alone else self.generation(group)
        instance = self.instance() if version >= 7 else None
        offsets = {
            topic: OffsetCommitRequestPartition(
                partition_index=rng.randrange(2),
                committed_offset=rng.choice([0, 1, 5, 100, -1]),
                committed_leader_epoch=rng.choice([-1, 0, 3]),
                committed_metadata=self.metadata(),
            )
            for topic in self.some_topics()
        }
        retention_ms = rng.choice([-1, 10**9]) if version < 5 else -1

        def make(side: Side) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=generation,
                member_id=side.of(member),
                group_instance_id=instance,
                retention_time_ms=retention_ms,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic, topic_id=self.topic_id(side, topic), partitions=[offset]
                    )
                    for topic, offset in offsets.items()
                ],
            )

        self.ask(ApiKey.OFFSET_COMMIT, version, make)

    def fetch_offsets(self) -> None:
        rng, version, stable = self.rng, self.rng.randrange(1, 11), self.rng.random() < 0.5
        groups = {self.group() for _ in range(rng.choice([1, 1, 2]) if version >= 8 else 1)}
        asked = {
            group: None
            if version > 1 and rng.random() < 0.4
            else {topic: [rng.choice([0, 1, 7, -1])] for topic in self.some_topics()}
            for group in sorted(groups)
        }
        first, topics = next(iter(asked.items()))

        def of_many(side: Side) -> OffsetFetchRequest:
            told = [
                OffsetFetchRequestGroup(
                    group_id=group,
                    topics=None
                    if wanted is None
                    else [
                        OffsetFetchRequestTopics(
                            name=topic,
                            topic_id=self.topic_id(side, topic),
                            partition_indexes=numbers,
                        )
                        for topic, numbers in wanted.items()
                    ],
                )
                for group, wanted in asked.items()
            ]
            return OffsetFetchRequest(groups=told, require_stable=stable)

        alone = None
        if topics is not None:
            alone = [
                OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
                for topic, numbers in topics.items()
            ]
        one = OffsetFetchRequest(group_id=first, topics=alone, require_stable=stable)
        self.ask(ApiKey.OFFSET_FETCH, version, of_many if version >= 8 else alike(one))

    def delete_offsets(self) -> None:
        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=self.rng.choice([0, 1, 7]))
                ],
            )
            for topic in self.some_topics()
        ]
        group_id = self.rng.choice([self.group(), self.group(), ""])
        body = OffsetDeleteRequest(group_id=group_id, topics=topics)
        self.ask(ApiKey.OFFSET_DELETE, 0, alike(body))

    def describe_groups(self) -> None:
        body = DescribeGroupsRequest(
            groups=sorted({self.group(), self.group()}),
            include_authorized_operations=self.rng.random() < 0.3,
        )
        self.ask(ApiKey.DESCRIBE_GROUPS, self.rng.randrange(7), alike(body))

    def list_groups(self) -> None:
        rng, version = self.rng, self.rng.randrange(6)
        states = [[], [], ["Stable"], ["empty"], ["PreparingRebalance", "Dead"], ["x"], [""]]
        types = [[], [], ["classic"], ["Consumer"], ["x"]]
        body = ListGroupsRequest(
            states_filter=rng.choice(states) if version >= 4 else [],
            types_filter=rng.choice(types) if version >= 5 else [],
        )
        told = self.twins.ask(ApiKey.LIST_GROUPS, version, alike(body))
        for one in told:
            one["groups"] = [group for group in one["groups"] if group["group_id"] in self.groups]
        self.compare(Asked(ApiKey.LIST_GROUPS, version, alike(body)), told)

    def find_coordinators(self) -> None:
        keys = [self.group(), *self.rng.choice([[], ["x", ""]])]
        body = FindCoordinatorRequest(
            key=keys[0], key_type=self.rng.choice([0, 0, 1, 3, -1]), coordinator_keys=keys
        )
        self.ask(ApiKey.FIND_COORDINATOR, self.rng.randrange(7), alike(body))


@contextmanager
def both(kafka: Server, ours: Server) -> Generator[Twins]:
    """Connect to both, on connections for all who may have to wait."""
    with ExitStack() as stack:
        wires = [
            [stack.enter_context(connected(server)) for _ in range(CONNECTIONS)]
            for server in (kafka, ours)
        ]
        twins = Twins(*wires)
        for key_type in (0, 1):
            body = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
            twins.ask(ApiKey.FIND_COORDINATOR, 4, alike(body))
        yield twins


def new_topics(twins: Twins, servers: Sequence[Server], client: Ours, name: str) -> list[str]:
    """Make two topics on both; return their names."""
    topics = [f"{name}-{time.time_ns()}-{number}" for number in range(2)]
    for side, server in zip(twins.sides, servers, strict=True):
        for topic in topics:
            client.create(server, TopicSpec(topic, PARTITIONS, {}))
            wait_for_leaders(side.wires[0], topic)
            side.name(f"id of {topic}", side.wires[0].topic(topic).topic_id)
    return topics


def wait_for_leaders(wire: Wire, topic: str) -> None:
    """Wait until all partitions can be read."""
    deadline = time.monotonic() + DEADLINE_S
    for partition in range(PARTITIONS):
        while wire.fetch(topic, 0, partition=partition).error_code:
            assert time.monotonic() < deadline, "the topic has no leader"
            time.sleep(0.01)
