"""Whatever happens in whatever order: no partition is read by two members at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quorate.broker.groups.assigning.values import TopicIdPartition
from quorate.broker.groups.consumer_members import Member
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition
from quorate.promise import Promise
from quorate.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from tests.unit.broker.groups.consumers import SESSION_MS, World

TOPICS = ("a", "b", "c")
REBALANCE_MS = 10 * SESSION_MS
OUT = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
)
CLIENTS = st.integers(0, 4)


@dataclass
class Client:
    """A member as it sees itself: it reads what it was told, once it has given up the rest."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    regex: str | None
    epoch: int = 0
    reading: frozenset[TopicPartition] = frozenset()
    assigned: frozenset[TopicPartition] | None = None
    asked: Promise[ConsumerGroupHeartbeatResponse] | None = None
    said: frozenset[TopicPartition] | None = None
    """What it said last that it reads, since it was told something new: clients say it once more
    then, and when it changes."""
    says_all: bool = False
    """It did not hear the last answer, or an error: it says everything again, and is told."""


class Safety(RuleBasedStateMachine):
    """Members of both protocols, a log that is committed late, coordinators that fail over."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(group_consumer_assignment_interval_ms=0)
        for topic in TOPICS[:2]:
            self.world.set_topic(topic, 3)
        self.clients: dict[int, Client] = {}
        self.names = 0

    # --- members ---------------------------------------------------------------------

    @rule(
        number=CLIENTS,
        topics=st.sets(st.sampled_from(TOPICS), min_size=1),
        regex=st.sampled_from([None, None, "a|c", "[bc]"]),
        static=st.booleans(),
    )
    def comes(self, number: int, topics: set[str], regex: str | None, *, static: bool) -> None:
        if number in self.clients:
            return
        self.names += 1
        instance_id = f"i{number}" if static else None
        names = () if regex else tuple(sorted(topics))
        self.clients[number] = Client(f"m{self.names}", instance_id, names, regex)
        self.beats(number)

    @rule(number=CLIENTS)
    def beats(self, number: int) -> None:
        client = self.clients.get(number)
        if client is None or client.asked is not None:
            return
        try:
            client.asked = self._ask(client)
        except KafkaError as error:
            self._refused(number, error.code)
            return
        client.asked.when_resolved(lambda answer: self._answered(number, client, answer))

    def _ask(self, client: Client) -> Promise[ConsumerGroupHeartbeatResponse]:
        owned: list[TopicPartition] | None = self._owned(client) if client.epoch else []
        said: dict[str, Any] = {"instance_id": client.instance_id}
        if client.epoch == 0 or client.says_all:
            said["rebalance_timeout_ms"] = REBALANCE_MS
            said["topics"] = client.topics
            said["subscribed_topic_regex"] = client.regex
        elif client.reading == client.said:
            owned = None
        client.said = client.reading
        return self.world.asks(client.member_id, client.epoch, owned, **said)

    def _owned(self, client: Client) -> list[TopicPartition]:
        return [p for p in client.reading if p.topic in self.world.image.topics]

    def _answered(
        self, number: int, client: Client, answer: ConsumerGroupHeartbeatResponse
    ) -> None:
        client.asked = None
        if self.clients.get(number) is not client:
            return
        if answer.error_code:
            self._refused(number, ErrorCode(answer.error_code))
            return
        client.epoch = answer.member_epoch
        client.says_all = False
        told = self.world.told(answer) if answer.assignment is not None else None
        if told is not None:
            client.assigned = frozenset(told)
            client.said = None
            # What is new may be read at once; what it has too much it gives up when it likes.
            client.reading |= client.assigned

    def _refused(self, number: int, code: ErrorCode) -> None:
        client = self.clients[number]
        if code in OUT:
            client.epoch, client.reading, client.assigned = 0, frozenset(), None
        elif code is ErrorCode.UNRELEASED_INSTANCE_ID:
            del self.clients[number]
        else:
            assert code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR), code
            client.says_all = True

    @rule(number=CLIENTS)
    def gives_up(self, number: int) -> None:
        client = self.clients.get(number)
        if client is not None and client.assigned is not None:
            client.reading &= client.assigned

    @rule(number=CLIENTS, topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def subscribes(self, number: int, topics: set[str]) -> None:
        client = self.clients.get(number)
        if client is None or client.asked is not None or not client.epoch or client.regex:
            return
        if client.says_all:
            return  # it says everything first
        client.topics = tuple(sorted(topics))
        client.said = client.reading
        try:
            client.asked = self.world.asks(
                client.member_id,
                client.epoch,
                self._owned(client),
                topics=client.topics,
                instance_id=client.instance_id,
            )
        except KafkaError as error:
            self._refused(number, error.code)
            return
        client.asked.when_resolved(lambda answer: self._answered(number, client, answer))

    @rule(number=CLIENTS, epoch=st.sampled_from([-1, -2]))
    def leaves(self, number: int, epoch: int) -> None:
        client = self.clients.get(number)
        if client is None or client.asked is not None or not client.epoch:
            return
        client.reading = frozenset()
        if epoch == -2 and client.instance_id is None:
            epoch = -1
        del self.clients[number]
        try:
            self.world.asks(client.member_id, epoch, instance_id=client.instance_id)
        except KafkaError as error:
            assert error.code in (  # noqa: PT017
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
            )

    @rule(number=CLIENTS)
    def dies(self, number: int) -> None:
        """It is never heard of again; what it reads is not read any more."""
        self.clients.pop(number, None)

    # --- what goes on around them ------------------------------------------------------

    @rule(late=st.booleans())
    def commits(self, *, late: bool) -> None:
        self.world.writer.settle()
        self.world.writer.commits_at_once = not late

    @rule(topic=st.sampled_from(TOPICS), partitions=st.integers(0, 5))
    def topic_changes(self, topic: str, partitions: int) -> None:
        before = self.world.image.topics.get(topic)
        if before is not None and 0 < partitions < len(before.partitions):
            return
        if not partitions:
            for client in self.clients.values():  # nobody reads what is not there any more
                gone = frozenset(p for p in client.reading if p.topic == topic)
                client.reading -= gone
                if client.assigned is not None:
                    client.assigned -= gone
        self.world.set_topic(topic, partitions)

    @rule()
    def silence(self) -> None:
        """Everybody beats, but those who died: their sessions end."""
        for _ in range(3):
            for number in list(self.clients):
                self.beats(number)
            self.world.pass_ms(SESSION_MS // 2)

    @rule(keeps=st.floats(0, 1))
    def fails_over(self, keeps: float) -> None:
        """Another broker goes on with what is committed, and perhaps some of what is not."""
        before = self.world
        committed = before.writer.committed
        ends = [committed, *(end for end in before.writer.ends if end > committed)]
        kept = before.log[: ends[round((len(ends) - 1) * keeps)]]
        self.world = World(kept, before.image, group_consumer_assignment_interval_ms=0)
        before.writer.settle(ErrorCode.NOT_COORDINATOR)

    @precondition(lambda self: self.world.writer.commits_at_once)
    @rule(number=CLIENTS)
    def answer_is_lost(self, number: int) -> None:
        """The coordinator went on, and the member does not know."""
        client = self.clients.get(number)
        if client is None or client.asked is not None or not client.epoch:
            return
        owned = self._owned(client)
        try:
            self.world.asks(client.member_id, client.epoch, owned, instance_id=client.instance_id)
        except KafkaError as error:
            self._refused(number, error.code)
        else:
            client.says_all = True

    # --- what must be so ---------------------------------------------------------------

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        readers: dict[TopicPartition, str] = {}
        for client in self.clients.values():
            if not self._is_member(client):
                continue
            for partition in client.reading:
                other = readers.setdefault(partition, client.member_id)
                assert other == client.member_id, f"{partition}: {other} and {client.member_id}"

    def _is_member(self, client: Client) -> bool:
        """Whether the coordinator has not given it up yet: who is fenced must notice by itself."""
        group = self.world.known.get("readers")
        return group is not None and client.member_id in self.world.group.members

    @invariant()
    def the_state_is_what_the_log_says(self) -> None:
        if "readers" not in self.world.known:
            return
        again = World(self.world.log)
        ours, theirs = self.world.group, again.group
        assert (ours.epoch, ours.target_epoch, ours.members, ours.targets) == (
            theirs.epoch,
            theirs.target_epoch,
            theirs.members,
            theirs.targets,
        )
        assert ours.expressions == theirs.expressions
        assert _owners(ours.members) == {
            p: ours.owner_of(p) for m in ours.members.values() for p in m.standing.assigned
        } | {p: ours.owner_of(p) for m in ours.members.values() for p in m.standing.revoking}

    def teardown(self) -> None:
        """In the end all get what they are to have, and everything is read."""
        self.world.writer.commits_at_once = True
        self.world.writer.settle()
        for _ in range(12):
            for number in list(self.clients):
                self.gives_up(number)
                self.beats(number)
            self.world.pass_ms(SESSION_MS // 3)
        if not self.clients:
            return
        for client in self.clients.values():
            assert client.epoch == self.world.group.epoch.epoch, client
            assert sorted(client.reading) == self.world.reads(client.member_id)
        wanted = {
            TopicPartition(name, n)
            for name in self.world.group.topics()
            if name in self.world.image.topics
            for n in range(len(self.world.image.topics[name].partitions))
        }
        assert wanted == set().union(*(c.reading for c in self.clients.values()))
        assert self.world.group.state_name == "Stable"


def _owners(members: Mapping[str, Member]) -> dict[TopicIdPartition, str]:
    owners: dict[TopicIdPartition, str] = {}
    for member_id, member in members.items():
        for holding in (member.standing.assigned, member.standing.revoking):
            for partition in holding:
                assert partition not in owners, "two owners"
                owners[partition] = member_id
    return owners


TestSafety = Safety.TestCase
TestSafety.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)
