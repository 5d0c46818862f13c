"""What the options of a read or a write mean, with the names and texts of Spark's Kafka source.

Spark hands options over with their names in lower case.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Final

from quorate.client.spark.lookup import (
    INT64_MAX,
    KAFKA,
    ConnectionSettings,
    Options,
    connection_settings,
    unknown,
)
from quorate.client.spark.places import (
    AT_EARLIEST,
    AT_LATEST,
    EARLIEST,
    LATEST,
    Offsets,
    OptionError,
    Place,
    Time,
    Times,
    named,
    parse_assignment,
    parse_delay,
    parse_moment,
    parse_offsets,
    parse_times,
    parse_timestamp,
)
from quorate.client.spark.refused import REFUSED
from quorate.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quorate.model import TopicPartition

STRATEGIES: Final = ("subscribe", "subscribepattern", "assign")
FETCH_BYTES: Final = 8 * 1024 * 1024
DEFAULT_GROUP_PREFIX: Final = "spark-kafka-source"

CONSUMER_PROPERTIES: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "client.rack",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "isolation.level",
        "max.partition.fetch.bytes",
        "request.timeout.ms",
    }
)

READ_OPTIONS: Final = (
    "assign",
    "commitOffsetsToGroup",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "since",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
    "until",
)
"""All but Kafka's."""


class Subscribing(Enum):
    """How the partitions to read are named."""

    TOPICS = "subscribe"
    PATTERN = "subscribePattern"
    PARTITIONS = "assign"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions to read.

    Attributes:
        by: Which of the other fields counts.
        topics: Names of topics.
        pattern: A regular expression that the whole name of a topic matches.
        assigned: Partitions by topic.
    """

    by: Subscribing
    topics: tuple[str, ...]
    pattern: str
    assigned: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How tasks fetch."""

    max_bytes: int
    partition_max_bytes: int
    min_bytes: int
    max_wait_ms: int
    committed_only: bool
    rack: str


@dataclass(frozen=True, slots=True)
class RateOptions:
    """How much goes into one micro-batch; None where nothing was said."""

    offsets_max: int | None
    offsets_min: int | None
    trigger_delay_max_ms: int


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All about a read.

    Attributes:
        connection: How to reach the cluster.
        subscription: Which partitions.
        start: Where to begin.
        end: Where to end; streams do not use it.
        start_latest_without_match: What to do with a partition without a record of the starting
            time or later: begin at its end, or raise an error.
        partitions_min: Into how many parts to split, at least; None: one a partition.
        partition_records_max: How many offsets go into one part at most; None: any number.
        fail_on_data_loss: Whether records that should be there and are not are an error.
        include_headers: Whether there is a column of headers.
        fetch: How tasks fetch.
        rate: How large micro-batches get.
        poll_timeout_ms: How long a task may wait for its next records.
        offset_retries: How often to ask again for offsets.
        offset_retry_pause_ms: How long to wait before.
        commit_group: The group that consumed offsets are published to; None: to none.
        warnings: What to tell the user, without stopping.
    """

    connection: ConnectionSettings
    subscription: Subscription
    start: Place
    end: Place
    start_latest_without_match: bool
    partitions_min: int | None
    partition_records_max: int | None
    fail_on_data_loss: bool
    include_headers: bool
    fetch: FetchOptions
    rate: RateOptions
    poll_timeout_ms: int
    offset_retries: int
    offset_retry_pause_ms: int
    commit_group: str | None
    warnings: tuple[str, ...]


def parse_batch_read(texts: Mapping[str, str], now_ms: int) -> ReadOptions:
    """Return what the options of ``spark.read`` mean.

    Raises:
        OptionError: They make no sense.
    """
    options = Options(texts)
    _check_moments(options)
    start, or_latest = _start(options, now_ms, AT_EARLIEST)
    end = _end(options, now_ms)
    if start == AT_LATEST:
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    if end == AT_EARLIEST:
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    for partition in _partitions_at(start, LATEST):
        raise OptionError(
            f"startingOffsets for {partition} can't be latest for batch queries on Kafka"
        )
    for partition in _partitions_at(end, EARLIEST):
        raise OptionError(
            f"ending offset for {partition} can't be earliest for batch queries on Kafka"
        )
    check_read(texts)
    _check_order(start, end)
    warnings = [
        f"{name} option ignored in batch queries"
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
        if options.text(name) is not None
    ]
    return _read_options(options, (start, end), warnings, or_latest=or_latest)


def parse_stream_read(texts: Mapping[str, str], now_ms: int) -> ReadOptions:
    """Return what the options of ``spark.readStream`` mean.

    Raises:
        OptionError: They make no sense.
    """
    options = Options(texts)
    if options.text("endingOffsets") is not None:
        raise OptionError("ending offset not valid in streaming queries")
    for name in ("endingOffsetsByTimestamp", "endingTimestamp", "until"):
        if options.text(name) is not None:
            raise OptionError("ending timestamp not valid in streaming queries")
    check_read(texts)
    _check_moments(options)
    start, or_latest = _start(options, now_ms, AT_LATEST)
    return _read_options(options, (start, AT_LATEST), [], or_latest=or_latest)


def _read_options(
    options: Options, span: tuple[Place, Place], warnings: list[str], *, or_latest: bool
) -> ReadOptions:
    kafka = options.kafka()
    start, end = span
    group_id = kafka.get("group.id")
    prefix = options.text("groupIdPrefix") or DEFAULT_GROUP_PREFIX
    if group_id is not None and options.text("groupIdPrefix") is not None:
        warnings.append(
            "Option groupIdPrefix will be ignored as option kafka.group.id has been set."
        )
    warnings += unknown(kafka, CONSUMER_PROPERTIES)
    warnings += _misspelt(options)
    commit = options.flag("commitOffsetsToGroup", default=False)
    if commit and group_id is None and options.text("groupIdPrefix") is None:
        raise OptionError(
            "commitOffsetsToGroup is true, but there is no group: set kafka.group.id to the name"
            " under which lag is to be seen"
        )
    return ReadOptions(
        connection=connection_settings(kafka, group_id or prefix),
        subscription=_subscription(options),
        start=start,
        end=end,
        start_latest_without_match=or_latest,
        partitions_min=options.number("minPartitions", None, least=1),
        partition_records_max=options.number(
            "maxRecordsPerPartition", None, least=1, most=INT64_MAX
        ),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        include_headers=options.flag("includeHeaders", default=False),
        fetch=_fetch_options(options, kafka),
        rate=_rate_options(options),
        poll_timeout_ms=options.given_number("kafkaConsumer.pollTimeoutMs", 120_000, least=1),
        offset_retries=options.given_number("fetchOffset.numRetries", 3),
        offset_retry_pause_ms=options.given_number("fetchOffset.retryIntervalMs", 10),
        commit_group=(group_id or prefix) if commit else None,
        warnings=tuple(warnings),
    )


def _misspelt(options: Options) -> list[str]:
    """Return warnings of options that are none; Spark gives its own (``path``) the same way."""
    known = {name.lower(): name for name in READ_OPTIONS}
    unknown_names = sorted(
        name for name in options.texts if name not in known and not name.startswith(KAFKA)
    )
    near = {name: get_close_matches(name, known, n=1, cutoff=0.8) for name in unknown_names}
    return [
        f"Option '{name}' is not known to this connector, and ignored: did you mean"
        f" '{known[found[0]]}'?"
        for name, found in near.items()
        if found
    ]


def _fetch_options(options: Options, kafka: Mapping[str, str]) -> FetchOptions:
    isolation = kafka.get("isolation.level", "read_uncommitted").strip().lower()
    if isolation not in {"read_uncommitted", "read_committed"}:
        raise OptionError(
            f"Invalid value {isolation} for configuration isolation.level: String must be one of:"
            " read_committed, read_uncommitted"
        )
    return FetchOptions(
        max_bytes=options.given_number("kafka.fetch.max.bytes", 50 * 1024 * 1024, least=1),
        partition_max_bytes=options.given_number(
            "kafka.max.partition.fetch.bytes", FETCH_BYTES, least=1
        ),
        min_bytes=options.given_number("kafka.fetch.min.bytes", 1),
        max_wait_ms=options.given_number("kafka.fetch.max.wait.ms", 500),
        committed_only=isolation == "read_committed",
        rack=kafka.get("client.rack", ""),
    )


def _rate_options(options: Options) -> RateOptions:
    most = options.number("maxOffsetsPerTrigger", None, least=1, most=INT64_MAX)
    least = options.number("minOffsetsPerTrigger", None, least=1, most=INT64_MAX)
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"The value of minOffsetPerTrigger({least}) is higher than the"
            f" maxOffsetsPerTrigger({most})."
        )
    return RateOptions(most, least, parse_delay(options.text("maxTriggerDelay") or "15m"))


# Which partitions


def check_read(texts: Mapping[str, str]) -> None:
    """Check what is the same for batches and streams, in the order in which Spark does.

    Raises:
        OptionError: Something makes no sense.
    """
    options = Options(texts)
    given = [name for name in STRATEGIES if options.text(name) is not None]
    if not given:
        raise OptionError(
            "One of the following options must be specified for Kafka source: "
            f"{', '.join(STRATEGIES)}. See the docs for more details."
        )
    if len(given) > 1:
        raise OptionError(
            "Only one of the following options can be specified for Kafka source: "
            f"{', '.join(STRATEGIES)}. See the docs for more details."
        )
    _subscription(options)
    options.number("minPartitions", None, least=1)
    options.number("maxRecordsPerPartition", None, least=1, most=INT64_MAX)
    kafka = options.kafka()
    for name, why in REFUSED.items():
        if name in kafka:
            raise OptionError(why)
    if "bootstrap.servers" not in kafka:
        raise OptionError(
            "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"
        )


def _subscription(options: Options) -> Subscription:
    topics, pattern, assigned = map(options.text, ("subscribe", "subscribePattern", "assign"))
    if assigned is not None:
        if not assigned.strip().startswith("{"):
            raise OptionError(
                "No topicpartitions to assign as specified value for option"
                f" 'assign' is '{assigned}'"
            )
        return Subscription(Subscribing.PARTITIONS, (), "", parse_assignment(assigned))
    if topics is not None:
        names = tuple(dict.fromkeys(name.strip() for name in topics.split(",") if name.strip()))
        if not names:
            raise OptionError(
                f"No topics to subscribe to as specified value for option 'subscribe' is '{topics}'"
            )
        return Subscription(Subscribing.TOPICS, names, "", {})
    assert pattern is not None
    if not pattern.strip():
        raise OptionError(
            "Pattern to subscribe is empty as specified value for option"
            f" 'subscribePattern' is '{pattern}'"
        )
    try:
        re.compile(pattern.strip())
    except re.error as error:
        raise OptionError(f"subscribePattern is no regular expression: {error}") from None
    return Subscription(Subscribing.PATTERN, (), pattern.strip(), {})


# Where to begin and end


def _check_moments(options: Options) -> None:
    """``since`` and ``until`` are ours, and stand alone."""
    for ours, others in (
        ("since", ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")),
        ("until", ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")),
    ):
        for other in others:
            if options.text(ours) is not None and options.text(other) is not None:
                raise OptionError(f"{ours} and {other} say where to read: give one of them")


def _start(options: Options, now_ms: int, default: Place) -> tuple[Place, bool]:
    strategy = (options.text("startingOffsetsByTimestampStrategy") or "error").strip().lower()
    if strategy not in {"error", "latest"}:
        raise OptionError(
            f"No value found for '{strategy.upper()}': startingOffsetsByTimestampStrategy is error"
            " or latest"
        )
    since = options.text("since")
    if since is not None:
        # Whoever asks for the last hour wants nothing of a partition that had nothing in it.
        return parse_moment("since", since, now_ms), True
    return _place(options, "starting", default), strategy == "latest"


def _end(options: Options, now_ms: int) -> Place:
    until = options.text("until")
    if until is not None:
        return parse_moment("until", until, now_ms)
    return _place(options, "ending", AT_LATEST)


def _place(options: Options, which: str, default: Place) -> Place:
    """Return the place that counts, if several are given: a time for all, times, offsets."""
    parsers: tuple[tuple[str, Callable[[str], Place]], ...] = (
        (f"{which}Timestamp", parse_timestamp),
        (f"{which}OffsetsByTimestamp", parse_times),
        (f"{which}Offsets", parse_offsets),
    )
    for name, parse in parsers:
        text = options.text(name)
        if text is not None:
            return parse(text)
    return default


def _partitions_at(place: Place, offset: int) -> list[TopicPartition]:
    if not isinstance(place, Offsets):
        return []
    return [partition for partition, each in place.by_partition.items() if each == offset]


def _check_order(start: Place, end: Place) -> None:
    """Check what can be checked without asking anybody."""
    if isinstance(start, Offsets) and isinstance(end, Offsets):
        kind, begins, ends = "offset", start.by_partition, end.by_partition
    elif isinstance(start, Times) and isinstance(end, Times):
        kind, begins, ends = "timestamp", start.by_partition, end.by_partition
    else:
        if isinstance(start, Time) and isinstance(end, Time):
            _check_times(start, end)
        return
    if begins.keys() != ends.keys():
        raise OptionError(
            "Specified topic partitions must be the same for starting and ending offsets:"
            f" starting {named(begins)}, ending {named(ends)}"
        )
    for partition, begin in begins.items():
        if begin > ends[partition] and begin >= 0 and ends[partition] >= 0:
            raise OptionError(
                f"The specified start {kind} {begin} is greater than the end {kind}"
                f" {ends[partition]} for topic {partition.topic} partition {partition.partition}."
            )


def _check_times(start: Time, end: Time) -> None:
    if start.timestamp_ms > end.timestamp_ms:
        raise OptionError(
            f"The specified start timestamp {start.timestamp_ms} is greater than the end timestamp"
            f" {end.timestamp_ms}."
        )
