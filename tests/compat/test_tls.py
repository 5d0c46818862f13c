"""TLS: an SSL listener with a certificate of one's own authority."""

import pytest

from tests.compat.clients.model import Client, Message, Op, Sending, Server, Task
from tests.compat.conftest import NewTopic
from tests.compat.serving import Broker

pytestmark = [pytest.mark.compat, pytest.mark.slow]


@pytest.fixture
def tls(broker: Broker) -> Server:
    if broker.tls is None:
        pytest.skip(f"{broker.name} was started without TLS")
    return broker.tls


@pytest.mark.feature("produce and consume over TLS")
@pytest.mark.needs(Op.TLS)
def test_records_pass_through_tls(client: Client, tls: Server, new_topic: NewTopic) -> None:
    topic = new_topic()
    sent = [Message(b"%d" % i * 1000, b"key") for i in range(200)]
    client.produce(tls, topic, sent, Sending())
    received = client.consume(tls, Task(topic, {0: "earliest"}, len(sent)))
    assert [Message(one.value, one.key) for one in received] == sent
    assert topic in client.topics(tls)
