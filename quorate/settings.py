"""Typed settings: Kafka property names to frozen dataclasses, with units and ranges.

A setting is declared once, as a field of the dataclass that carries it; its table entry (name,
type, range, unit, meaning) is the field's metadata. Property names are Kafka's; names that Kafka
does not have begin with ``quorate.``.
"""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from quorate.dataclass import dataclass
from quorate.group_settings import OwnGroupConfig
from quorate.setting_fields import (
    INT_MAX,
    LONG_MAX,
    WEEK_MS,
    Kind,
    Setting,
    Value,
    bytes_field,
    flag_field,
    ms_field,
    number_field,
    setting_field,
    text_field,
)
from quorate.setting_relations import COMPACTION_LAGS, NODE_RULES, TOPIC_RULES, check_rules
from quorate.setting_values import find_setting, parse_value, standard_text
from quorate.transaction_settings import CoordinatorConfig


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of one topic."""

    cleanup_policy: tuple[str, ...] = setting_field(
        "cleanup.policy", Kind.LIST, ("delete",),
        "What happens to old records: deleted by age and size, compacted to the last one of each key, both; empty: neither.",
        choices=("delete", "compact"), broker_name="log.cleanup.policy",
    )  # fmt: skip
    compression_gzip_level: int = number_field(
        "compression.gzip.level", -1, "How hard a broker that compresses with gzip tries; -1 for zlib's choice.",
        low=-1, high=9, gap=0, broker_name="compression.gzip.level",
    )  # fmt: skip
    compression_lz4_level: int = number_field(
        "compression.lz4.level", 9, "How hard a broker that compresses with lz4 tries.",
        low=1, high=17, broker_name="compression.lz4.level",
    )  # fmt: skip
    compression_type: str = text_field(
        "compression.type", "producer", "Codec of stored batches; 'producer' keeps what came.",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        broker_name="compression.type",
    )  # fmt: skip
    compression_zstd_level: int = number_field(
        "compression.zstd.level", 3, "How hard a broker that compresses with zstd tries; below 0, hardly.",
        low=-131_072, high=22, broker_name="compression.zstd.level",
    )  # fmt: skip
    delete_retention_ms: int = ms_field(
        "delete.retention.ms", 86_400_000, "How long a compacted log keeps tombstones.",
        broker_name="log.cleaner.delete.retention.ms",
    )  # fmt: skip
    file_delete_delay_ms: int = ms_field(
        "file.delete.delay.ms", 60_000, "How long a deleted segment's files stay on disk.",
        broker_name="log.segment.delete.delay.ms",
    )  # fmt: skip
    flush_messages: int = setting_field(
        "flush.messages", Kind.LONG, LONG_MAX, "Sync the log after so many records; 1 acknowledges only synced ones.",
        low=1, high=LONG_MAX, broker_name="log.flush.interval.messages",
    )  # fmt: skip
    flush_ms: int = ms_field(
        "flush.ms", LONG_MAX, "Sync the log at least so often.", broker_name="log.flush.interval.ms",
    )  # fmt: skip
    follower_replication_throttled_replicas: tuple[str, ...] = setting_field(
        "follower.replication.throttled.replicas", Kind.LIST, (),
        "Replicas that fetch no faster than their broker is told: partition:broker, or * for all.",
        broker_name="follower.replication.throttled.replicas", of_replicas=True,
    )  # fmt: skip
    index_interval_bytes: int = bytes_field(
        "index.interval.bytes", 4096, "Bytes of log between two index entries.",
        broker_name="log.index.interval.bytes",
    )  # fmt: skip
    leader_replication_throttled_replicas: tuple[str, ...] = setting_field(
        "leader.replication.throttled.replicas", Kind.LIST, (),
        "Replicas that send no faster to followers that are not in sync: partition:broker, or * for all.",
        broker_name="leader.replication.throttled.replicas", of_replicas=True,
    )  # fmt: skip
    max_compaction_lag_ms: int = ms_field(
        "max.compaction.lag.ms", LONG_MAX, "Compact a record that is so old, whatever the log's dirty ratio.", low=1,
        broker_name="log.cleaner.max.compaction.lag.ms",
    )  # fmt: skip
    max_message_bytes: int = bytes_field(
        "max.message.bytes", 1_048_588, "The largest record batch accepted.",
        broker_name="message.max.bytes",
    )  # fmt: skip
    message_timestamp_after_max_ms: int = ms_field(
        "message.timestamp.after.max.ms", 3_600_000, "How far ahead of the broker's clock a record's time may be.",
        broker_name="log.message.timestamp.after.max.ms",
    )  # fmt: skip
    message_timestamp_before_max_ms: int = ms_field(
        "message.timestamp.before.max.ms", LONG_MAX, "How far behind the broker's clock a record's time may be.",
        broker_name="log.message.timestamp.before.max.ms",
    )  # fmt: skip
    message_timestamp_type: str = text_field(
        "message.timestamp.type", "CreateTime", "Whose clock dates records: the producer's or the broker's.",
        choices=("CreateTime", "LogAppendTime"), broker_name="log.message.timestamp.type",
    )  # fmt: skip
    min_cleanable_dirty_ratio: float = setting_field(
        "min.cleanable.dirty.ratio", Kind.DOUBLE, 0.5, "Compact a log when this share of it is not compacted yet.",
        low=0, high=1, broker_name="log.cleaner.min.cleanable.ratio",
    )  # fmt: skip
    min_compaction_lag_ms: int = ms_field(
        "min.compaction.lag.ms", 0, "Do not compact records younger than this.",
        broker_name="log.cleaner.min.compaction.lag.ms",
    )  # fmt: skip
    min_insync_replicas: int = number_field(
        "min.insync.replicas", 1, "With fewer replicas in sync, acks=all is refused.",
        low=1, broker_name="min.insync.replicas",
    )  # fmt: skip
    preallocate: bool = flag_field(
        "preallocate", False, "Reserve a segment's space when it is created.",
        broker_name="log.preallocate",
    )  # fmt: skip
    retention_bytes: int = setting_field(
        "retention.bytes", Kind.LONG, -1, "Keep at most so much per partition; -1 is no limit.",
        low=-1, high=LONG_MAX, unit="bytes", broker_name="log.retention.bytes",
    )  # fmt: skip
    retention_ms: int = ms_field(
        "retention.ms", WEEK_MS, "Keep records so long; -1 is forever.", low=-1,
        broker_name="log.retention.ms",
    )  # fmt: skip
    segment_bytes: int = bytes_field(
        "segment.bytes", 1_073_741_824, "Begin a new segment at this size.", low=1024,
        broker_name="log.segment.bytes",
    )  # fmt: skip
    segment_index_bytes: int = bytes_field(
        "segment.index.bytes", 10_485_760, "Begin a new segment when an index has this size.", low=16,
        broker_name="log.index.size.max.bytes",
    )  # fmt: skip
    segment_jitter_ms: int = ms_field(
        "segment.jitter.ms", 0, "Roll by age earlier by up to so much, at random.",
        broker_name="log.roll.jitter.ms",
    )  # fmt: skip
    segment_ms: int = ms_field(
        "segment.ms", WEEK_MS, "Begin a new segment at this age.", low=1, broker_name="log.roll.ms",
    )  # fmt: skip
    unclean_leader_election_enable: bool = flag_field(
        "unclean.leader.election.enable", False, "Elect a replica that may lack committed records.",
        broker_name="unclean.leader.election.enable",
    )  # fmt: skip

    @property
    def compacts(self) -> bool:
        """Whether of each key only the last record is kept."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether records go when they are too old, or too many."""
        return "delete" in self.cleanup_policy


@dataclass(frozen=True, slots=True)
class NodeConfig(CoordinatorConfig):
    """The settings of one node, broker or controller."""

    node_id: int = number_field("node.id", 1, "This node's id, unique in the cluster.")
    log_dir: str = text_field("log.dir", ".quorate", "Where this node keeps its data.")
    listeners: tuple[str, ...] = setting_field(
        "listeners", Kind.LIST, ("PLAINTEXT://127.0.0.1:9092",), "Where clients connect: NAME://host:port.",
    )  # fmt: skip
    advertised_listeners: tuple[str, ...] = setting_field(
        "advertised.listeners", Kind.LIST, (), "What clients are told to connect to; the listeners if empty.",
    )  # fmt: skip
    controller_listener: str = text_field(
        "quorate.controller.listener", "127.0.0.1:9190", "Where the controller listens for brokers.",
    )  # fmt: skip
    controller_advertised_listener: str = text_field(
        "quorate.controller.advertised.listener", "", "What others are told to connect to; the listener if empty.",
    )  # fmt: skip
    controller_join: tuple[str, ...] = setting_field(
        "quorate.controller.join", Kind.LIST, (), "All controllers of the quorum; this one is the only one if empty.",
    )  # fmt: skip
    controller_security_protocol: str = text_field(
        "quorate.controller.security.protocol", "PLAINTEXT", "How one talks to controllers.",
        choices=("PLAINTEXT", "SSL"),
    )  # fmt: skip
    controller_insecure_listener: bool = flag_field(
        "quorate.controller.insecure.listener", False, "Let a controller listen beyond this host without TLS.",
    )  # fmt: skip
    quorum_heartbeat_interval_ms: int = ms_field(
        "quorate.quorum.heartbeat.interval.ms", 100, "How often the leading controller tells the others.", low=10,
    )  # fmt: skip
    quorum_election_timeout_ms: int = ms_field(
        "quorate.quorum.election.timeout.ms", 400, "Controllers elect after one to two times this without a leader.",
        low=40,
    )  # fmt: skip
    quorum_snapshot_entries: int = number_field(
        "quorate.quorum.snapshot.entries", 20_000, "A snapshot of the metadata is written every so many log entries.",
        low=10,
    )  # fmt: skip
    metrics_listener: str = text_field(
        "quorate.metrics.listener", "", "Where /metrics, /healthz and /readyz are served: host:port; nowhere if empty.",
    )  # fmt: skip
    controller_quorum_bootstrap_servers: tuple[str, ...] = setting_field(
        "controller.quorum.bootstrap.servers", Kind.LIST, (), "The controllers that a broker connects to.",
    )  # fmt: skip
    broker_rack: str = text_field(
        "broker.rack", "", "Where the node stands; replicas are spread over racks."
    )
    broker_session_timeout_ms: int = ms_field(
        "broker.session.timeout.ms", 9_000, "A broker silent for so long is fenced.", low=100, high=INT_MAX,
    )  # fmt: skip
    broker_heartbeat_interval_ms: int = ms_field(
        "broker.heartbeat.interval.ms", 2_000, "How often a broker tells the controller that it lives.", low=10, high=INT_MAX,
    )  # fmt: skip
    num_partitions: int = number_field(
        "num.partitions", 1, "Partitions of a topic created without a number.", low=1, dynamic=True,
    )  # fmt: skip
    default_replication_factor: int = number_field(
        "default.replication.factor", 1, "Replicas of a topic created without a number.", low=1, high=32767,
    )  # fmt: skip
    follower_replication_throttled_rate: int = setting_field(
        "follower.replication.throttled.rate", Kind.LONG, LONG_MAX, "Bytes a second that throttled replicas here fetch together.",
        low=1, high=LONG_MAX, unit="bytes", dynamic=True,
    )  # fmt: skip
    leader_replication_throttled_rate: int = setting_field(
        "leader.replication.throttled.rate", Kind.LONG, LONG_MAX, "Bytes a second that throttled replicas here send together to followers that are not in sync.",
        low=1, high=LONG_MAX, unit="bytes", dynamic=True,
    )  # fmt: skip
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting_field(
        "replica.alter.log.dirs.io.max.bytes.per.second", Kind.LONG, LONG_MAX,
        "Taken from Kafka's tools, and without effect: a node has one directory.",
        low=1, high=LONG_MAX, dynamic=True,
    )  # fmt: skip
    auto_leader_rebalance_enable: bool = flag_field(
        "auto.leader.rebalance.enable", True, "Let the first replica of a partition lead again once it can.",
    )  # fmt: skip
    leader_imbalance_check_interval_seconds: int = number_field(
        "leader.imbalance.check.interval.seconds", 300, "How often the controller looks for leaders to move back.",
        low=1,
    )  # fmt: skip
    auto_create_topics_enable: bool = flag_field(
        "auto.create.topics.enable", True, "Create a topic when a client asks for its metadata.",
    )  # fmt: skip
    delete_topic_enable: bool = flag_field(
        "delete.topic.enable", True, "Whether topics may be deleted."
    )
    socket_request_max_bytes: int = bytes_field(
        "socket.request.max.bytes", 104_857_600, "The largest request accepted.", low=1,
    )  # fmt: skip
    small_request_max_bytes: int = bytes_field(
        "quorate.small.request.max.bytes", 1_048_576, "The largest request accepted that is not a Produce.", low=1024,
    )  # fmt: skip
    socket_send_buffer_bytes: int = bytes_field(
        "socket.send.buffer.bytes", 163_840, "SO_SNDBUF; small, it keeps what is sent in the processor's cache; -1 is the system's.",
        low=-1,
    )  # fmt: skip
    socket_receive_buffer_bytes: int = bytes_field(
        "socket.receive.buffer.bytes", -1, "SO_RCVBUF; -1 is the system's.", low=-1,
    )  # fmt: skip
    socket_listen_backlog_size: int = number_field(
        "socket.listen.backlog.size", 512, "Connections waiting for accept.", low=1
    )
    max_connections: int = number_field(
        "max.connections", 10_000, "Connections served at once.", low=1
    )
    connections_max_idle_ms: int = ms_field(
        "connections.max.idle.ms", 600_000, "Close a connection that was silent for so long.", low=1,
    )  # fmt: skip
    max_in_flight_requests: int = number_field(
        "quorate.connection.max.in.flight.requests", 256, "Requests of one connection in work before we stop reading.",
        low=1, high=65_536,
    )  # fmt: skip
    max_in_flight_bytes: int = bytes_field(
        "quorate.connection.max.in.flight.bytes", 4_194_304, "Bytes of one connection's large requests in work, and large answers that wait, before we stop reading.",
        low=1,
    )  # fmt: skip
    fetch_max_bytes: int = bytes_field(
        "fetch.max.bytes", 57_671_680, "The most record bytes in one Fetch answer.", low=1024
    )
    replica_lag_time_max_ms: int = ms_field(
        "replica.lag.time.max.ms", 30_000, "A follower that has lagged for so long is not in sync.", low=100,
    )  # fmt: skip
    replica_fetch_wait_max_ms: int = ms_field(
        "replica.fetch.wait.max.ms", 500, "How long a leader holds a follower's fetch for want of records.", low=1, high=INT_MAX,
    )  # fmt: skip
    replica_fetch_max_bytes: int = bytes_field(
        "replica.fetch.max.bytes", 1_048_576, "The most that a follower fetches of one partition at once.",
    )  # fmt: skip
    replica_fetch_response_max_bytes: int = bytes_field(
        "replica.fetch.response.max.bytes", 10_485_760, "The most that a follower fetches at once.",
    )  # fmt: skip
    replica_fetch_backoff_ms: int = ms_field(
        "replica.fetch.backoff.ms", 1_000, "The longest pause before a follower tries again after an error.", low=20, high=INT_MAX,
    )  # fmt: skip
    log_retention_check_interval_ms: int = ms_field(
        "log.retention.check.interval.ms", 300_000, "How often old segments are looked for.", low=1,
    )  # fmt: skip
    log_flush_offset_checkpoint_interval_ms: int = ms_field(
        "log.flush.offset.checkpoint.interval.ms", 60_000, "How often logs are synced and the recovery point is noted.",
        low=1, high=INT_MAX,
    )  # fmt: skip
    log_cleaner_enable: bool = flag_field(
        "log.cleaner.enable", True, "Compact topics that are to be compacted.",
    )  # fmt: skip
    log_cleaner_threads: int = number_field(
        "log.cleaner.threads", 1, "Logs compacted at once.", low=1, high=64,
    )  # fmt: skip
    log_cleaner_io_max_bytes_per_second: float = setting_field(
        "log.cleaner.io.max.bytes.per.second", Kind.DOUBLE, sys.float_info.max,
        "Bytes a second that compaction reads and writes together.", low=1, dynamic=True,
    )  # fmt: skip
    log_cleaner_dedupe_buffer_size: int = setting_field(
        "log.cleaner.dedupe.buffer.size", Kind.LONG, 134_217_728,
        "Memory for the keys of logs that are compacted, of all threads together; a key takes some 32 bytes.",
        low=1_048_576, high=LONG_MAX, unit="bytes",
    )  # fmt: skip
    log_cleaner_backoff_ms: int = ms_field(
        "log.cleaner.backoff.ms", 15_000, "How often logs to compact are looked for, if there are none.", low=1,
    )  # fmt: skip
    producer_id_expiration_ms: int = ms_field(
        "producer.id.expiration.ms", 86_400_000, "Forget an idle producer's sequences after so long.", low=1, high=INT_MAX,
    )  # fmt: skip
    ssl_keystore_location: str = text_field(
        "ssl.keystore.location",
        "",
        "PEM file with this node's private key and certificate chain.",
    )  # fmt: skip
    ssl_keystore_type: str = text_field(
        "ssl.keystore.type", "PEM", "The keystore's format.", choices=("PEM",)
    )
    ssl_key_password: str = text_field(
        "ssl.key.password", "", "Password of the private key, if it has one."
    )
    ssl_truststore_location: str = text_field(
        "ssl.truststore.location", "", "PEM file with the certificates of those we trust.",
    )  # fmt: skip
    ssl_truststore_type: str = text_field(
        "ssl.truststore.type", "PEM", "The truststore's format.", choices=("PEM",)
    )
    controller_ssl_keystore_location: str = text_field(
        "listener.name.controller.ssl.keystore.location", "", "Towards controllers; ssl.keystore.location if empty.",
    )  # fmt: skip
    controller_ssl_key_password: str = text_field(
        "listener.name.controller.ssl.key.password", "", "Towards controllers; ssl.key.password if empty.",
    )  # fmt: skip
    controller_ssl_truststore_location: str = text_field(
        "listener.name.controller.ssl.truststore.location", "", "Towards controllers; ssl.truststore.location if empty.",
    )  # fmt: skip
    controller_ssl_client_auth: str = text_field(
        "listener.name.controller.ssl.client.auth", "required", "Whether others must show a certificate to a controller.",
        choices=("none", "requested", "required"),
    )  # fmt: skip
    ssl_client_auth: str = text_field(
        "ssl.client.auth", "none", "Whether clients must show a certificate.",
        choices=("none", "requested", "required"),
    )  # fmt: skip
    ssl_endpoint_identification_algorithm: str = text_field(
        "ssl.endpoint.identification.algorithm", "https",
        "Whether the certificates of other brokers must name the host that is connected to: https, or empty for no.",
        choices=("https", ""),
    )  # fmt: skip
    inter_broker_listener_name: str = text_field(
        "inter.broker.listener.name", "", "The listener over which brokers follow each other; PLAINTEXT, if there is one, if empty.",
    )  # fmt: skip
    security_inter_broker_protocol: str = text_field(
        "security.inter.broker.protocol", "", "The same by its protocol; to be left empty if the listener is named.",
        choices=("PLAINTEXT", "SSL", ""),
    )  # fmt: skip


def settings_of(config: type) -> dict[str, Setting]:
    """Return the settings that a config dataclass declares, by property name."""
    return {f.metadata["setting"].name: f.metadata["setting"] for f in dataclasses.fields(config)}


TOPIC_SETTINGS: Final = settings_of(TopicConfig)
"""Every topic setting, by property name."""

NODE_SETTINGS: Final = settings_of(NodeConfig)
"""Every node setting, by property name."""

GROUP_SETTINGS: Final = settings_of(OwnGroupConfig)
"""Every setting that a group may have of its own, by property name."""

TOPIC_DEFAULTS: Final = {
    s.broker_name: dataclasses.replace(s, name=s.broker_name, dynamic=True)
    for s in TOPIC_SETTINGS.values()
}
"""The node-wide properties that topics fall back to, by property name."""

BROKER_SETTINGS: Final = {**NODE_SETTINGS, **TOPIC_DEFAULTS}
"""Everything that a node's configuration may say."""

Config = TypeVar("Config", TopicConfig, NodeConfig)


def _build(config: type[Config], texts: Mapping[str, str]) -> Config:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        setting: Setting = field.metadata["setting"]
        if setting.name in texts:
            values[field.name] = parse_value(setting, texts[setting.name])
    return config(**values)


def node_values(texts: Mapping[str, str]) -> dict[str, Value]:
    """Return all that a node's configuration can say, by property name: what ``texts`` say, else the defaults.

    Raises:
        InvalidConfigError: an unknown name or an invalid value.
    """
    values = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
    for name, text in texts.items():
        values[name] = parse_value(find_setting(BROKER_SETTINGS, name), text)
    return values


def node_config(texts: Mapping[str, str]) -> NodeConfig:
    """Return a node's settings; topic defaults among ``texts`` are checked, and left to :func:`topic_config`.

    Raises:
        InvalidConfigError: an unknown name, an invalid value, or some that contradict each other.
    """
    check_rules(NODE_RULES, node_values(texts))
    return _build(NodeConfig, texts)


def topic_config(node: Mapping[str, str], overrides: Mapping[str, str]) -> TopicConfig:
    """Return a topic's settings: its own, else the node's, else the built-in defaults.

    Raises:
        InvalidConfigError: an unknown name or an invalid value.
    """
    for name in overrides:
        find_setting(TOPIC_SETTINGS, name)
    inherited = {
        s.name: node[s.broker_name] for s in TOPIC_SETTINGS.values() if s.broker_name in node
    }
    return _build(TopicConfig, {**inherited, **overrides})


def checked_topic_overrides(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return a topic's overrides with each value checked and written the standard way.

    Raises:
        InvalidConfigError: an unknown name, an invalid value, or two that contradict each other.
    """
    checked = {n: standard_text(find_setting(TOPIC_SETTINGS, n), t) for n, t in overrides.items()}
    check_compaction_lags(checked)
    return checked


def check_compaction_lags(overrides: Mapping[str, str]) -> None:
    """Check that records need not be compacted before they may be.

    Raises:
        InvalidConfigError: they would have to be.
    """
    values = {
        name: parse_value(TOPIC_SETTINGS[name], overrides[name])
        if name in overrides
        else TOPIC_SETTINGS[name].default
        for name in COMPACTION_LAGS
    }
    check_rules(TOPIC_RULES, values)
