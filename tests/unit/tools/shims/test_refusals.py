"""What Kafka's tools refuse is refused before anybody is asked: here nobody would answer."""

import pytest
import trio

from quorate.tools.shims.arguments import ShimError, parse
from quorate.tools.shims.configs import CONFIGS, configs
from quorate.tools.shims.topics import TOPICS, topics

NOWHERE = ["--bootstrap-server", "127.0.0.1:1"]
NO_ENVIRONMENT: dict[str, str] = {}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--delete", 'Missing required argument "[topic]"'),
        ("--delete --topic-id abc", 'Missing required argument "[topic]"'),
        ("--delete --topic t --topic-id abc", 'Option "[topic-id]" can\'t be used'),
        ("--delete --topic t --partitions 1", 'Option "[partitions]" can\'t be used'),
        ("--alter --partitions 3", 'Missing required argument "[topic]"'),
        ("--alter --topic-id abc --partitions 3", 'Missing required argument "[topic]"'),
        ("--alter --topic t", 'Missing required argument "[partitions]"'),
        ("--alter --topic t --config a=b", "the kafka-configs tool can be used"),
        ("--alter --topic t --config a=b --partitions 3", "the kafka-configs tool can be used"),
        ("--list --config a=b", 'Option "[config]" can\'t be used with option "[list]"'),
        ("--describe --partitions 3", 'can\'t be used with option "[describe]"'),
    ],
)
def test_topics_are_not_changed_without_saying_which_and_how(words: str, complaint: str) -> None:
    given = parse([*NOWHERE, *words.split()], TOPICS)
    with pytest.raises(ShimError) as refused:
        trio.run(topics, given, NO_ENVIRONMENT)
    assert complaint in refused.value.text
    assert not refused.value.on_stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--entity-type brokers", "An entity-name or default entity must be specified"),
        ("--entity-type brokers --entity-name 1 --entity-default", "for every entity type"),
        ("--entity-type topics", "An entity name must be specified with --alter of topics"),
        ("--entity-type topics --entity-default", "with --alter of topics"),
        ("--entity-type groups", "An entity name must be specified with --alter of groups"),
    ],
)
def test_configurations_are_not_changed_without_saying_whose(words: str, complaint: str) -> None:
    line = [*NOWHERE, "--alter", *words.split(), "--add-config", "retention.ms=3"]
    given = parse(line, CONFIGS)
    with pytest.raises(ShimError) as refused:
        trio.run(configs, given, NO_ENVIRONMENT)
    assert complaint in refused.value.text
