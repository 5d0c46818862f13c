"""Members of groups ask at random, rightly and wrongly: both brokers tell the same.

What differs on purpose is left out or in ``expected``; whatever else does fails the test with its
seed, the request and both answers.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.compat.asking import CONNECTIONS, REBALANCE_MS, SESSION_MS, Session, new_topics
from tests.compat.clients.ours import Ours
from tests.compat.serving import Broker
from tests.compat.twins import PATIENCE_S, PAUSE_S, Asked, Side, Told, Twins, alike

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Quorate")]

STEPS: Final = 60


class Groups(Session):
    """Classic members on connections of their own: some wait for others, some are wrong.

    Left out is what Kafka never answers (a member that asks again, or leaves, while it waits), that
    it has all join again when somebody leaves who was only told an id, and whom it lets lead when
    a leader is gone: a group where that is another one is not asked about any more.
    """

    def __init__(self, twins: Twins, topics: Sequence[str], seed: int) -> None:
        super().__init__(twins, topics, seed)
        self.leaders: dict[str, str] = {}
        self.awaited: set[str] = set()
        """Members that were told an id, and have not come back."""

    def settle(self) -> None:
        for _, asked, told in self.twins.answered("member_id"):
            self.take(asked, told)

    def take(self, asked: Asked, told: Told) -> None:
        group = asked.make(self.twins.kafka).group_id
        if group in self.groups and asked.api_key is ApiKey.JOIN_GROUP:
            self.joined(group, asked, told)
        elif group in self.groups:
            self.compare(asked, told)

    def joined(self, group: str, asked: Asked, told: Told) -> None:
        if told.kafka["leader"] and told.kafka["leader"] != told.ours["leader"] != "":
            self.give_up(group)
            return
        answer = self.compare(asked, told)
        member, error = answer["member_id"], answer["error_code"]
        if member.startswith("member_id#") and member not in self.members[group]:
            self.members[group].append(member)
        if error == "MEMBER_ID_REQUIRED":
            self.awaited.add(member)
        elif error == "NONE":
            self.awaited.discard(member)
            self.generations[group], self.leaders[group] = answer["generation_id"], answer["leader"]

    def give_up(self, group: str) -> None:
        new = f"{group}-"
        self.groups[self.groups.index(group)] = new
        self.members[new], self.generations[new] = ["", "nobody"], 0
        self.found(new)

    def busy(self, api_key: ApiKey) -> set[str]:
        """Return whose requests of a kind are waiting."""
        kafka = self.twins.kafka
        waiting = [
            a.make(kafka).member_id for a in self.twins.waiting.values() if a.api_key is api_key
        ]
        return {kafka.symbols.get(member, "") for member in waiting}

    def post(self, group: str, asked: Asked, member: str) -> None:
        """Ask; if others decide when that is answered, on a connection that may wait for them."""
        places = [p for p in range(1, CONNECTIONS) if p not in self.twins.waiting]
        if member and member in self.busy(asked.api_key):
            return
        state = self.state_of(group)
        alone = state in ("Empty", "Dead")
        if asked.api_key is ApiKey.SYNC_GROUP:
            alone = state != "CompletingRebalance" or member == self.leaders.get(group)
        if alone:
            self.take(asked, self.twins.ask(*asked, "member_id"))
        elif places:
            self.twins.post(self.rng.choice(places), asked)
            self.wait_until_both_have_taken(group)
        self.settle()

    def wait_until_both_have_taken(self, group: str) -> None:
        """Wait for the slower one: what comes on another connection may be served before."""
        deadline = time.monotonic() + PATIENCE_S
        asked = Asked(ApiKey.DESCRIBE_GROUPS, 5, alike(DescribeGroupsRequest(groups=[group])))
        while self.differences(asked, self.twins.ask(*asked)) and time.monotonic() < deadline:
            time.sleep(PAUSE_S)

    def join_as(self, group: str, member: str, version: int, **said: Any) -> None:
        fields: dict[str, Any] = {
            "group_id": group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS if version else -1,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"m")],
            **said,
        }

        def make(side: Side) -> JoinGroupRequest:
            return JoinGroupRequest(member_id=side.of(member), **fields)

        self.post(group, Asked(ApiKey.JOIN_GROUP, version, make), member)

    def sync_as(self, group: str, member: str, version: int, **said: Any) -> None:
        known = [other for other in self.members.get(group, []) if other.startswith("member_id#")]
        fields: dict[str, Any] = {
            "group_id": group,
            "generation_id": self.generations.get(group, 0),
            "protocol_type": "consumer",
            "protocol_name": "range",
            **said,
        }

        def make(side: Side) -> SyncGroupRequest:
            assignments = [
                SyncGroupRequestAssignment(member_id=side.of(other), assignment=b"x")
                for other in known
            ]
            return SyncGroupRequest(member_id=side.of(member), assignments=assignments, **fields)

        self.post(group, Asked(ApiKey.SYNC_GROUP, version, make), member)

    # --- what is asked ---------------------------------------------------------

    def join(self) -> None:
        rng, group, version = self.rng, self.rng.choice(self.groups), self.rng.randrange(10)
        member, instance = self.member(group), self.instance() if version >= 5 else None
        if instance and member in self.awaited:
            return  # UNKNOWN_SERVER_ERROR of Kafka
        names = rng.choice([*[["range"]] * 6, ["range", "sticky"], ["sticky", "range"], []])
        self.join_as(
            group,
            member,
            version,
            group_instance_id=instance,
            session_timeout_ms=rng.choice([SESSION_MS] * 12 + [0, 100, -1, 2_000_000]),
            protocol_type=rng.choice(["consumer"] * 12 + ["connect", ""]),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=rng.choice([b"m", b"m", b"n", b""]))
                for name in names
            ],
        )

    def sync(self) -> None:
        rng, group, version = self.rng, self.group(), self.rng.randrange(6)
        self.sync_as(
            group,
            self.member(group),
            version,
            generation_id=self.generation(group),
            group_instance_id=self.instance() if version >= 3 else None,
            protocol_type=rng.choice(["consumer"] * 10 + [None, "connect"]),
            protocol_name=rng.choice(["range"] * 10 + [None, "sticky"]),
        )

    def rebalance(self) -> None:
        """Have all that are there join, some others too, and nearly all of them sync."""
        rng, group, version = self.rng, self.rng.choice(self.groups), self.rng.randrange(3, 10)
        members = self.describe_one(group)["members"]
        joining = [(m["member_id"], m["group_instance_id"]) for m in members]
        joining += [("", rng.choice([None, "a", "b"])) for _ in range(rng.choice([0, 0, 1, 2]))]
        rng.shuffle(joining)
        for member, instance in joining:
            if member in ("", *self.members[group]):
                self.join_as(group, member, max(version, 5), group_instance_id=instance)
        for member in sorted(self.awaited.intersection(self.members[group])):
            self.join_as(group, member, version)
        if group in self.groups and self.state_of(group) == "CompletingRebalance":
            syncing = [m for m in self.members[group][2:] if rng.random() < 0.9]
            rng.shuffle(syncing)
            for member in syncing:
                self.sync_as(group, member, rng.randrange(6))

    def beat(self) -> None:
        group, version = self.group(), self.rng.randrange(5)
        member, generation, instance = self.member(group), self.generation(group), self.instance()

        def make(side: Side) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=group,
                generation_id=generation,
                member_id=side.of(member),
                group_instance_id=instance,
            )

        self.ask(ApiKey.HEARTBEAT, version, make)

    def leave(self) -> None:
        group, version = self.group(), self.rng.randrange(6)
        waiting = self.awaited | self.busy(ApiKey.SYNC_GROUP)
        leavers = [
            (member, self.instance())
            for member in [self.member(group) for _ in range(self.rng.choice([1, 1, 2, 3]))]
            if member not in waiting
        ]
        if not leavers:
            return

        def make(side: Side) -> LeaveGroupRequest:
            identities = [
                MemberIdentity(member_id=side.of(member), group_instance_id=instance)
                for member, instance in leavers
            ]
            first = identities[0].member_id
            return LeaveGroupRequest(group_id=group, member_id=first, members=identities)

        self.ask(ApiKey.LEAVE_GROUP, version, make)

    def delete(self) -> None:
        groups = [self.group(), *self.rng.choice([[], [self.group()]])]
        body = DeleteGroupsRequest(groups_names=groups)
        self.ask(ApiKey.DELETE_GROUPS, self.rng.randrange(3), alike(body))
        for group in set(groups).intersection(self.groups):
            self.found(group)

    def steps(self) -> list[Callable[[], None]]:
        return [
            *[self.rebalance] * 6, *[self.join] * 4, *[self.sync] * 4, *[self.beat] * 3,
            *[self.leave] * 2, *[self.commit] * 4, *[self.fetch_offsets] * 3,
            *[self.describe_groups] * 2, self.delete_offsets, self.list_groups, self.delete,
            self.find_coordinators,
        ]  # fmt: skip


def play(twins: Twins, topics: Sequence[str], seed: int) -> None:
    session = Groups(twins, topics, seed)
    for group in session.groups:
        session.found(group)
    for _ in range(STEPS):
        session.rng.choice(session.steps())()
        session.settle()


@pytest.mark.feature("random requests of members of groups: told what Kafka tells")
@pytest.mark.parametrize("seed", range(3))
def test_both_tell_members_of_groups_the_same(
    twins: Twins, apache_kafka: Broker, broker: Broker, ours: Ours, seed: int
) -> None:
    servers = apache_kafka.server, broker.server
    play(twins, new_topics(twins, servers, ours, "groups"), seed)
