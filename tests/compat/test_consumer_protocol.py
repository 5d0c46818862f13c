"""Groups of the new protocol (KIP-848) with members of librdkafka, of Java's client and of ours."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat import serving
from tests.compat.clients.model import Message, Sending, Server, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.consuming.members import (
    JavaMember,
    JavaMembers,
    Librdkafka,
    Member,
    OurMember,
    eventually,
)
from tests.compat.peers import cache
from tests.conftest import IN_A_HURRY

pytestmark = [pytest.mark.compat, pytest.mark.slow]

PROPERTIES = {
    **IN_A_HURRY,
    "offsets.topic.replication.factor": "1",
    "group.consumer.assignment.interval.ms": "100",
}
NEW = {"group.protocol": "consumer"}
CLASSIC = {"heartbeat.interval.ms": "200", "session.timeout.ms": "10000"}
LIBRDKAFKA, JAVA, OURS = "librdkafka", "Java kafka-clients", "quorate.client"
PARTITIONS = 4


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, directory: Path) -> Generator[serving.Broker]:
    """A node of the module's own, unless it is to be Apache Kafka."""
    if request.config.getoption("broker") == "kafka":
        yield request.getfixturevalue("apache_kafka")
        return
    with serving.quorate(PROPERTIES, directory) as started:
        yield started


@pytest.fixture(scope="module")
def members() -> Generator[JavaMembers]:
    try:
        made = JavaMembers()
    except cache.PeerUnavailableError as error:
        pytest.skip(error.reason)
    yield made
    made.close()


Start = Callable[..., Member]


@pytest.fixture
def start(node: serving.Broker, topic: str, request: pytest.FixtureRequest) -> Generator[Start]:
    """Start a member of the test's group; all that were started end with the test."""
    with ExitStack() as stack:
        started: list[Member] = []

        def begin(
            kind: str,
            topics: Sequence[str] = (),
            *,
            pattern: str | None = None,
            server: Server = node.server,
            **settings: str,
        ) -> Member:
            said = {name.replace("_", "."): value for name, value in settings.items()}
            said = {**(NEW if "heartbeat.interval.ms" not in said else {}), **said}
            said["group.id"] = f"g-{topic}"
            member: Member
            if kind == LIBRDKAFKA:
                member = Librdkafka(server, topics, said, pattern)
            elif kind == OURS:
                member = OurMember(server, topics, said, pattern)
            else:
                jvm = request.getfixturevalue("members")
                name = f"{topic}-{len(started)}"
                member = JavaMember(jvm, name, server, topics, said, pattern)
            started.append(member)
            stack.callback(_end, member)
            return member

        yield begin


def _end(member: Member) -> None:
    if not getattr(member, "has_ended", False):
        member.end()


def end(member: Member) -> None:
    member.end()
    member.has_ended = True  # type: ignore[attr-defined]


@pytest.fixture
def filled(node: serving.Broker, topic: str, ours: Ours) -> str:
    """A topic with records in all partitions."""
    ours.create(node.server, TopicSpec(topic, PARTITIONS, {}))
    produce(ours, node.server, topic, 5)
    return topic


def produce(ours: Ours, server: Server, topic: str, count: int) -> None:
    messages = [
        Message(b"k", b"v%d" % n, partition=partition)
        for partition in range(PARTITIONS)
        for n in range(count)
    ]
    ours.produce(server, topic, messages, Sending())


def split(topic: str, *members: Member, partitions: int = PARTITIONS) -> Callable[[], bool]:
    """Return whether members read everything, each its part, none of them more than its share."""

    def is_split() -> bool:
        held = [member.assigned() for member in members]
        everything = {f"{topic}-{n}" for n in range(partitions)}
        fair = {partitions // len(members), -(-partitions // len(members))}
        counts = {len(each) for each in held}
        return (
            set().union(*held) == everything
            and sum(map(len, held)) == partitions
            and counts <= fair
        )

    return is_split


def shown(*members: Member) -> Callable[[], object]:
    return lambda: [member.assigned() for member in members]


def assert_read_once(count: int, *members: Member) -> None:
    """Nothing is read twice while nobody dies: what is given up was committed before."""

    def read() -> list[str]:
        return [where for member in members for where in member.read()]

    eventually(lambda: len(set(read())) >= count, lambda: len(set(read())))
    assert len(read()) == len(set(read())) == count


@pytest.mark.feature("members share a topic; one leaves")
@pytest.mark.parametrize("client", [LIBRDKAFKA, JAVA, OURS])
def test_members_share_a_topic(
    start: Start, filled: str, client: str, ours: Ours, node: serving.Broker
) -> None:
    first = start(client, [filled])
    eventually(split(filled, first), shown(first))
    second = start(client, [filled])
    eventually(split(filled, first, second), shown(first, second))
    produce(ours, node.server, filled, 5)
    assert_read_once(10 * PARTITIONS, first, second)
    end(first)
    eventually(split(filled, second), shown(second))
    produce(ours, node.server, filled, 1)
    assert_read_once(11 * PARTITIONS, first, second)


@pytest.mark.feature("members of different clients in one group")
def test_clients_share_a_group(start: Start, filled: str, ours: Ours, node: serving.Broker) -> None:
    members = [start(kind, [filled]) for kind in (LIBRDKAFKA, JAVA, OURS)]
    eventually(split(filled, *members), shown(*members))
    produce(ours, node.server, filled, 5)
    assert_read_once(10 * PARTITIONS, *members)


@pytest.mark.feature("pattern matched by the broker")
@pytest.mark.parametrize("client", [LIBRDKAFKA, JAVA, OURS])
def test_a_pattern_is_matched_by_the_broker(
    start: Start, filled: str, client: str, ours: Ours, node: serving.Broker
) -> None:
    reader = start(client, pattern=f"{filled}(-more)?")
    eventually(split(filled, reader), shown(reader))
    ours.create(node.server, TopicSpec(f"{filled}-more", 1, {}))
    ours.create(node.server, TopicSpec(f"{filled}-other", 1, {}))
    wanted = {f"{filled}-{n}" for n in range(PARTITIONS)} | {f"{filled}-more-0"}
    eventually(lambda: reader.assigned() == wanted, shown(reader))


@pytest.mark.feature("static member: comes back to what it had")
@pytest.mark.parametrize("client", [LIBRDKAFKA, JAVA, OURS])
def test_a_static_member_comes_back_to_what_it_had(start: Start, filled: str, client: str) -> None:
    first = start(client, [filled], group_instance_id="i1")
    second = start(client, [filled], group_instance_id="i2")
    eventually(split(filled, first, second), shown(first, second))
    had, other = first.assigned(), second.assigned()
    end(first)
    again = start(client, [filled], group_instance_id="i1")
    eventually(lambda: again.assigned() == had, shown(again))
    assert second.assigned() == other


@pytest.mark.feature("new partitions are read")
@pytest.mark.parametrize("client", [LIBRDKAFKA, JAVA, OURS])
def test_new_partitions_are_read(
    start: Start, filled: str, client: str, ours: Ours, node: serving.Broker
) -> None:
    reader = start(client, [filled])
    eventually(split(filled, reader), shown(reader))
    ours.add_partitions(node.server, filled, 6)
    eventually(split(filled, reader, partitions=6), shown(reader))


@pytest.mark.feature("upgrade and downgrade while members read")
@pytest.mark.parametrize("client", [LIBRDKAFKA, JAVA, OURS])
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_is_upgraded_and_downgraded_with_members_in_it(
    start: Start, filled: str, client: str, assignor: str, ours: Ours, node: serving.Broker
) -> None:
    classic = {name.replace(".", "_"): value for name, value in CLASSIC.items()}
    named = assignor
    if client == JAVA:
        kinds = {"range": "RangeAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}
        named = f"org.apache.kafka.clients.consumer.{kinds[assignor]}"
    classic["partition_assignment_strategy"] = named
    old = [start(client, [filled], **classic), start(client, [filled], **classic)]
    eventually(split(filled, *old), shown(*old))
    new = start(client, [filled])
    eventually(split(filled, *old, new), shown(*old, new))
    produce(ours, node.server, filled, 5)
    assert_read_once(10 * PARTITIONS, *old, new)
    end(new)
    eventually(split(filled, *old), shown(*old))
    end(old[0])
    last = start(client, [filled])
    end(old[1])
    eventually(split(filled, last), shown(last))
    produce(ours, node.server, filled, 5)
    assert_read_once(15 * PARTITIONS, *old, new, last)


@pytest.mark.feature("the broker restarts: members go on where they were")
@pytest.mark.parametrize("client", [LIBRDKAFKA, JAVA, OURS])
def test_members_go_on_when_the_broker_was_away(
    topic: str, tmp_path: Path, client: str, ours: Ours, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("broker") == "kafka":
        pytest.skip("it is our node that is restarted")
    properties = {**PROPERTIES, "group.consumer.session.timeout.ms": "45000"}
    with serving.quorate(properties, tmp_path) as node:
        port = node.server.bootstrap.rpartition(":")[2]
        ours.create(node.server, TopicSpec(topic, PARTITIONS, {}))
        produce(ours, node.server, topic, 5)
        settings = {"group.id": "g", **NEW}
        members: list[Member]
        if client == LIBRDKAFKA:
            members = [Librdkafka(node.server, [topic], settings, None) for _ in range(2)]
        elif client == OURS:
            members = [OurMember(node.server, [topic], settings, None) for _ in range(2)]
        else:
            jvm = request.getfixturevalue("members")
            members = [
                JavaMember(jvm, f"{topic}-{n}", node.server, [topic], settings, None)
                for n in range(2)
            ]
        eventually(split(topic, *members), shown(*members))
        assert_read_once(5 * PARTITIONS, *members)
        before = [member.assigned() for member in members]
    again = {**properties, "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with serving.quorate(again, tmp_path) as node:
        produce(ours, node.server, topic, 5)
        assert_read_once(10 * PARTITIONS, *members)
        assert [member.assigned() for member in members] == before
        for member in members:
            member.end()
