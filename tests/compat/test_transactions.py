"""Transactions: what one client commits, all see, and what it aborts, nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quorate.client import TopicPartition, sync
from tests.compat.clients.agent import FranzGo, Java, KafkaJs
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.clients.model import Message, PeerError, Sending, TopicSpec
from tests.compat.clients.ours import Ours
from tests.compat.clients.transactions import (
    OfAgent,
    OfFranzGo,
    OfLibrdkafka,
    OfOurs,
    Transactional,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.compat.clients.model import Server
    from tests.compat.conftest import Clients, NewTopic

pytestmark = [pytest.mark.compat, pytest.mark.slow]

NOT_OFFERED = "not offered: "
FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}

KINDS: dict[str, Callable[[Clients], Transactional]] = {
    Librdkafka.name: lambda _: OfLibrdkafka(),
    Java.name: lambda clients: OfAgent(clients.get(Java.name)),  # type: ignore[arg-type]
    FranzGo.name: lambda clients: OfFranzGo(clients.get(FranzGo.name)),  # type: ignore[arg-type]
    KafkaJs.name: lambda clients: OfAgent(clients.get(KafkaJs.name)),  # type: ignore[arg-type]
    Ours.name: lambda _: OfOurs(),
}


@pytest.fixture(scope="module", params=list(KINDS))
def target(request: pytest.FixtureRequest, clients: Clients) -> Transactional:
    clients.get(request.param)
    return KINDS[request.param](clients)


@pytest.fixture
def theirs() -> Transactional:
    """Who looks at what another one wrote."""
    return OfLibrdkafka()


@pytest.mark.feature("several partitions, committed and aborted")
def test_a_transaction_is_seen_as_a_whole_or_not_at_all(
    target: Transactional, theirs: Transactional, server: Server, new_topic: NewTopic, topic: str
) -> None:
    new_topic(3)
    name = target.open(server, topic)
    for turn in range(4):
        target.begin(name)
        for number in range(6):
            target.send(name, topic, number % 3, b"%d %d" % (turn, number))
        if turn % 2:
            target.commit(name)
        else:
            target.abort(name)
    target.begin(name)
    target.send(name, topic, 0, b"open")
    committed = [
        b"%d %d" % (turn, n) for part in range(3) for turn in (1, 3) for n in (part, part + 3)
    ]
    for reader in (target, theirs):
        assert reader.read(server, topic, 3) == committed
        everything = reader.read(server, topic, 3, "read_uncommitted")
        assert len(everything) == 25
        assert b"open" in everything
    target.commit(name)
    assert target.read(server, topic, 3) == [*committed[:4], b"open", *committed[4:]]
    target.close(name)


@pytest.mark.feature("offsets of a group with the transaction")
def test_offsets_count_with_their_transaction(
    target: Transactional, server: Server, new_topic: NewTopic, topic: str
) -> None:
    if not target.commits_offsets:
        pytest.skip(f"{NOT_OFFERED}offsets without a consumer")
    new_topic()
    where = TopicPartition(topic, 0)
    name = target.open(server, topic)
    with sync.Admin(server.bootstrap) as admin:
        target.begin(name)
        target.offsets(name, topic, topic, 0, 5)
        target.abort(name)
        assert admin.list_group_offsets(topic) == {}
        target.begin(name)
        target.send(name, topic, 0, b"x")
        target.offsets(name, topic, topic, 0, 7)
        target.commit(name)
        # Kafka answers who commits before it has written the markers.
        committed = admin.list_group_offsets(topic, require_stable=True)
        assert committed[where].offset == 7
    target.close(name)


@pytest.mark.feature("a zombie is fenced")
def test_a_newer_producer_fences_the_older_one(
    target: Transactional, server: Server, new_topic: NewTopic, topic: str
) -> None:
    new_topic()
    zombie = target.open(server, topic)
    target.begin(zombie)
    target.send(zombie, topic, 0, b"of the zombie")
    newer = target.open(server, topic)
    target.begin(newer)
    target.send(newer, topic, 0, b"of the newer one")
    with pytest.raises(PeerError) as fenced:
        target.commit(zombie)
    assert fenced.value.name in FENCED
    target.commit(newer)
    assert target.read(server, topic, 1) == [b"of the newer one"]
    target.close(newer)
    target.close(zombie)


@pytest.mark.feature("read, write and commit in transactions, some in vain")
def test_a_copy_is_exact(
    target: Transactional,
    theirs: Transactional,
    server: Server,
    new_topic: NewTopic,
    topic: str,
    ours: Ours,
) -> None:
    new_topic(2)
    output = f"{topic}-out"
    ours.create(server, TopicSpec(output, 2))
    sent = [b"%d" % number for number in range(60)]
    ours.produce(server, topic, [Message(value) for value in sent], Sending())
    target.copy(server, topic, topic, output, topic, len(sent))
    for reader in (target, theirs):
        assert sorted(reader.read(server, output, 2)) == sorted(sent)
    with sync.Admin(server.bootstrap) as admin:
        committed = admin.list_group_offsets(topic)
    assert sum(each.offset for each in committed.values()) == len(sent)


@pytest.mark.client("Kafka's tools")
def test_kafkas_tool_lists_and_describes_what_ours_does(
    jvm: Java, server: Server, new_topic: NewTopic, topic: str
) -> None:
    new_topic()
    target = OfOurs()
    name = target.open(server, topic)
    target.begin(name)
    target.send(name, topic, 0, b"x")
    main = "org.apache.kafka.tools.TransactionsCommand"
    words = ["--bootstrap-server", server.bootstrap]
    listed = jvm.tool(main, *words, "list")
    line = next(line for line in listed.stdout.splitlines() if line.startswith(topic))
    with sync.Admin(server.bootstrap) as admin:
        (ours,) = [t for t in admin.list_transactions() if t.transactional_id == topic]
        told = admin.describe_transactions([topic])[topic]
        producers = admin.describe_producers([(topic, 0)])[TopicPartition(topic, 0)]
    assert line.split() == [topic, str(ours.coordinator_id), str(ours.producer_id), "Ongoing"]
    described = jvm.tool(main, *words, "describe", "--transactional-id", topic).stdout
    assert not isinstance(told, Exception)
    assert told.partitions == (TopicPartition(topic, 0),)
    assert described.splitlines()[1].split()[:6] == [
        str(told.coordinator_id), topic, str(told.producer_id), str(told.producer_epoch),
        "Ongoing", str(told.timeout_ms),
    ]  # fmt: skip
    theirs = jvm.tool(main, *words, "describe-producers", "--topic", topic, "--partition", "0")
    assert not isinstance(producers, Exception)
    (producer,) = producers
    row = theirs.stdout.splitlines()[1].split()
    assert row[:2] == [str(producer.producer_id), str(producer.producer_epoch)]
    assert row[-1] == str(producer.transaction_start_offset) == "0"
    target.commit(name)
    target.close(name)
