"""The settings of groups; names and defaults are Kafka's."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from quorate.dataclass import dataclass
from quorate.errors import InvalidConfigError
from quorate.setting_fields import (
    INT_MAX,
    Kind,
    bytes_field,
    ms_field,
    number_field,
    setting_field,
    text_field,
)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What a node that coordinates groups goes by."""

    offsets_topic_num_partitions: int = number_field(
        "offsets.topic.num.partitions",
        50,
        "Partitions of __consumer_offsets, when it is created.",
        low=1,
    )
    offsets_topic_replication_factor: int = number_field(
        "offsets.topic.replication.factor",
        3,
        "Replicas of __consumer_offsets, when it is created.",
        low=1,
        high=32767,
    )
    offsets_topic_segment_bytes: int = bytes_field(
        "offsets.topic.segment.bytes",
        104_857_600,
        "Segment size of __consumer_offsets, when it is created.",
        low=1024,
    )
    offsets_retention_minutes: int = number_field(
        "offsets.retention.minutes",
        10_080,
        "Forget offsets of groups that have been empty, or do not read the topic, for so long.",
        low=1,
    )
    offsets_retention_check_interval_ms: int = ms_field(
        "offsets.retention.check.interval.ms",
        600_000,
        "How often expired offsets are looked for.",
        low=1,
    )
    offsets_commit_timeout_ms: int = ms_field(
        "offsets.commit.timeout.ms",
        5_000,
        "How long a coordinator waits for what it wrote to be replicated.",
        low=1,
        high=INT_MAX,
    )
    offset_metadata_max_bytes: int = bytes_field(
        "offset.metadata.max.bytes", 4096, "The longest text that may be committed with an offset."
    )
    group_initial_rebalance_delay_ms: int = ms_field(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long an empty group waits for more members before it begins.",
        high=INT_MAX,
    )
    group_min_session_timeout_ms: int = ms_field(
        "group.min.session.timeout.ms",
        6_000,
        "The shortest session timeout that members may ask for.",
        high=INT_MAX,
    )
    group_max_session_timeout_ms: int = ms_field(
        "group.max.session.timeout.ms",
        1_800_000,
        "The longest session timeout that members may ask for.",
        high=INT_MAX,
    )
    group_max_size: int = number_field(
        "group.max.size", INT_MAX, "The most members of one group.", low=1
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = setting_field(
        "group.coordinator.rebalance.protocols",
        Kind.LIST,
        ("classic", "consumer"),
        "The kinds of groups that are served.",
        choices=("classic", "consumer"),
    )
    group_consumer_session_timeout_ms: int = ms_field(
        "group.consumer.session.timeout.ms",
        45_000,
        "A member of the new protocol that is silent for so long is out.",
        low=1,
        high=INT_MAX,
    )
    group_consumer_min_session_timeout_ms: int = ms_field(
        "group.consumer.min.session.timeout.ms",
        45_000,
        "The shortest that a group may be configured with.",
        low=1,
        high=INT_MAX,
    )
    group_consumer_max_session_timeout_ms: int = ms_field(
        "group.consumer.max.session.timeout.ms",
        60_000,
        "The longest that a group may be configured with.",
        low=1,
        high=INT_MAX,
    )
    group_consumer_heartbeat_interval_ms: int = ms_field(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "How often members of the new protocol are to be heard.",
        low=1,
        high=INT_MAX,
    )
    group_consumer_min_heartbeat_interval_ms: int = ms_field(
        "group.consumer.min.heartbeat.interval.ms",
        5_000,
        "The shortest that a group may be configured with.",
        low=1,
        high=INT_MAX,
    )
    group_consumer_max_heartbeat_interval_ms: int = ms_field(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "The longest that a group may be configured with.",
        low=1,
        high=INT_MAX,
    )
    group_consumer_assignment_interval_ms: int = ms_field(
        "group.consumer.assignment.interval.ms",
        1_000,
        "The pause between two assignments of a group of the new protocol.",
        high=INT_MAX,
    )
    group_consumer_min_assignment_interval_ms: int = ms_field(
        "group.consumer.min.assignment.interval.ms",
        0,
        "The shortest that a group may be configured with.",
        high=INT_MAX,
    )
    group_consumer_max_assignment_interval_ms: int = ms_field(
        "group.consumer.max.assignment.interval.ms",
        15_000,
        "The longest that a group may be configured with.",
        high=INT_MAX,
    )
    group_consumer_max_size: int = number_field(
        "group.consumer.max.size",
        INT_MAX,
        "The most members of one group of the new protocol.",
        low=1,
    )
    group_consumer_assignors: tuple[str, ...] = setting_field(
        "group.consumer.assignors",
        Kind.LIST,
        ("uniform", "range"),
        "How partitions are assigned; the first if members have no wish.",
        choices=("uniform", "range"),
    )
    group_consumer_migration_policy: str = text_field(
        "group.consumer.migration.policy",
        "bidirectional",
        "Which groups may change their protocol with members in them.",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
    )
    group_consumer_regex_refresh_interval_ms: int = ms_field(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        "How often regular expressions are matched with the topics anew.",
        low=10_000,
    )


@dataclass(frozen=True, slots=True)
class OwnGroupConfig:
    """What a group may be configured with by itself (KIP-848); the node's settings else."""

    consumer_session_timeout_ms: int = ms_field(
        "consumer.session.timeout.ms",
        45_000,
        "A member that is silent for so long is out.",
        low=1,
        high=INT_MAX,
        broker_name="group.consumer.session.timeout.ms",
    )
    consumer_heartbeat_interval_ms: int = ms_field(
        "consumer.heartbeat.interval.ms",
        5_000,
        "How often members are to be heard.",
        low=1,
        high=INT_MAX,
        broker_name="group.consumer.heartbeat.interval.ms",
    )
    consumer_assignment_interval_ms: int = ms_field(
        "consumer.assignment.interval.ms",
        1_000,
        "The pause between two assignments.",
        high=INT_MAX,
        broker_name="group.consumer.assignment.interval.ms",
    )


SESSION: Final = "consumer.session.timeout.ms"
HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
BOUNDED: Final = (SESSION, HEARTBEAT, "consumer.assignment.interval.ms")

Config = TypeVar("Config", bound=GroupConfig)


def check_own_group_config(config: GroupConfig, own: Mapping[str, str]) -> None:
    """Check what a group is to be configured with against the bounds of the node.

    Args:
        config: the node's settings.
        own: the group's; what this version does not know (any more) is left alone.

    Raises:
        InvalidConfigError: a value is out of bounds, or sessions are too short for the heartbeats.
    """
    for name in BOUNDED:
        low, high = _bound(name, "min"), _bound(name, "max")
        if name in own and not _of(config, low) <= int(own[name]) <= _of(config, high):
            raise InvalidConfigError(
                f"{name}={own[name]} is not within {low}={_of(config, low)} "
                f"and {high}={_of(config, high)}"
            )
    session_ms = int(own.get(SESSION, config.group_consumer_session_timeout_ms))
    heartbeat_ms = int(own.get(HEARTBEAT, config.group_consumer_heartbeat_interval_ms))
    if session_ms <= heartbeat_ms and (SESSION in own or HEARTBEAT in own):
        message = f"{SESSION}={session_ms} is not more than {HEARTBEAT}={heartbeat_ms}"
        raise InvalidConfigError(message)


def with_own_group_config(config: Config, own: Mapping[str, str]) -> Config:
    """Return a node's settings with those of one group in place of what they are for all.

    Bounds may have become narrower since a value was set: then the nearest that they allow holds.
    """
    changes: dict[str, Any] = {
        f"group.{name}".replace(".", "_"): min(
            max(int(own[name]), _of(config, _bound(name, "min"))), _of(config, _bound(name, "max"))
        )
        for name in BOUNDED
        if name in own
    }
    return replace(config, **changes)


def _bound(name: str, which: str) -> str:
    return name.replace("consumer.", f"group.consumer.{which}.", 1)


def _of(config: GroupConfig, name: str) -> int:
    value: int = getattr(config, name.replace(".", "_"))
    return value
