"""The settings of groups; names and defaults are Kafka's."""

from dataclasses import dataclass

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
    )
    offset_metadata_max_bytes: int = bytes_field(
        "offset.metadata.max.bytes", 4096, "The longest text that may be committed with an offset."
    )
    group_initial_rebalance_delay_ms: int = ms_field(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long an empty group waits for more members before it begins.",
    )
    group_min_session_timeout_ms: int = ms_field(
        "group.min.session.timeout.ms",
        6_000,
        "The shortest session timeout that members may ask for.",
    )
    group_max_session_timeout_ms: int = ms_field(
        "group.max.session.timeout.ms",
        1_800_000,
        "The longest session timeout that members may ask for.",
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
    )
    group_consumer_min_session_timeout_ms: int = ms_field(
        "group.consumer.min.session.timeout.ms",
        45_000,
        "The shortest that a group may be configured with.",
        low=1,
    )
    group_consumer_max_session_timeout_ms: int = ms_field(
        "group.consumer.max.session.timeout.ms",
        60_000,
        "The longest that a group may be configured with.",
        low=1,
    )
    group_consumer_heartbeat_interval_ms: int = ms_field(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "How often members of the new protocol are to be heard.",
        low=1,
    )
    group_consumer_min_heartbeat_interval_ms: int = ms_field(
        "group.consumer.min.heartbeat.interval.ms",
        5_000,
        "The shortest that a group may be configured with.",
        low=1,
    )
    group_consumer_max_heartbeat_interval_ms: int = ms_field(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "The longest that a group may be configured with.",
        low=1,
    )
    group_consumer_assignment_interval_ms: int = ms_field(
        "group.consumer.assignment.interval.ms",
        1_000,
        "The pause between two assignments of a group of the new protocol.",
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
