"""``kafka-topics``, ``kafka-get-offsets`` and ``kafka-delete-records``."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from quorate.client.admin import Admin
from quorate.client.admin_results import (
    ConfigResource,
    NewTopic,
    PartitionDescription,
    TopicDescription,
)
from quorate.errors import ErrorCode, KafkaError, QuorateError
from quorate.model import TopicPartition
from quorate.setting_fields import INT_MAX, SHORT_MAX
from quorate.settings import TOPIC_SETTINGS
from quorate.tools.clusters.health import (
    is_offline,
    is_under_min_isr,
    is_under_replicated,
)
from quorate.tools.output import id_text, topic_config_text
from quorate.tools.shims.arguments import Given, Options, ShimError, options
from quorate.tools.shims.asking import (
    administering,
    client,
    java_error,
    message_of,
    number_list,
    repeated,
    told,
)
from quorate.tools.topics import TOPIC_SOURCE

Environment = Mapping[str, str]

TOPICS: Final = options(
    "list create delete alter describe exclude-internal if-exists if-not-exists"
    " under-replicated-partitions unavailable-partitions under-min-isr-partitions"
    " at-min-isr-partitions topics-with-overrides disable-rack-aware force",
    "topic topic-id partitions replication-factor replica-assignment config delete-config"
    " partition-size-limit-per-response",
)
ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
BELONGS_TO: Final = {
    "config": {"create"},
    "partitions": {"create", "alter"},
    "replication-factor": {"create"},
    "replica-assignment": {"create", "alter"},
    "topic-id": {"describe", "list", "create"},  # who lists or creates is not heard, as in Kafka
    "under-replicated-partitions": {"describe"},
    "unavailable-partitions": {"describe"},
    "under-min-isr-partitions": {"describe"},
    "at-min-isr-partitions": {"describe"},
    "topics-with-overrides": {"describe"},
    "if-exists": {"alter", "delete", "describe"},
    "if-not-exists": {"create"},
    "exclude-internal": {"list", "describe"},
}
COLLIDING: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both."
)
QUESTIONS: Final[Mapping[str, Callable[[PartitionDescription, int], bool]]] = {
    "under-replicated-partitions": lambda p, _: is_under_replicated(p),
    "unavailable-partitions": lambda p, _: is_offline(p),
    "under-min-isr-partitions": is_under_min_isr,
    "at-min-isr-partitions": lambda p, min_isr: len(p.isr) == min_isr,
}


async def topics(given: Given, environment: Environment) -> Iterator[str]:
    """Carry out ``kafka-topics``; return the lines to print.

    Raises:
        ShimError: it failed.
    """
    given.check("bootstrap-server")
    action = given.one_of(
        ACTIONS,
        "Command must include exactly one action: --list, --describe, --create, --alter or "
        "--delete",
    )
    _check(given, action)
    run = {
        "list": _list,
        "describe": _describe,
        "create": _create,
        "alter": _alter,
        "delete": _delete,
    }[action]
    async with administering(given, environment, _failed) as admin:
        return iter(await run(admin, given))


def _check(given: Given, action: str) -> None:
    """Refuse what Kafka's tool does: above all, to change topics without saying which.

    Raises:
        ShimError: an option is missing, or does not go with the action.
    """
    if action not in {"list", "describe"}:
        given.check("topic")
    if action == "alter":
        if "config" in given:
            raise ShimError(
                'Option combination "[[config], [bootstrap-server]]" can\'t be used with option '
                '"[alter]" (To alter topic configurations, the kafka-configs tool can be used.)'
            )
        given.check("partitions")
    given.check_goes_with(action, BELONGS_TO)
    for question in QUESTIONS:
        given.check_apart(question, "topics-with-overrides")
    if action == "create":
        given.check_apart("replica-assignment", "partitions")
        given.check_apart("replica-assignment", "replication-factor")


def _failed(error: QuorateError) -> ShimError:
    text = f"Error while executing topic command : {message_of(error)}"
    return ShimError(text, on_stdout=True)


async def _names(admin: Admin, given: Given, *, must_exist: bool = True) -> list[str]:
    """Return the topics that are meant: those that the expression matches, or all without one.

    Raises:
        ShimError: there are none, and that was not allowed for.
    """
    listed = await admin.list_topics(include_internal="exclude-internal" not in given)
    wanted = given.one("topic") if "topic" in given else None
    expression = _expression(wanted or "")
    topic_id = given.one("topic-id") if "describe" in given else ""
    found = [
        topic.name
        for topic in listed
        if (wanted is None or re.fullmatch(expression, topic.name))
        and (not topic_id or id_text(topic.topic_id) == topic_id)
    ]
    if not found and must_exist and "if-exists" not in given and (wanted or topic_id):
        what = f"Topic '{wanted}'" if wanted else f"TopicId '{topic_id}'"
        text = f"Error while executing topic command : {what} does not exist as expected"
        raise ShimError(text, on_stdout=True)
    return found


def _expression(text: str) -> str:
    """Return a list of topics, which may be expressions, as one expression.

    Raises:
        QuorateError: it is none.
    """
    expression = "|".join(part.strip() for part in text.strip("\"'").split(","))
    try:
        re.compile(expression)
    except re.error:
        raise QuorateError(f"{expression} is an invalid regex.") from None
    return expression


async def _list(admin: Admin, given: Given) -> list[str]:
    return await _names(admin, given, must_exist=False)


async def _create(admin: Admin, given: Given) -> list[str]:
    name = given.one("topic")
    lines = [COLLIDING] if "." in name or "_" in name else []
    assignments = _assignments(given)
    configs = given.properties("config")
    for config in configs:
        if config not in TOPIC_SETTINGS:
            raise KafkaError(f"Unknown topic config name: {config}", code=ErrorCode.INVALID_CONFIG)
    partitions = given.number("partitions", INT_MAX)
    if partitions is not None and partitions < 1:
        raise QuorateError("The partitions must be greater than 0")
    replicas = given.number("replication-factor", SHORT_MAX)
    if replicas is not None and replicas < 1:
        raise QuorateError("The replication factor must be between 1 and 32767 inclusive")
    topic = NewTopic(name, partitions, replicas, configs, assignments)
    error = (await admin.create_topics([topic]))[name]
    exists = isinstance(error, KafkaError) and error.code == ErrorCode.TOPIC_ALREADY_EXISTS
    if exists and "if-not-exists" in given:
        return lines
    if error is not None:
        raise error
    return [*lines, f"Created topic {name}."]


def _assignments(given: Given) -> dict[int, tuple[int, ...]]:
    """Return the brokers that are to have each partition.

    Raises:
        QuorateError: what is none.
    """
    parts = [part for part in given.one("replica-assignment").split(",") if part]
    try:
        return {n: tuple(map(int, part.split(":"))) for n, part in enumerate(parts)}
    except ValueError:
        raise QuorateError(f"{given.one('replica-assignment')} does not name brokers") from None


async def _alter(admin: Admin, given: Given) -> list[str]:
    count = given.number("partitions", INT_MAX)
    names = await _names(admin, given)
    if count is not None and names:
        for error in (await admin.create_partitions(dict.fromkeys(names, count))).values():
            if error is not None:
                raise error
    return []


async def _delete(admin: Admin, given: Given) -> list[str]:
    for error in (await admin.delete_topics(await _names(admin, given))).values():
        if error is not None:
            raise error
    return []


async def _describe(admin: Admin, given: Given) -> list[str]:
    names = await _names(admin, given)
    if not names:
        return []
    found = await admin.describe_topic_partitions(names)
    resources = [ConfigResource.topic(name) for name in names]
    configs = await admin.describe_configs(resources)
    asked = [test for name, test in QUESTIONS.items() if name in given]
    lines: list[str] = []
    for name in sorted(found):
        topic = told(found[name])
        entries = told(configs[ConfigResource.topic(name)])
        own = sorted((e.name, e.value or "") for e in entries.values() if e.source == TOPIC_SOURCE)
        if "topics-with-overrides" in given:
            lines += [_heading(topic, own)] if own else []
            continue
        min_isr = int(entries["min.insync.replicas"].value or 1)
        lines += [] if asked else [_heading(topic, own)]
        lines += [
            _partition_line(topic.name, p)
            for p in topic.partitions
            if not asked or any(test(p, min_isr) for test in asked)
        ]
    return lines


def _heading(topic: TopicDescription, own: list[tuple[str, str]]) -> str:
    replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
    return (
        f"Topic: {topic.name}\tTopicId: {id_text(topic.topic_id)}"
        f"\tPartitionCount: {len(topic.partitions)}\tReplicationFactor: {replicas}"
        f"\tConfigs: {topic_config_text(own)}"
    )


def _partition_line(topic: str, told_of: PartitionDescription) -> str:
    leader = "none" if told_of.leader_id < 0 else str(told_of.leader_id)
    return (
        f"\tTopic: {topic}\tPartition: {told_of.partition}\tLeader: {leader}"
        f"\tReplicas: {number_list(told_of.replicas)}\tIsr: {number_list(told_of.isr)}"
        f"\tElr: {number_list(told_of.elr)}"
        f"\tLastKnownElr: {number_list(told_of.last_known_elr)}"
    )


# --- kafka-get-offsets

OFFSETS: Final = options(
    "exclude-internal-topics", "topic partitions topic-partitions time broker-list"
)
_TIMES: Final = {"latest": -1, "earliest": -2, "max-timestamp": -3}
_PART: Final = re.compile(r"([^:,]*)(?::(?:(\d+)|(\d+)-(\d*)|-(\d+))?)?")


async def get_offsets(given: Given, environment: Environment) -> Iterator[str]:
    """Carry out ``kafka-get-offsets``; return the lines to print.

    Raises:
        ShimError: it failed.
    """
    text = given.one("time", "latest")
    try:
        time = _TIMES[text] if text in _TIMES else int(text)
    except ValueError:
        raise ShimError(
            f"Error occurred: Malformed time argument {text}. Please use -1 or latest / -2 or "
            "earliest / -3 or max-timestamp, or a specified long format timestamp"
        ) from None
    try:
        async with client(given, environment).admin() as admin:
            listed = await admin.list_topics(
                include_internal="exclude-internal-topics" not in given
            )
            wanted = _wanted_partitions(given)
            partitions = [
                TopicPartition(topic.name, number)
                for topic in listed
                for number in range(topic.partition_count)
                if wanted(topic.name, number)
            ]
            if not partitions:
                raise ShimError(
                    "Error occurred: Could not match any topic-partitions with the specified "
                    "filters"
                )
            found = await admin.list_offsets(dict.fromkeys(partitions, time))
    except QuorateError as error:
        if isinstance(error, ShimError):
            raise
        raise ShimError(f"Error occurred: {message_of(error)}") from None
    lines: list[str] = []
    for partition in sorted(partitions):
        offset = told(found[partition]).offset
        if offset >= 0:
            lines.append(f"{partition.topic}:{partition.partition}:{offset}")
    return iter(lines)


def _wanted_partitions(given: Given) -> Callable[[str, int], bool]:
    """Return what tells whether a partition is asked for.

    Raises:
        ShimError: the filters are none.
    """
    if "topic-partitions" in given:
        if "topic" in given or "partitions" in given:
            raise ShimError(
                "Error occurred: --topic-partitions cannot be used with --topic or --partitions"
            )
        tests = [_partition_test(part) for part in given.one("topic-partitions").split(",")]
        return lambda topic, number: any(test(topic, number) for test in tests)
    expression = _expression(given.one("topic")) if "topic" in given else ".*"
    try:
        numbers = {int(text) for text in given.one("partitions").split(",") if text}
    except ValueError:
        raise ShimError(
            "Error occurred: --partitions expects a comma separated list of numeric partition ids,"
            f" but received: {given.one('partitions')}"
        ) from None
    return lambda topic, number: bool(
        re.fullmatch(expression, topic) and (not numbers or number in numbers)
    )


def _partition_test(text: str) -> Callable[[str, int], bool]:
    match = _PART.fullmatch(text)
    if match is None:
        raise ShimError(f"Error occurred: Invalid rule: {text}")
    topic, only, first, stop, below = match.groups()
    least = int(only or first or 0)
    end = int(only) + 1 if only else int(stop or below or 2**31)
    return lambda name, number: bool(re.fullmatch(topic or ".*", name) and least <= number < end)


# --- kafka-delete-records

DELETE_RECORDS: Final[Options] = options("", "offset-json-file")


async def delete_records(given: Given, environment: Environment) -> Iterator[str]:
    """Carry out ``kafka-delete-records``; return the lines to print.

    Raises:
        ShimError: the file is none.
        QuorateError: nobody answers.
    """
    given.check("bootstrap-server", "offset-json-file")
    try:
        document = json.loads(Path(given.one("offset-json-file")).read_text())  # noqa: ASYNC240
        rows = [
            (TopicPartition(each["topic"], int(each["partition"])), int(each["offset"]))
            for each in document["partitions"]
        ]
        version = document.get("version", 1)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ShimError(f"The offset json file cannot be read: {error}") from None
    if version != 1:
        raise ShimError(f"Not supported version field value {version}")
    twice = repeated(partition for partition, _ in rows)
    if twice:
        raise ShimError(f"Offset json file contains duplicate topic partitions: {twice}")
    before = dict(rows)
    async with client(given, environment).admin() as admin:
        results = await admin.delete_records(before)
    lines = ["Executing records delete operation", "Records delete operation completed:"]
    for partition, result in results.items():
        name = f"partition: {partition.topic}-{partition.partition}"
        if isinstance(result, QuorateError):
            lines.append(f"{name}\terror: {java_error(result)}")
        else:
            lines.append(f"{name}\tlow_watermark: {result.low_watermark}")
    return iter(lines)
