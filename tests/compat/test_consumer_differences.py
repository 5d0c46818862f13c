"""Members of groups of the new protocol (KIP-848) ask at random: both brokers tell the same.

What differs on purpose is left out or in ``expected``; whatever else does fails the test with its
seed, the request and both answers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.consumer_protocol import (
    Subscription,
    decode_assignment,
    encode_subscription,
)
from quorate.protocol.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from quorate.protocol.messages.groups import (
    DeleteGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.compat.asking import MISSING, Session, new_topics
from tests.compat.clients.ours import Ours
from tests.compat.serving import Broker
from tests.compat.twins import Asked, Make, Side, Twins, alike

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Quorate")]

STEPS: Final = 100
GROUP_TYPE: Final = 32
SETTINGS: Final = {"consumer.session.timeout.ms": "45000", "consumer.assignment.interval.ms": "0"}
JOINING: Final = 0
LEAVING: Final = -1
AWAY: Final = -2
Owned = dict[str, list[int]]
CLASSIC: Final = 0
NEW: Final = 1
EPOCHS: Final = frozenset({"generation_id", "member_epoch", "group_epoch", "assignment_epoch"})


class Members(Session):
    """Members of the new protocol.

    Kafka's groups begin with another epoch than ours: epochs are compared from there on.
    """

    def __init__(self, twins: Twins, topics: Sequence[str], seed: int) -> None:
        super().__init__(twins, topics, seed)
        self.groups = self.groups[:2]
        self.pool = {group: [f"m{n}-{group}" for n in range(4)] for group in self.groups}
        self.epochs: dict[str, int] = {}
        """The last epoch that each member was told."""
        self.owned: dict[str, Owned] = {}
        """What each member was told to read."""
        self.instances: dict[str, str] = {}
        self.classic: dict[str, list[str]] = {}
        self.ahead: dict[str, int] = {}
        """How much larger Kafka's epochs of a group are than ours."""

    def begin(self) -> None:
        configs = [IncrementalAlterableConfig(name=n, value=v) for n, v in SETTINGS.items()]
        body = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsResource(
                    resource_type=GROUP_TYPE, resource_name=group, configs=configs
                )
                for group in self.groups
            ]
        )
        self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, alike(body))

    def epoch_for(self, side: Side, group: str, epoch: int) -> int:
        """Return what an epoch of ours is called on a side."""
        ahead = self.ahead.get(group, 0) if side is self.twins.kafka else 0
        return epoch + ahead if epoch > 0 else epoch

    def heartbeat(self, version: int, group: str, make: Make) -> Any:
        told = self.twins.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, make)
        epochs = [one["member_epoch"] for one in told]
        if min(epochs) > 0 and group not in self.ahead:
            self.ahead[group] = epochs[0] - epochs[1]
        self._translate(told.kafka, group)
        return self.compare(Asked(ApiKey.CONSUMER_GROUP_HEARTBEAT, version, make), told)

    def _translate(self, told: dict[str, Any], group: str) -> None:
        """Have epochs of Kafka be called what they are called here."""
        for name in told.keys() & EPOCHS:
            told[name] -= self.ahead.get(group, 0) if told[name] > 0 else 0

    def member(self, group: str) -> str:
        return self.rng.choice([*self.pool.get(group, ["nobody"]) * 4, "nobody"])

    # --- heartbeats ------------------------------------------------------------

    def beat_as(
        self,
        group: str,
        member: str,
        epoch: int,
        owned: Owned | None,
        version: int = 1,
        **said: Any,
    ) -> Any:
        def make(side: Side) -> ConsumerGroupHeartbeatRequest:
            partitions = None
            if owned is not None:
                partitions = [
                    ConsumerGroupHeartbeatTopicPartitions(
                        topic_id=side.values.get(topic, b"\7" * 16), partitions=numbers
                    )
                    for topic, numbers in owned.items()
                ]
            return ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=member,
                member_epoch=self.epoch_for(side, group, epoch),
                topic_partitions=partitions,
                **said,
            )

        told = self.heartbeat(version, group, make)
        if told["error_code"] == "NONE":
            self.heard(member, epoch, told)
        return told

    def heard(self, member: str, epoch: int, told: Any) -> None:
        if epoch < 0:
            return
        self.epochs[member] = told["member_epoch"]
        if told["assignment"] is not None:
            self.owned[member] = {
                each["topic_id"]: each["partitions"]
                for each in told["assignment"]["topic_partitions"]
            }

    def subscription(self) -> list[str]:
        """Return what a member reads: Kafka also gives partitions to one that reads nothing."""
        one, other = self.topics
        return self.rng.choice(
            [
                [one],
                [one, other],
                [one, other],
                [other],
                [MISSING],
                [one, other, MISSING],
                [one, one],
            ]
        )

    def join(self) -> None:
        rng, group = self.rng, self.rng.choice(self.groups)
        member = self.member(group)
        instance = rng.choice([None, None, None, "a", "b", ""])
        if member in self.epochs or member in self.instances:
            instance = self.instances.get(member)  # which nobody changes
        if instance and (member, instance) in self.present(group):
            return  # UNRELEASED_INSTANCE_ID of Kafka
        said: dict[str, Any] = {
            "rebalance_timeout_ms": rng.choice([60_000] * 12 + [-1]),
            "subscribed_topic_names": rng.choice([self.subscription()] * 12 + [None]),
            "server_assignor": rng.choice(["range"] * 12 + ["x", ""]),
            "instance_id": instance,
            "subscribed_topic_regex": rng.choice([None] * 16 + ["("]),
            "rack_id": rng.choice([None] * 10 + ["", "r"]),
        }
        nothing: Owned = {}
        owned = rng.choice([nothing] * 12 + [None, {f"id of {self.topics[0]}": [0]}])
        told = self.beat_as(group, member, JOINING, owned, **said)
        if told["error_code"] == "NONE":
            self.instances.pop(member, None)
            if instance:
                self.instances[member] = instance

    def known(self, group: str) -> list[str]:
        return [m for m in self.pool[group] if m in self.epochs]

    def beat(self) -> None:
        rng, group = self.rng, self.rng.choice(self.groups)
        member = self.member(group)
        epoch = self.epochs.get(member, 1) + rng.choice([0] * 8 + [-1, -1, 1, -2])
        if epoch <= 0:
            epoch = 5
        told = self.owned.get(member, {})
        foreign: Owned = {f"id of {self.topics[1]}": [0, 9]}
        nothing: Owned = {}
        choices = [None, told, told, told, self.fewer(told), nothing, foreign]
        owned = rng.choice(choices)
        names = rng.choice([None] * 6 + [self.subscription()])
        instance = rng.choice([self.instances.get(member)] * 8 + [None, "a", "b", "c"])
        self.beat_as(
            group,
            member,
            epoch,
            owned,
            instance_id=instance,
            subscribed_topic_names=names,
            rebalance_timeout_ms=rng.choice([-1, -1, -1, 60_000]),
            server_assignor=rng.choice([None, None, None, "range", "x"]),
        )

    def fewer(self, owned: Owned) -> Owned:
        return {topic: numbers[1:] for topic, numbers in owned.items() if self.rng.random() < 0.7}

    def reconcile(self) -> None:
        """Have all members of a group do what they are told, for a while."""
        group = self.rng.choice(self.groups)
        for _ in range(self.rng.choice([1, 2, 3])):
            for member in self.known(group):
                instance = self.instances.get(member)
                owned = self.owned.get(member)
                self.beat_as(group, member, self.epochs[member], owned, instance_id=instance)

    def leave(self) -> None:
        rng, group = self.rng, self.rng.choice(self.groups)
        member = self.member(group)
        instance = rng.choice([self.instances.get(member)] * 8 + [None, "a", "b", "c"])
        kinds = self.kinds(group)
        epoch = rng.choice([LEAVING, AWAY]) if instance else rng.choice([LEAVING] * 6 + [AWAY, -3])
        told = self.beat_as(group, member, epoch, rng.choice([None, {}]), instance_id=instance)
        if told["error_code"] == "NONE" and epoch == LEAVING:
            self.instances.pop(member, None)
        if told["error_code"] == "NONE":
            self.epochs.pop(member, None)
            kinds.pop(member, None)
            if CLASSIC in kinds.values() and NEW not in kinds.values():
                self.give_up(group)

    # --- members of the classic protocol, in groups of the new one ---------------

    def described(self, group: str) -> dict[str, Any]:
        body = ConsumerGroupDescribeRequest(group_ids=[group])
        told = self.twins.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, alike(body))
        described: dict[str, Any] = told.kafka["groups"][0]
        return described

    def members_of(self, group: str) -> list[dict[str, Any]]:
        members: list[dict[str, Any]] = self.described(group)["members"]
        return members

    def present(self, group: str) -> set[tuple[str, str]]:
        """Return which static members have not left, and their instance ids."""
        here = [m for m in self.members_of(group) if m["member_epoch"] != AWAY]
        return {(m["member_id"], m["instance_id"]) for m in here}

    def is_assignment_due(self, group: str) -> bool:
        return bool(self.described(group)["group_state"] == "Assigning")

    def kinds(self, group: str) -> dict[str, int]:
        """Return of which protocol each member of a group is."""
        return {m["member_id"]: m["member_type"] for m in self.members_of(group)}

    def give_up(self, group: str) -> None:
        """Go on with another group: this one is classic now, and all its members have to join."""
        new = f"{group}-"
        self.groups[self.groups.index(group)] = new
        self.pool[new] = [f"{member}-" for member in self.pool[group]]
        self.begin()

    def classic_of(self, group: str) -> str:
        return self.rng.choice([*self.classic.get(group, [])[-3:], "no classic"])

    def join_classic(self) -> None:
        rng, group, version = self.rng, self.rng.choice(self.groups), self.rng.randrange(5, 10)
        instance = rng.choice(["c", "c", "d", "d", "a"])
        others = [m for m in self.members_of(group) if m["instance_id"] != instance]
        if NEW not in [m["member_type"] for m in others]:
            return  # it is, or becomes, a classic group
        member = rng.choice(["", "", self.classic_of(group)])
        names = rng.choice([["range"]] * 6 + [["range", "sticky"], ["x"], []])
        owned = tuple(
            TopicPartition(topic.removeprefix("id of "), number)
            for topic, numbers in self.owned.get(member, {}).items()
            for number in numbers
        )
        metadata = encode_subscription(Subscription(tuple(self.subscription()), owned))
        fields: dict[str, Any] = {
            "group_id": group,
            "group_instance_id": instance,
            "session_timeout_ms": rng.choice([30_000] * 12 + [0, 10**8]),
            "rebalance_timeout_ms": 60_000,
            "protocol_type": rng.choice(["consumer"] * 12 + ["connect", ""]),
            "protocols": [JoinGroupRequestProtocol(name=n, metadata=metadata) for n in names],
        }

        def make(side: Side) -> JoinGroupRequest:
            return JoinGroupRequest(member_id=side.of(member), **fields)

        told = self.classic_asked(ApiKey.JOIN_GROUP, version, group, make, "member_id")
        known = self.classic.setdefault(group, [])
        if told["member_id"].startswith("member_id#") and told["member_id"] not in known:
            known.append(told["member_id"])
        if told["error_code"] == "NONE":
            self.epochs[told["member_id"]] = told["generation_id"]

    def classic_asked(
        self, api_key: ApiKey, version: int, group: str, make: Make, *names: str
    ) -> Any:
        told = self.twins.ask(api_key, version, make, *names)
        self._translate(told.kafka, group)
        for one in told:
            if "leader" in one and one["error_code"] not in ("NONE", "MEMBER_ID_REQUIRED"):
                one["member_id"] = ""  # which Kafka does not always repeat
            if one.get("assignment"):
                one["assignment"] = sorted(decode_assignment(one["assignment"]))
        return self.compare(Asked(api_key, version, make), told)

    def generation_of(self, member: str) -> int:
        return self.epochs.get(member, 1) + self.rng.choice([0] * 8 + [1, -1])

    def sync_classic(self) -> None:
        rng, group, version = self.rng, self.rng.choice(self.groups), self.rng.randrange(6)
        member = self.classic_of(group)
        generation = self.generation_of(member)
        if NEW not in self.kinds(group).values():
            return
        name, kind = (
            rng.choice(["range"] * 8 + ["x", None]),
            rng.choice(["consumer"] * 8 + [None, "x"]),
        )

        def make(side: Side) -> SyncGroupRequest:
            return SyncGroupRequest(
                group_id=group,
                member_id=side.of(member),
                generation_id=self.epoch_for(side, group, generation),
                protocol_name=name,
                protocol_type=kind,
            )

        told = self.classic_asked(ApiKey.SYNC_GROUP, version, group, make)
        if told["error_code"] == "NONE" and told["assignment"]:
            owned: Owned = {}
            for topic, number in told["assignment"]:
                owned.setdefault(f"id of {topic}", []).append(number)
            self.owned[member] = owned

    def beat_classic(self) -> None:
        group, version = self.rng.choice(self.groups), self.rng.randrange(5)
        member = self.classic_of(group)
        generation = self.generation_of(member)

        def make(side: Side) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=group,
                member_id=side.of(member),
                generation_id=self.epoch_for(side, group, generation),
            )

        told = self.twins.ask(ApiKey.HEARTBEAT, version, make)
        if told.kafka["error_code"] == "NONE" and self.is_assignment_due(group):
            return  # with Kafka another member has to have it made first
        self.compare(Asked(ApiKey.HEARTBEAT, version, make), told)

    def leave_classic(self) -> None:
        group, version = self.rng.choice(self.groups), self.rng.randrange(6)
        member = self.classic_of(group)

        def make(side: Side) -> LeaveGroupRequest:
            identity = MemberIdentity(member_id=side.of(member))
            return LeaveGroupRequest(group_id=group, member_id=side.of(member), members=[identity])

        self.classic_asked(ApiKey.LEAVE_GROUP, version, group, make)

    # --- offsets and descriptions ----------------------------------------------

    def commit(self) -> None:
        rng, group, version = self.rng, self.rng.choice(self.groups), self.rng.randrange(2, 11)
        member = rng.choice([self.member(group), self.member(group), ""])
        epoch = rng.choice([self.epochs.get(member, 1)] * 6 + [-1, 0, 1, 2, 99]) + rng.choice(
            [0, 0, 0, -1]
        )
        instance = rng.choice([self.instances.get(member), None, "a"]) if version >= 7 else None
        offsets = {
            topic: OffsetCommitRequestPartition(
                partition_index=rng.randrange(3), committed_offset=rng.choice([0, 1, 5])
            )
            for topic in self.some_topics()
        }

        def make(side: Side) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=self.epoch_for(side, group, epoch),
                member_id=member,
                group_instance_id=instance,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic, topic_id=self.topic_id(side, topic), partitions=[offset]
                    )
                    for topic, offset in offsets.items()
                ],
            )

        self.ask(ApiKey.OFFSET_COMMIT, version, make)

    def fetch_as_member(self) -> None:
        rng, group, version = self.rng, self.group(), self.rng.randrange(9, 11)
        member = rng.choice([self.member(group), self.member(group), "", None])
        epoch = rng.choice([self.epochs.get(member or "", 1)] * 6 + [-1, 0, 1, 2, 99])
        if member is None:
            epoch = -1  # else UNKNOWN_SERVER_ERROR of Kafka
        topics = rng.choice([None, self.some_topics()])

        def make(side: Side) -> OffsetFetchRequest:
            wanted = None
            if topics is not None:
                wanted = [
                    OffsetFetchRequestTopics(
                        name=topic, topic_id=self.topic_id(side, topic), partition_indexes=[0, 1, 2]
                    )
                    for topic in topics
                ]
            one = OffsetFetchRequestGroup(
                group_id=group,
                member_id=member,
                member_epoch=self.epoch_for(side, group, epoch),
                topics=wanted,
            )
            return OffsetFetchRequest(groups=[one])

        self.ask(ApiKey.OFFSET_FETCH, version, make)

    def describe(self) -> None:
        body = ConsumerGroupDescribeRequest(
            group_ids=sorted({self.group(), self.rng.choice([*self.groups, ""])}),
            include_authorized_operations=self.rng.random() < 0.3,
        )
        version = self.rng.randrange(2)
        told = self.twins.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, alike(body))
        for group in told.kafka["groups"]:
            for part in (group, *group["members"]):
                self._translate(part, group["group_id"])
        self.compare(Asked(ApiKey.CONSUMER_GROUP_DESCRIBE, version, alike(body)), told)

    def delete(self) -> None:
        group = self.group()
        body = DeleteGroupsRequest(groups_names=[group])
        told = self.ask(ApiKey.DELETE_GROUPS, self.rng.randrange(3), alike(body))
        if told["results"][0]["error_code"] == "NONE":
            self.ahead.pop(group, None)

    def steps(self) -> list[Callable[[], None]]:
        return [
            *[self.join] * 6, *[self.beat] * 6, *[self.reconcile] * 6, *[self.leave] * 2,
            *[self.join_classic] * 4, *[self.sync_classic] * 4, *[self.beat_classic] * 2,
            self.leave_classic, *[self.commit] * 3, *[self.fetch_as_member] * 2,
            *[self.describe] * 3, self.delete_offsets, self.list_groups, self.delete,
            self.fetch_offsets, self.describe_groups,
        ]  # fmt: skip


@pytest.mark.feature("random requests of members of consumer groups: told what Kafka tells")
@pytest.mark.parametrize("seed", range(4))
def test_both_tell_members_of_consumer_groups_the_same(
    twins: Twins, apache_kafka: Broker, broker: Broker, ours: Ours, seed: int
) -> None:
    servers = apache_kafka.server, broker.server
    session = Members(twins, new_topics(twins, servers, ours, "consumers"), seed)
    session.begin()
    for _ in range(STEPS):
        session.rng.choice(session.steps())()
