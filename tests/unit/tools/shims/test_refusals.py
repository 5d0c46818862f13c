"""What Kafka's tools refuse is refused before anybody is asked: here nobody would answer."""

import pytest
import trio

from quorate.tools.shims.arguments import ShimError, parse
from quorate.tools.shims.cluster import REASSIGN, reassign_partitions
from quorate.tools.shims.configs import CONFIGS, configs
from quorate.tools.shims.groups import GROUPS, consumer_groups
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
        ("--list --unavailable-partitions", 'can\'t be used with option "[list]"'),
        ("--list --if-exists", 'can\'t be used with option "[list]"'),
        ("--create --topic t --if-exists", 'can\'t be used with option "[create]"'),
        ("--create --topic t --replica-assignment 1 --partitions 1", "[replica-assignment]"),
        (
            "--create --topic t --replica-assignment 1 --replication-factor 1",
            "[replica-assignment]",
        ),
        ("--describe --topics-with-overrides --unavailable-partitions", "[topics-with-overrides]"),
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
        ("--delete --group g --topic t", "does not support topic-specific offset deletion"),
        ("--delete-offsets --group g", "takes the following options: [topic], [group]"),
        ("--delete-offsets --all-groups --topic t", "takes the following options"),
        ("--delete --group g --all-groups", 'can\'t be used with option "[all-groups]"'),
        ("--delete", "takes one of these options: [all-groups], [group]"),
        ("--describe --group g --to-earliest", 'can\'t be used with option "[describe]"'),
        ("--describe --group g --members --state", "takes at most one of these options"),
        ("--describe --group g --state Empty", "does not take a value for [state]"),
        ("--list --group g", 'can\'t be used with option "[list]"'),
    ],
)
def test_groups_do_not_lose_more_than_was_named(words: str, complaint: str) -> None:
    given = parse([*NOWHERE, *words.split()], GROUPS)
    with pytest.raises(ShimError) as refused:
        trio.run(consumer_groups, given, NO_ENVIRONMENT)
    assert complaint in refused.value.text
    assert refused.value.status == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--generate --throttle 5", 'Option "[throttle]" can\'t be used'),
        ("--list --reassignment-json-file f", 'can\'t be used with option "[list]"'),
        ("--execute --execute --verify --reassignment-json-file f", "exactly one action"),
    ],
)
def test_partitions_are_not_moved_in_two_ways(words: str, complaint: str) -> None:
    given = parse([*NOWHERE, *words.split()], REASSIGN)
    with pytest.raises(ShimError) as refused:
        trio.run(reassign_partitions, given, NO_ENVIRONMENT)
    assert complaint in refused.value.text


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


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--describe --topic t --add-config a=b", 'can\'t be used with option "[describe]"'),
        ("--describe --topic t --broker 1", "may be specified together"),
        ("--describe --topic t --entity-type topics", "Duplicate entity type(s) specified: topics"),
        ("--describe --broker x", "must be a valid integer broker id, found: x"),
        ("--describe", "At least one entity type must be specified"),
        ("--describe --entity-type nonsense", "Invalid entity type nonsense"),
        ("--alter --topic t --topic u --add-config a=b", "Found multiple arguments"),
    ],
)
def test_configurations_are_those_of_one_thing(words: str, complaint: str) -> None:
    given = parse([*NOWHERE, *words.split()], CONFIGS)
    with pytest.raises(ShimError) as refused:
        trio.run(configs, given, NO_ENVIRONMENT)
    assert complaint in refused.value.text
