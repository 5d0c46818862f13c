"""Groups of the new protocol (KIP-848), request by request: the answers that Apache Kafka gives.

Every test runs against Apache Kafka too, so that what it asks for is what Kafka does.
"""

import time
import uuid
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any

import pytest

from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.consumer_protocol import (
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from quorate.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from quorate.protocol.messages.groups import (
    DeleteGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from quorate.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.compat import serving
from tests.compat.clients.model import DEADLINE_S, Server, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.peers import cache, java
from tests.compat.wire import Wire

pytestmark = [pytest.mark.compat, pytest.mark.slow]

PROPERTIES = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.min.session.timeout.ms": "1000",
}
SESSION_S = 1.0
OWNED_NOTHING: list[TopicPartition] = []


@pytest.fixture(params=["Quorate", "Apache Kafka"], scope="module")
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Server]:
    """Both brokers in turn, whose groups are in a hurry."""
    with ExitStack() as stack:
        if request.param == "Quorate":
            node = serving.quorate(PROPERTIES, tmp_path_factory.mktemp("node"))
            yield stack.enter_context(node).server
            return
        try:
            java.kafka_folder()
            cache.program("java")
        except cache.PeerUnavailableError as error:
            pytest.skip(error.reason)
        yield stack.enter_context(serving.kafka(PROPERTIES)).server


class Group:
    """A group and two topics of the test's own, and what members say to them."""

    def __init__(self, wire: Wire, name: str, topics: dict[str, bytes]) -> None:
        self.wire = wire
        self.name = name
        self.topics = topics
        self._names = {topic_id: name for name, topic_id in topics.items()}

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: list[TopicPartition] | None = None,
        *,
        topics: list[str] | None = None,
        version: int = 1,
        **said: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in owned or ():
            by_topic.setdefault(topic, []).append(partition)
        request = ConsumerGroupHeartbeatRequest(
            group_id=said.pop("group_id", self.name),
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=topics,
            topic_partitions=None
            if owned is None
            else [
                ConsumerGroupHeartbeatTopicPartitions(
                    topic_id=self.topics[topic], partitions=numbers
                )
                for topic, numbers in by_topic.items()
            ],
            **said,
        )
        answer: ConsumerGroupHeartbeatResponse = self._asked(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, version, request
        )
        return answer

    def join(self, member_id: str, *topics: str, **said: Any) -> ConsumerGroupHeartbeatResponse:
        said = {"rebalance_timeout_ms": 1_500, "topics": list(topics) or None, **said}
        return self.beat(member_id, 0, OWNED_NOTHING, **said)

    def read(self, answer: ConsumerGroupHeartbeatResponse) -> list[TopicPartition] | None:
        """Return what a member was told to read; None if nothing changed."""
        if answer.assignment is None:
            return None
        return sorted(
            TopicPartition(self._names[each.topic_id], number)
            for each in answer.assignment.topic_partitions
            for number in each.partitions
        )

    def describe(self) -> ConsumerGroupDescribeGroup:
        body = ConsumerGroupDescribeRequest(group_ids=[self.name])
        described: ConsumerGroupDescribeGroup = self._settled(
            lambda: self.wire.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, body).groups[0]
        )
        return described

    def commit(
        self, member_id: str, epoch: int, topic: str, version: int = 9, partition: int = 0
    ) -> str:
        committed = OffsetCommitRequestPartition(partition_index=partition, committed_offset=3)
        body = OffsetCommitRequest(
            group_id=self.name,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[committed])],
        )
        answer = self.wire.ask(ApiKey.OFFSET_COMMIT, version, body)
        return ErrorCode(answer.topics[0].partitions[0].error_code).name

    # --- the classic protocol ------------------------------------------------------

    def join_classic(
        self, *topics: str, member_id: str = "", owned: tuple[TopicPartition, ...] = (), **said: Any
    ) -> JoinGroupResponse:
        subscription = encode_subscription(Subscription(topics, owned))
        body = JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=1_500,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
            **said,
        )
        answer: JoinGroupResponse = self._asked(ApiKey.JOIN_GROUP, 9, body)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return self.join_classic(*topics, member_id=answer.member_id, owned=owned, **said)
        return answer

    def sync_classic(self, joined: JoinGroupResponse) -> tuple[str, tuple[TopicPartition, ...]]:
        body = SyncGroupRequest(
            group_id=self.name,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
        )
        answer = self._asked(ApiKey.SYNC_GROUP, 5, body)
        return ErrorCode(answer.error_code).name, decode_assignment(answer.assignment)

    def beat_classic(self, joined: JoinGroupResponse) -> str:
        body = HeartbeatRequest(
            group_id=self.name, generation_id=joined.generation_id, member_id=joined.member_id
        )
        return error_of(self._asked(ApiKey.HEARTBEAT, 4, body))

    def _asked(self, api_key: ApiKey, version: int, body: Any) -> Any:
        return self._settled(lambda: self.wire.ask(api_key, version, body))

    @staticmethod
    def _settled(ask: Callable[[], Any]) -> Any:
        """Ask, as a client does, until there is a coordinator."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = ask()
            if error_of(answer) not in WAIT_FOR:
                return answer
            assert time.monotonic() < deadline
            time.sleep(0.02)


WAIT_FOR = {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}


@pytest.fixture
def group(target: Server, wire: Wire, topic: str, ours: Ours) -> Group:
    """A group of the test's own, on the broker that the test asks."""
    names = [f"{topic[-100:]}-{letter}".strip("-.") for letter in "ab"]
    for name in names:
        ours.create(target, TopicSpec(name, 4, {}))
    deadline = time.monotonic() + DEADLINE_S
    ids = {name: wire.topic(name) for name in names}
    while any(told.error_code or len(told.partitions) != 4 for told in ids.values()):
        assert time.monotonic() < deadline, "the topics are not there"
        time.sleep(0.01)
        ids = {name: wire.topic(name) for name in names}
    group_id = f"g-{topic[-80:]}"
    body = FindCoordinatorRequest(coordinator_keys=[group_id])
    while wire.ask(ApiKey.FIND_COORDINATOR, 6, body).coordinators[0].error_code:
        assert time.monotonic() < deadline, "there is no coordinator"
        time.sleep(0.02)
    return Group(wire, group_id, {name: told.topic_id for name, told in ids.items()})


@pytest.fixture
def a(group: Group) -> str:
    return next(iter(group.topics))


@pytest.fixture
def b(group: Group) -> str:
    return list(group.topics)[1]


def error_of(answer: Any) -> str:
    return ErrorCode(answer.error_code).name


def eventually(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def all_of(topic: str, count: int = 4) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def new_id() -> str:
    return str(uuid.uuid4())


@pytest.mark.feature("one member reads all; its epoch and when to beat are told")
def test_the_first_member_gets_all(group: Group, a: str) -> None:
    joined = group.join("m1", a)
    assert (error_of(joined), joined.member_id, joined.heartbeat_interval_ms) == ("NONE", "m1", 300)
    epoch = joined.member_epoch
    assert epoch > 0
    assert group.read(joined) == all_of(a)
    quiet = group.beat("m1", epoch)
    assert (error_of(quiet), quiet.member_epoch, quiet.assignment) == ("NONE", epoch, None)
    full = group.beat("m1", epoch, all_of(a), topics=[a], rebalance_timeout_ms=1_500)
    assert group.read(full) == all_of(a)


@pytest.mark.feature("who joins waits for what others give up")
def test_a_partition_moves_once_its_owner_has_given_it_up(group: Group, a: str) -> None:
    epoch = group.join("m1", a).member_epoch
    second = group.join("m2", a)
    assert (second.member_epoch, group.read(second)) == (epoch + 1, [])
    told = group.beat("m1", epoch)
    kept = group.read(told)
    assert kept is not None
    assert (told.member_epoch, len(kept)) == (epoch, 2)
    assert group.read(group.beat("m2", epoch + 1)) is None  # not confirmed yet
    assert group.beat("m1", epoch).member_epoch == epoch
    confirmed = group.beat("m1", epoch, kept)
    assert confirmed.member_epoch == epoch + 1
    released = group.beat("m2", epoch + 1)
    assert group.read(released) == sorted(set(all_of(a)) - set(kept))
    assert group.describe().group_state == "Stable"


@pytest.mark.feature("who leaves leaves its partitions to others")
def test_a_member_leaves(group: Group, a: str) -> None:
    group.join("m1", a)
    epoch = group.join("m2", a).member_epoch
    gone = group.beat("m1", -1)
    assert (error_of(gone), gone.member_id, gone.member_epoch) == ("NONE", "m1", -1)
    told = group.beat("m2", epoch)
    assert (told.member_epoch, group.read(told)) == (epoch + 1, all_of(a))
    assert error_of(group.beat("m1", epoch)) == "UNKNOWN_MEMBER_ID"
    assert error_of(group.beat("m1", -1)) == "UNKNOWN_MEMBER_ID"


@pytest.mark.feature("who is silent is out")
def test_a_silent_member_is_out(group: Group, a: str) -> None:
    epoch = group.join("m1", a).member_epoch
    eventually(lambda: group.describe().group_state == "Empty")
    assert error_of(group.beat("m1", epoch)) == "UNKNOWN_MEMBER_ID"


@pytest.mark.feature("who does not give up in time is out")
def test_a_member_that_gives_nothing_up_is_out_after_its_rebalance_timeout(
    group: Group, a: str
) -> None:
    epoch = group.join("m1", a).member_epoch
    group.join("m2", a)

    def is_out() -> bool:
        assert error_of(group.beat("m2", epoch + 1)) == "NONE"
        return error_of(group.beat("m1", epoch)) == "UNKNOWN_MEMBER_ID"

    eventually(is_out)


@pytest.mark.feature("epochs: fenced ahead and behind, forgiven if the answer was lost")
def test_a_member_at_another_epoch_is_fenced(group: Group, a: str) -> None:
    epoch = group.join("m1", a).member_epoch
    assert error_of(group.beat("m1", epoch + 5)) == "FENCED_MEMBER_EPOCH"
    group.join("m2", a)
    kept = group.read(group.beat("m1", epoch)) or []
    group.beat("m1", epoch, kept)
    repeated = group.beat("m1", epoch, kept)  # the answer was lost
    assert (error_of(repeated), repeated.member_epoch) == ("NONE", epoch + 1)
    assert error_of(group.beat("m1", epoch)) == "FENCED_MEMBER_EPOCH"
    assert error_of(group.beat("m1", epoch, all_of(a))) == "FENCED_MEMBER_EPOCH"
    again = group.join("m1", a)
    assert (error_of(again), group.read(again)) == ("NONE", kept)


@pytest.mark.feature("requests that contradict themselves")
def test_what_contradicts_itself_is_refused(group: Group, a: str) -> None:
    def refused(answer: ConsumerGroupHeartbeatResponse) -> str:
        assert answer.error_message
        return error_of(answer)

    invalid = "INVALID_REQUEST"
    assert refused(group.join("", a)) == invalid
    assert refused(group.join("m", a, group_id="")) == invalid
    assert refused(group.join("m", a, instance_id="")) == invalid
    assert refused(group.join("m", a, rack_id="")) == invalid
    assert refused(group.join("m", a, rebalance_timeout_ms=-1)) == invalid
    assert refused(group.join("m")) == invalid
    assert refused(group.beat("m", 0, all_of(a), topics=[a], rebalance_timeout_ms=1)) == invalid
    assert refused(group.beat("m", 0, topics=[a], rebalance_timeout_ms=1)) == invalid
    assert refused(group.beat("m", -2)) == invalid
    assert refused(group.beat("m", -3)) == invalid
    assert refused(group.join("m", a, server_assignor="mine")) == "UNSUPPORTED_ASSIGNOR"
    assert refused(group.beat("m", 1)) == "GROUP_ID_NOT_FOUND"
    assert refused(group.beat("m", -1)) == "GROUP_ID_NOT_FOUND"


@pytest.mark.feature("version 0: the broker names members")
def test_up_to_version_0_members_are_named_by_the_broker(group: Group, a: str) -> None:
    joined = group.join("", a, version=0)
    assert error_of(joined) == "NONE"
    assert joined.member_id
    assert group.read(joined) == all_of(a)


@pytest.mark.feature("static members: kept for a while, succeeded, fenced")
def test_a_static_member_comes_back_to_what_it_had(group: Group, a: str) -> None:
    epoch = group.join("m1", a, instance_id="i1").member_epoch
    assert error_of(group.join("m2", a, instance_id="i1")) == "UNRELEASED_INSTANCE_ID"
    away = group.beat("m1", -2, instance_id="i1")
    assert (error_of(away), away.member_epoch) == ("NONE", -2)
    assert [m.member_epoch for m in group.describe().members] == [-2]
    back = group.join("m2", a, instance_id="i1")
    assert (error_of(back), back.member_epoch, group.read(back)) == ("NONE", epoch, all_of(a))
    assert error_of(group.beat("m1", epoch, instance_id="i1")) == "FENCED_INSTANCE_ID"
    assert error_of(group.beat("m1", epoch, instance_id="other")) == "UNKNOWN_MEMBER_ID"
    assert error_of(group.beat("m1", epoch)) == "UNKNOWN_MEMBER_ID"
    assert error_of(group.beat("m2", -1, instance_id="i1")) == "NONE"


@pytest.mark.feature("assignors: uniform and range, as most members want")
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_may_choose_an_assignor(group: Group, a: str, b: str, assignor: str) -> None:
    joined = group.join("m1", a, b, server_assignor=assignor)
    epoch = _until_reads(group, "m1", joined, all_of(a) + all_of(b))
    group.join("m2", a, b, server_assignor=assignor)
    kept = group.read(group.beat("m1", epoch)) or []
    assert len(kept) == 4
    assert group.describe().assignor_name == assignor
    if assignor == "range":
        assert {p.partition for p in kept if p.topic == a} == {
            p.partition for p in kept if p.topic == b
        }


@pytest.mark.feature("another subscription takes effect at once")
def test_a_member_subscribes_to_something_else(group: Group, a: str, b: str) -> None:
    epoch = group.join("m1", a).member_epoch
    told = group.beat("m1", epoch, all_of(a), topics=[b])
    assert (told.member_epoch, group.read(told)) == (epoch, [])
    told = group.beat("m1", epoch, [])
    assert told.member_epoch > epoch
    _until_reads(group, "m1", told, all_of(b))


@pytest.mark.feature("topics that do not exist are read once they do")
def test_a_topic_may_come_later(group: Group, target: Server, ours: Ours) -> None:
    name = f"later-{group.name}"
    joined = group.join("m1", name)
    assert (error_of(joined), group.read(joined)) == ("NONE", [])
    ours.create(target, TopicSpec(name, 2, {}))
    told = _until_told(group, "m1", joined.member_epoch)
    assert told.assignment is not None
    (each,) = told.assignment.topic_partitions
    assert sorted(each.partitions) == [0, 1]


@pytest.mark.feature("new partitions, deleted topics")
def test_topics_change(group: Group, a: str, b: str, target: Server, ours: Ours) -> None:
    joined = group.join("m1", a, b)
    epoch = _until_reads(group, "m1", joined, all_of(a) + all_of(b))
    ours.add_partitions(target, a, 6)
    told = _until_told(group, "m1", epoch)
    epoch = _until_reads(group, "m1", told, all_of(a, 6) + all_of(b))
    ours.delete(target, b)
    told = _until_told(group, "m1", epoch)
    assert group.read(told) == all_of(a, 6)
    assert group.beat("m1", epoch, all_of(a, 6)).member_epoch > epoch


def _until_reads(
    group: Group,
    member_id: str,
    told: ConsumerGroupHeartbeatResponse,
    wanted: list[TopicPartition],
) -> int:
    """Beat until the member reads what it is to read: the coordinator may hear of topics late."""
    assert error_of(told) == "NONE"
    while group.read(told) != sorted(wanted):
        told = _until_told(group, member_id, told.member_epoch)
    return told.member_epoch


def _until_told(group: Group, member_id: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
    told: list[ConsumerGroupHeartbeatResponse] = []

    def happens() -> bool:
        told.append(group.beat(member_id, epoch))
        return told[-1].assignment is not None

    eventually(happens)
    return told[-1]


@pytest.mark.feature("regular expressions: matched as a whole, refused if they are none")
def test_a_regular_expression_is_matched_by_the_broker(group: Group, a: str, b: str) -> None:
    joined = group.join("m1", subscribed_topic_regex=f"{a[:-1]}(a|x)")
    assert error_of(joined) == "NONE"
    told = joined if group.read(joined) else _until_told(group, "m1", joined.member_epoch)
    assert group.read(told) == all_of(a)
    (member,) = group.describe().members
    assert (member.subscribed_topic_regex, member.subscribed_topic_names) == (f"{a[:-1]}(a|x)", [])
    for wrong in ("a(", "[", "a**", "*", "(?=a)", "\\", "a{2,1}", "(a)\\1"):
        refused = group.join("m2", subscribed_topic_regex=wrong)
        assert (wrong, error_of(refused)) == (wrong, "INVALID_REGULAR_EXPRESSION")
        assert refused.error_message
    assert error_of(group.beat("m2", 1)) == "UNKNOWN_MEMBER_ID"


@pytest.mark.feature("what a group is: described, listed, deleted once empty")
def test_a_group_is_described(group: Group, a: str) -> None:
    assert error_of(group.describe()) == "GROUP_ID_NOT_FOUND"
    epoch = group.join("m1", a, instance_id="i", rack_id="r").member_epoch
    told = group.describe()
    assert (told.group_state, told.group_epoch, told.assignment_epoch) == ("Stable", epoch, epoch)
    assert told.assignor_name == "uniform"
    (member,) = told.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("m1", "i", "r")
    assert (member.member_epoch, member.client_id, member.client_host) == (
        epoch,
        "wire",
        "/127.0.0.1",
    )
    assert (member.subscribed_topic_names, member.member_type) == ([a], 1)
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_name, assigned.partitions) == (a, [0, 1, 2, 3])
    assert member.target_assignment == member.assignment
    body = ListGroupsRequest(types_filter=["consumer"], states_filter=["stable"])
    listed = {g.group_id: g for g in group.wire.ask(ApiKey.LIST_GROUPS, 5, body).groups}
    told_briefly = listed[group.name]
    assert (told_briefly.group_type, told_briefly.protocol_type, told_briefly.group_state) == (
        "consumer",
        "consumer",
        "Stable",
    )
    delete = DeleteGroupsRequest(groups_names=[group.name])
    (result,) = group.wire.ask(ApiKey.DELETE_GROUPS, 2, delete).results
    assert error_of(result) == "NON_EMPTY_GROUP"
    group.beat("m1", -1, instance_id="i")
    assert group.describe().group_state == "Empty"
    (result,) = group.wire.ask(ApiKey.DELETE_GROUPS, 2, delete).results
    assert error_of(result) == "NONE"
    assert error_of(group.describe()) == "GROUP_ID_NOT_FOUND"


@pytest.mark.feature("commits: by member epoch, STALE_MEMBER_EPOCH")
def test_only_members_commit_at_their_epoch(group: Group, a: str) -> None:
    epoch = group.join("m1", a).member_epoch
    assert group.commit("m1", epoch, a) == "NONE"
    assert group.commit("m1", epoch + 1, a) == "STALE_MEMBER_EPOCH"
    assert group.commit("m9", epoch, a) == "UNKNOWN_MEMBER_ID"
    assert group.commit("", -1, a) == "UNKNOWN_MEMBER_ID"
    assert group.commit("m1", epoch, a, version=8) == "UNSUPPORTED_VERSION"
    group.beat("m1", -1)
    assert group.commit("", -1, a) == "NONE"


@pytest.mark.feature("commits: at the epoch before, of what it had then (KIP-1251)")
def test_members_commit_what_they_had_at_an_older_epoch(group: Group, a: str) -> None:
    before = group.join("m1", a).member_epoch
    group.join("m2", a)
    kept = group.read(group.beat("m1", before))
    assert kept is not None
    assert group.commit("m1", before, a, partition=kept[0].partition) == "NONE"
    (given_up, *_) = sorted(set(all_of(a)) - set(kept))
    assert group.commit("m1", before, a, partition=given_up.partition) == "NONE"
    now = group.beat("m1", before, kept).member_epoch
    assert now == before + 1
    for partition, code in ((kept[0], "NONE"), (given_up, "STALE_MEMBER_EPOCH")):
        assert group.commit("m1", before, a, partition=partition.partition) == code
    assert group.commit("m1", before - 1, a, partition=kept[0].partition) == "STALE_MEMBER_EPOCH"
    group.beat("m2", -1)
    taken = group.read(group.beat("m1", now))
    assert taken == all_of(a)
    assert group.commit("m1", before, a, partition=kept[0].partition) == "NONE"
    assert group.commit("m1", now, a, partition=given_up.partition) == "STALE_MEMBER_EPOCH"


# --- between the protocols ----------------------------------------------------------


@pytest.mark.feature("upgrade: a classic group takes in a member of the new protocol")
def test_a_classic_group_becomes_one_of_the_new_protocol_and_back(group: Group, a: str) -> None:
    first = _alone_in_a_classic_group(group, a)
    new = group.join("m1", a)
    assert (error_of(new), group.read(new)) == ("NONE", [])
    assert group.beat_classic(first) == "REBALANCE_IN_PROGRESS"
    told = group.describe()
    assert sorted(m.member_type for m in told.members) == [0, 1]

    second = group.join_classic(a, member_id=first.member_id)  # eager: it owns nothing now
    assert (error_of(second), second.protocol_type, second.protocol_name) == (
        "NONE",
        "consumer",
        "range",
    )
    code, assigned = group.sync_classic(second)
    assert (code, len(assigned)) == ("NONE", 2)
    rest = _until_told(group, "m1", new.member_epoch)
    assert sorted([*assigned, *(group.read(rest) or ())]) == all_of(a)
    assert group.beat_classic(second) == "NONE"
    assert group.beat_classic(first) == "ILLEGAL_GENERATION"

    assert error_of(group.beat("m1", -1)) == "NONE"
    assert error_of(group.describe()) == "GROUP_ID_NOT_FOUND"  # a classic one again
    code = group.beat_classic(second)
    if code == "ILLEGAL_GENERATION":
        second.generation_id += 1
    third = group.join_classic(a, member_id=second.member_id)
    assert error_of(third) == "NONE"
    assert third.leader == third.member_id


@pytest.mark.feature("upgrade: a cooperative member keeps what it may")
def test_a_cooperative_classic_member_gives_up_only_what_it_must(group: Group, a: str) -> None:
    first = _alone_in_a_classic_group(group, a)
    group.join("m1", a)
    owned = tuple(all_of(a))
    second = group.join_classic(a, member_id=first.member_id, owned=owned)
    assert second.generation_id == first.generation_id  # it is to give two up first
    code, kept = group.sync_classic(second)
    assert (code, len(kept)) == ("NONE", 2)
    assert group.beat_classic(second) == "REBALANCE_IN_PROGRESS"
    third = group.join_classic(a, member_id=first.member_id, owned=kept)
    assert third.generation_id > second.generation_id
    assert group.sync_classic(third) == ("NONE", kept)


@pytest.mark.feature("LeaveGroup takes members of both kinds out")
def test_members_of_both_kinds_may_be_taken_out(group: Group, a: str) -> None:
    first = _alone_in_a_classic_group(group, a)
    group.join("m1", a)
    identities = [MemberIdentity(member_id=m) for m in (first.member_id, "m1", "nobody")]
    body = LeaveGroupRequest(group_id=group.name, members=identities)
    answer = group.wire.ask(ApiKey.LEAVE_GROUP, 5, body)
    assert [error_of(m) for m in answer.members] == ["NONE", "NONE", "UNKNOWN_MEMBER_ID"]
    assert group.describe().group_state == "Empty"


@pytest.mark.feature("an empty group may change its protocol")
def test_an_empty_group_may_be_joined_with_either_protocol(group: Group, a: str) -> None:
    group.join("m1", a)
    group.beat("m1", -1)
    joined = _alone_in_a_classic_group(group, a)
    body = LeaveGroupRequest(
        group_id=group.name, members=[MemberIdentity(member_id=joined.member_id)]
    )
    group.wire.ask(ApiKey.LEAVE_GROUP, 5, body)
    again = group.join("m2", a)
    assert (error_of(again), group.read(again)) == ("NONE", all_of(a))


@pytest.mark.feature("members of other kinds of groups are refused")
def test_who_is_no_consumer_cannot_be_in_a_consumer_group(group: Group, a: str) -> None:
    group.join("m1", a)
    body = JoinGroupRequest(
        group_id=group.name,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=1_000,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    refused = group.wire.ask(ApiKey.JOIN_GROUP, 9, body)
    assert error_of(refused) == "INCONSISTENT_GROUP_PROTOCOL"


def _alone_in_a_classic_group(group: Group, topic: str) -> JoinGroupResponse:
    """Join a classic group, lead it, and take all."""
    joined = group.join_classic(topic)
    assert error_of(joined) == "NONE"
    assignment = SyncGroupRequestAssignment(
        member_id=joined.member_id, assignment=encode_assignment(tuple(all_of(topic)))
    )
    body = SyncGroupRequest(
        group_id=group.name,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[assignment],
    )
    assert error_of(group.wire.ask(ApiKey.SYNC_GROUP, 5, body)) == "NONE"
    return joined
