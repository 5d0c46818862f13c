"""More clients in Go: what is most usual, and sarama as of several releases of Kafka."""

import pytest

from tests.compat.clients.agent import OtherGo
from tests.compat.clients.model import CODECS, Acks, Server
from tests.compat.conftest import OTHERS, Clients, NewTopic
from tests.compat.serving import Broker

pytestmark = [pytest.mark.compat, pytest.mark.slow]

VALUES = [f"{number} {'lorem ipsum ' * 20}" for number in range(20)]


def other(clients: Clients, name: str) -> OtherGo:
    made = clients.get(name)
    assert isinstance(made, OtherGo)
    return made


@pytest.fixture(params=list(OTHERS))
def client(request: pytest.FixtureRequest, clients: Clients) -> OtherGo:
    return other(clients, request.param)


def produce(
    client: OtherGo, server: Server, topic: str, *, codec: str = "none", acks: Acks = "all",
    protocol: str = "",
) -> None:  # fmt: skip
    client.ask(
        "produce", bootstrap=server.bootstrap, topic=topic, values=VALUES, codec=codec, acks=acks,
        protocol=protocol,
    )  # fmt: skip


def consumed(client: OtherGo, server: Server, topic: str, *, protocol: str = "") -> list[str]:
    values: list[str] = client.ask(
        "consume", bootstrap=server.bootstrap, topic=topic, count=len(VALUES), protocol=protocol
    )
    return values


def read_in_group(
    client: OtherGo, server: Server, topic: str, count: int, *, protocol: str = ""
) -> list[str]:
    """Join the group with the topic's name, read so many records, commit them and leave."""
    values: list[str] = client.ask(
        "group", bootstrap=server.bootstrap, topic=topic, group=topic, count=count,
        protocol=protocol,
    )  # fmt: skip
    return values


@pytest.mark.feature("produce and consume with {codec}")
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_produced_is_stored_with_its_codec_and_read(
    client: OtherGo, codec: str, broker: Broker, new_topic: NewTopic
) -> None:
    topic = new_topic()
    produce(client, broker.server, topic, codec=codec)
    assert {header.compression for header in broker.stored(topic)} == {CODECS.index(codec)}
    assert consumed(client, broker.server, topic) == VALUES


@pytest.mark.feature("acks={acks}")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_works(
    client: OtherGo, acks: Acks, server: Server, new_topic: NewTopic
) -> None:
    topic = new_topic()
    produce(client, server, topic, acks=acks)
    assert consumed(client, server, topic) == VALUES


@pytest.mark.feature("a member of a group leaves: the next one goes on where it had committed")
def test_a_member_goes_on_where_its_predecessor_had_committed(
    client: OtherGo, server: Server, new_topic: NewTopic
) -> None:
    topic = new_topic()
    produce(client, server, topic)
    assert read_in_group(client, server, topic, 7) == VALUES[:7]
    assert read_in_group(client, server, topic, 13) == VALUES[7:]


@pytest.mark.feature("produce, consume and a group, as of Kafka {protocol}")
@pytest.mark.parametrize("protocol", ["0.11.0.0", "2.0.0", "4.3.1"])
@pytest.mark.client("sarama")
def test_what_clients_of_a_release_ask_is_answered(
    protocol: str, clients: Clients, server: Server, new_topic: NewTopic
) -> None:
    topic, sarama = new_topic(), other(clients, "sarama")
    produce(sarama, server, topic, protocol=protocol)
    assert consumed(sarama, server, topic, protocol=protocol) == VALUES
    assert read_in_group(sarama, server, topic, 7, protocol=protocol) == VALUES[:7]
    assert read_in_group(sarama, server, topic, 13, protocol=protocol) == VALUES[7:]
