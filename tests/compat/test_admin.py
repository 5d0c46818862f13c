"""Administration: topics, partitions and configurations."""

import pytest

from quorate.settings import TOPIC_SETTINGS
from tests.compat.clients.model import (
    Client,
    Message,
    Op,
    PartitionInfo,
    PeerError,
    Sending,
    Server,
    Task,
    TopicSpec,
)
from tests.compat.clients.ours import Ours
from tests.compat.conftest import NewTopic

pytestmark = [pytest.mark.compat, pytest.mark.slow]

PLAIN = Sending()


@pytest.mark.feature("list topics")
def test_topics_are_listed(client: Client, server: Server, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert topic in client.topics(server)


@pytest.mark.feature("describe topics")
def test_a_topic_is_described(client: Client, server: Server, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    here = PartitionInfo(1, (1,), (1,))
    assert client.describe(server, topic) == {0: here, 1: here, 2: here}


@pytest.mark.feature("describe a topic that does not exist")
def test_a_topic_that_does_not_exist_is_not_described(
    client: Client, server: Server, topic: str, ours: Ours
) -> None:
    if client.name in {"kcat", "aiokafka"}:
        pytest.skip(f"not offered: {client.name} has topics created by asking for them")
    with pytest.raises(PeerError) as error:
        client.describe(server, topic)
    assert error.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert topic not in ours.topics(server)


@pytest.mark.feature("create and delete topics")
@pytest.mark.needs(Op.TOPICS)
def test_topics_are_created_and_deleted(client: Client, server: Server, topic: str) -> None:
    client.create(server, TopicSpec(topic, 5, {"segment.bytes": "1048576"}))
    assert len(client.describe(server, topic)) == 5
    client.produce(server, topic, [Message(b"x", partition=4)], PLAIN)
    client.delete(server, topic)
    assert topic not in client.topics(server)
    client.create(server, TopicSpec(topic))
    assert client.ends(server, topic, 0) == (0, 0)


@pytest.mark.feature("create a topic that exists: TOPIC_ALREADY_EXISTS")
@pytest.mark.needs(Op.TOPICS)
def test_a_topic_is_created_once(client: Client, server: Server, new_topic: NewTopic) -> None:
    topic = new_topic()
    with pytest.raises(PeerError) as error:
        client.create(server, TopicSpec(topic))
    assert error.value.name == "TOPIC_ALREADY_EXISTS"


@pytest.mark.feature("create with a bad name: INVALID_TOPIC_EXCEPTION")
@pytest.mark.needs(Op.TOPICS)
def test_a_bad_name_is_refused(client: Client, server: Server) -> None:
    with pytest.raises(PeerError) as error:
        client.create(server, TopicSpec("not/a/name"))
    assert error.value.name == "INVALID_TOPIC_EXCEPTION"


@pytest.mark.feature("create without partitions: INVALID_PARTITIONS")
@pytest.mark.needs(Op.TOPICS)
def test_a_topic_has_partitions(client: Client, server: Server, topic: str) -> None:
    if client.name == "confluent-kafka":
        pytest.skip("not offered: librdkafka refuses it itself")
    with pytest.raises(PeerError) as error:
        client.create(server, TopicSpec(topic, 0))
    assert error.value.name == "INVALID_PARTITIONS"


@pytest.mark.feature("create with an unknown or invalid config: INVALID_CONFIG")
@pytest.mark.needs(Op.TOPICS)
@pytest.mark.parametrize(
    ("name", "value"), [("retention.mss", "1"), ("retention.ms", "soon"), ("segment.bytes", "-5")]
)
def test_a_bad_configuration_is_refused(
    client: Client, name: str, value: str, server: Server, topic: str
) -> None:
    with pytest.raises(PeerError) as error:
        client.create(server, TopicSpec(topic, 1, {name: value}))
    assert error.value.name == "INVALID_CONFIG"
    assert topic not in client.topics(server)


@pytest.mark.feature("delete a topic that does not exist")
@pytest.mark.needs(Op.TOPICS)
def test_deleting_what_does_not_exist_is_an_error(
    client: Client, server: Server, topic: str
) -> None:
    with pytest.raises(PeerError) as error:
        client.delete(server, topic)
    assert error.value.name == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.feature("add partitions")
@pytest.mark.needs(Op.PARTITIONS)
def test_partitions_are_added(client: Client, server: Server, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    client.add_partitions(server, topic, 5)
    assert set(client.describe(server, topic)) == {0, 1, 2, 3, 4}
    client.produce(server, topic, [Message(b"new", partition=4)], PLAIN)
    (received,) = client.consume(server, Task(topic, {4: "earliest"}, 1))
    assert received.value == b"new"


@pytest.mark.feature("remove partitions: INVALID_PARTITIONS")
@pytest.mark.needs(Op.PARTITIONS)
def test_partitions_are_never_removed(client: Client, server: Server, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    with pytest.raises(PeerError) as error:
        client.add_partitions(server, topic, 2)
    assert error.value.name == "INVALID_PARTITIONS"
    assert len(client.describe(server, topic)) == 3


@pytest.mark.feature("describe configs")
@pytest.mark.needs(Op.CONFIGS)
def test_configurations_are_described(client: Client, server: Server, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="123456", message_timestamp_type="LogAppendTime")
    told = client.configs(server, topic)
    assert set(TOPIC_SETTINGS) <= set(told)
    assert told["max.message.bytes"] == "123456"
    assert told["message.timestamp.type"] == "LogAppendTime"
    assert told["segment.bytes"] == str(1 << 30)


@pytest.mark.feature("change a config")
@pytest.mark.needs(Op.CONFIGS)
def test_a_configuration_is_changed_and_holds_at_once(
    client: Client, server: Server, new_topic: NewTopic
) -> None:
    topic = new_topic()
    client.configure(server, topic, "max.message.bytes", "2000")
    assert client.configs(server, topic)["max.message.bytes"] == "2000"
    with pytest.raises(PeerError) as error:
        client.produce(server, topic, [Message(b"x" * 3000)], PLAIN)
    assert error.value.name == "MESSAGE_TOO_LARGE"
    client.configure(server, topic, "max.message.bytes", "4000")
    client.produce(server, topic, [Message(b"x" * 3000)], PLAIN)
    assert client.ends(server, topic, 0) == (0, 1)


@pytest.mark.feature("change a config to nonsense: INVALID_CONFIG")
@pytest.mark.needs(Op.CONFIGS)
@pytest.mark.parametrize(
    ("name", "value"), [("retention.mss", "1"), ("cleanup.policy", "burn"), ("segment.ms", "0")]
)
def test_a_bad_change_is_refused(
    client: Client, name: str, value: str, server: Server, new_topic: NewTopic
) -> None:
    topic = new_topic()
    before = client.configs(server, topic)
    with pytest.raises(PeerError) as error:
        client.configure(server, topic, name, value)
    assert error.value.name == "INVALID_CONFIG"
    assert client.configs(server, topic) == before


@pytest.mark.feature("configs of a topic that does not exist")
@pytest.mark.needs(Op.CONFIGS)
def test_what_does_not_exist_has_no_configuration(
    client: Client, server: Server, topic: str
) -> None:
    if client.name == "kafka-python":
        pytest.skip("not offered: kafka-python passes over errors here")
    with pytest.raises(PeerError) as error:
        client.configs(server, topic)
    assert error.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
