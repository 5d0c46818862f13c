"""What a broker tells: read from it when somebody asks, so that serving clients costs nothing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from quorate.broker.handlers.context import Broker
from quorate.broker.replication.leader import LeaderReplica
from quorate.broker.request_times import ApiTimes
from quorate.broker.transactions.transaction import NAMES, TxnState
from quorate.dataclass import dataclass
from quorate.net.reactor import Traffic
from quorate.protocol.apis import APIS
from quorate.quorum.metadata.delta import MetadataDelta
from quorate.tools.metrics.request_times import TimeSamples
from quorate.tools.metrics.specs import Sample

RUNNING: Final = 3
STARTING: Final = 2


class Requests(Protocol):
    """Who counts connections and requests."""

    @property
    def connection_count(self) -> int:
        """How many connections there are."""
        ...

    def request_counts(self) -> Mapping[tuple[int, int], int]:
        """Return how many requests came, by API key and version."""
        ...

    def request_times(self) -> Mapping[str, ApiTimes]:
        """Return how long requests took, by Kafka's names of them."""
        ...


@dataclass(frozen=True, slots=True)
class _Seen:
    leader_epoch: int
    records: int
    size_bytes: int


class BrokerMetrics:
    """Reads a broker's metrics.

    State: what only shows as a difference: records and bytes by topic, as of the last look;
    changes of ISRs, counted when the metadata says so.
    """

    def __init__(self, broker: Broker, traffic: Traffic, requests: Requests) -> None:
        self._broker = broker
        self._traffic = traffic
        self._requests = requests
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._messages = Counter[str]()
        self._bytes_in = Counter[str]()
        self._times = TimeSamples()
        self._shrinks = 0
        self._expands = 0
        broker.replicas.on_followed += [self._count_isr_changes, self._forget_topics]

    @property
    def is_ready(self) -> bool:
        """Whether the broker is in service, as far as it knows."""
        own = self._broker.replicas.image.brokers.get(self._broker.config.node_id)
        return own is not None and not own.fenced

    def samples(self) -> Iterator[Sample]:
        """Yield all that there is to tell."""
        yield Sample("kafka_server_kafkaserver_brokerstate", RUNNING if self.is_ready else STARTING)
        yield from self._network()
        yield from self._replicas()
        yield from self._logs()
        yield from self._groups()
        yield from self._transactions()
        broker = self._broker
        yield Sample("quorate_log_syncs", broker.sync_count)
        yield Sample("quorate_log_sync_seconds", broker.sync_s)
        yield Sample("quorate_log_refusals", broker.replicas.store.refusals.count)
        yield Sample("quorate_metadata_version", broker.replicas.image.version)

    def _network(self) -> Iterator[Sample]:
        for (key, version), count in self._requests.request_counts().items():
            labels = (APIS[key].name, str(version))
            yield Sample("kafka_network_requestmetrics_requests", count, labels)
        yield from self._times.samples(self._requests.request_times(), self._broker.now_ms)
        connections = self._requests.connection_count
        yield Sample("kafka_server_socketservermetrics_connection_count", connections)
        traffic = self._traffic
        yield Sample("quorate_network_connections_accepted", traffic.accepted)
        yield Sample("quorate_network_connections_refused", traffic.refused)
        yield Sample("quorate_network_received_bytes", traffic.received_bytes)
        yield Sample("quorate_network_sent_bytes", traffic.sent_bytes)
        yield Sample("quorate_sendfile_bytes", traffic.sendfile_bytes)

    def _replicas(self) -> Iterator[Sample]:
        replicas = self._broker.replicas
        leaders = list(replicas)
        under = sum(len(each.isr.committed) < len(each.state.replicas) for each in leaders)
        yield Sample("kafka_server_replicamanager_partitioncount", len(list(replicas.hosted())))
        yield Sample("kafka_server_replicamanager_leadercount", len(leaders))
        yield Sample("kafka_server_replicamanager_underreplicatedpartitions", under)
        under_min = sum(each.is_under_min_isr for each in leaders)
        yield Sample("kafka_server_replicamanager_underminisrpartitioncount", under_min)
        yield Sample("kafka_server_replicamanager_isrshrinks", self._shrinks)
        yield Sample("kafka_server_replicamanager_isrexpands", self._expands)
        for topic, lag in _greatest(_high_watermark_lags(leaders)).items():
            yield Sample("quorate_replication_high_watermark_lag_records", lag, (topic,))
        for topic, lag in _greatest(_stable_lags(leaders)).items():
            yield Sample("kafka_cluster_partition_laststableoffsetlag", lag, (topic,))
        for follower, lag in _greatest(_follower_lags(leaders)).items():
            yield Sample("quorate_replication_follower_lag_records", lag, (follower,))
        self._count_messages(leaders)
        for topic, records in self._messages.items():
            yield Sample("kafka_server_brokertopicmetrics_messagesin", records, (topic,))
        for topic, size_bytes in self._bytes_in.items():
            yield Sample("kafka_server_brokertopicmetrics_bytesin", size_bytes, (topic,))
        for topic, size_bytes in self._broker.bytes_out.items():
            yield Sample("kafka_server_brokertopicmetrics_bytesout", size_bytes, (topic,))

    def _count_messages(self, leaders: Iterable[LeaderReplica]) -> None:
        """Count what came since the last look: a leader's log only grows in its epoch."""
        for leader in leaders:
            key, epoch = leader.topic_partition, leader.leader_epoch
            seen = _Seen(
                epoch,
                leader.log.log_end_offset - leader.epoch_start_offset,
                leader.log.written_bytes - leader.epoch_start_bytes,
            )
            before = self._seen.get(key)
            if before is None or before.leader_epoch != epoch:
                before = _Seen(epoch, 0, 0)
            self._messages[key.topic] += max(0, seen.records - before.records)
            self._bytes_in[key.topic] += max(0, seen.size_bytes - before.size_bytes)
            self._seen[key] = seen

    def _logs(self) -> Iterator[Sample]:
        sizes, segments = Counter[str](), Counter[str]()
        for replica in self._broker.replicas.hosted():
            topic = replica.topic_partition.topic
            sizes[topic] += replica.log.size_bytes
            segments[topic] += replica.log.segment_count
        for topic, size_bytes in sizes.items():
            yield Sample("kafka_log_log_size", size_bytes, (topic,))
        for topic, count in segments.items():
            yield Sample("kafka_log_log_numlogsegments", count, (topic,))

    def _groups(self) -> Iterator[Sample]:
        states = Counter[tuple[str, str]]()
        for coordinator in self._broker.coordinators:
            states.update((each.group_type, each.state_name) for each in coordinator.listings())
        for labels, count in states.items():
            yield Sample("quorate_groups", count, labels)

    def _transactions(self) -> Iterator[Sample]:
        broker = self._broker
        states, oldest_ms = Counter[str](), broker.now_ms
        for coordinator in broker.transactions:
            for transaction in coordinator.standings():
                states[NAMES[transaction.state]] += 1
                if transaction.state is TxnState.ONGOING:
                    oldest_ms = min(oldest_ms, transaction.start_ms)
        for state, count in states.items():
            yield Sample("quorate_transactions", count, (state,))
        open_s = (broker.now_ms - oldest_ms) / 1000
        yield Sample("quorate_transaction_oldest_open_seconds", open_s)
        markers = broker.markers
        yield Sample("quorate_transaction_markers_waiting", markers.waiting_count)
        yield Sample("quorate_transaction_markers_written", markers.written_count)
        yield Sample("quorate_transaction_markers_failed", markers.failed_count)

    def _forget_topics(self, delta: MetadataDelta) -> None:
        """Forget topics that are gone or elsewhere: their series would be told for ever."""
        for topic in delta.left_topics(self._broker.config.node_id, self._messages):
            del self._messages[topic.name], self._bytes_in[topic.name]
            for number in range(len(topic.partitions)):
                self._seen.pop((topic.name, number), None)

    def _count_isr_changes(self, delta: MetadataDelta) -> None:
        """Count how ISRs changed of partitions that are led here."""
        own_id = self._broker.config.node_id
        for name in delta.touched.topics:
            before, after = delta.before.topics.get(name), delta.after.topics.get(name)
            if before is None or after is None or before.topic_id != after.topic_id:
                continue
            for old, new in zip(before.partitions, after.partitions, strict=False):
                if old is not new and new.leader_id == own_id:
                    self._shrinks += not set(old.isr) <= set(new.isr)
                    self._expands += not set(new.isr) <= set(old.isr)


def _high_watermark_lags(leaders: Iterable[LeaderReplica]) -> Iterator[tuple[str, int]]:
    for leader in leaders:
        yield leader.topic_partition.topic, leader.log.log_end_offset - leader.high_watermark


def _stable_lags(leaders: Iterable[LeaderReplica]) -> Iterator[tuple[str, int]]:
    for leader in leaders:
        yield leader.topic_partition.topic, leader.high_watermark - leader.last_stable_offset


def _follower_lags(leaders: Iterable[LeaderReplica]) -> Iterator[tuple[str, int]]:
    for leader in leaders:
        for broker_id, follower in leader.followers.items():
            lag = leader.log.log_end_offset - max(0, follower.log_end_offset)
            yield str(broker_id), lag


def _greatest(values: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in values:
        found[name] = max(value, found.get(name, 0))
    return found
