"""Every metric that nodes export: its name, kind, labels and meaning.

Names are those that Kafka's beans get from the Prometheus JMX exporter with the rules that it ships
for Kafka (``kafka-2_0_0.yml``, names in lower case), so that dashboards made for Kafka show
Quorate's. What Kafka does not have is called ``quorate_``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from quorate.dataclass import dataclass

Kind = Literal["counter", "gauge", "summary"]


@dataclass(frozen=True, slots=True)
class Spec:
    """A metric; counters are called ``..._total`` where they are shown.

    A summary has quantiles, with one label more than its ``..._count`` and ``..._sum``.
    """

    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """A value of a metric, with the values of its labels in their order.

    ``suffix`` is which value of a summary it is: ``_count``, ``_sum``, or nothing for a quantile.
    """

    name: str
    value: float
    labels: tuple[str, ...] = ()
    suffix: str = ""


BROKER: Final[Mapping[str, Spec]] = {
    "kafka_server_kafkaserver_brokerstate": Spec("gauge", "3: running; 2: not in service yet."),
    "kafka_server_brokertopicmetrics_messagesin": Spec(
        "counter", "Records appended to partitions led here.", ("topic",)
    ),
    "kafka_server_brokertopicmetrics_bytesin": Spec(
        "counter", "Bytes of batches appended to partitions led here.", ("topic",)
    ),
    "kafka_server_brokertopicmetrics_bytesout": Spec(
        "counter", "Bytes of batches sent to consumers.", ("topic",)
    ),
    "kafka_network_requestmetrics_requests": Spec(
        "counter", "Requests that came, by API and version.", ("request", "version")
    ),
    "kafka_network_requestmetrics_totaltimems": Spec(
        "summary", "Milliseconds from when a request came to its answer's being sent.",
        ("request", "quantile"),
    ),
    "kafka_network_requestmetrics_localtimems": Spec(
        "summary", "Milliseconds of that in which the broker worked on it.", ("request",)
    ),
    "kafka_network_requestmetrics_remotetimems": Spec(
        "summary", "Milliseconds of that for which it waited: for followers, records, controllers.",
        ("request",),
    ),
    "kafka_server_socketservermetrics_connection_count": Spec("gauge", "Connections of clients."),
    "quorate_network_connections_accepted": Spec("counter", "Plain connections taken."),
    "quorate_network_connections_refused": Spec("counter", "Plain connections refused."),
    "quorate_network_received_bytes": Spec("counter", "Bytes received over plain connections."),
    "quorate_network_sent_bytes": Spec("counter", "Bytes sent over plain connections."),
    "quorate_sendfile_bytes": Spec(
        "counter", "Bytes of those that the system sent from files by itself."
    ),
    "kafka_server_replicamanager_partitioncount": Spec("gauge", "Replicas here."),
    "kafka_server_replicamanager_leadercount": Spec("gauge", "Partitions led here."),
    "kafka_server_replicamanager_underreplicatedpartitions": Spec(
        "gauge", "Partitions led here that have replicas out of sync."
    ),
    "kafka_server_replicamanager_underminisrpartitioncount": Spec(
        "gauge", "Partitions led here with fewer replicas in sync than acks=all needs."
    ),
    "kafka_server_replicamanager_isrshrinks": Spec("counter", "ISRs led here that lost a member."),
    "kafka_server_replicamanager_isrexpands": Spec("counter", "ISRs led here that won a member."),
    "quorate_replication_high_watermark_lag_records": Spec(
        "gauge", "Records that are not committed yet, the most of any partition led here.",
        ("topic",),
    ),
    "kafka_cluster_partition_laststableoffsetlag": Spec(
        "gauge",
        "Committed records behind an open transaction, the most of any partition led here.",
        ("topic",),
    ),
    "quorate_replication_follower_lag_records": Spec(
        "gauge", "How far a follower is behind at most, of partitions led here.", ("follower",)
    ),
    "kafka_log_log_size": Spec("gauge", "Bytes of log here.", ("topic",)),
    "kafka_log_log_numlogsegments": Spec("gauge", "Segments of logs here.", ("topic",)),
    "quorate_log_syncs": Spec("counter", "Times that logs were made durable for acknowledgements."),
    "quorate_log_sync_seconds": Spec("counter", "How long that took in all."),
    "quorate_log_refusals": Spec("counter", "Times that a full or broken disk refused records."),
    "quorate_metadata_version": Spec("gauge", "Offset of the metadata that this broker is at."),
    "quorate_groups": Spec("gauge", "Groups coordinated here.", ("type", "state")),
    "quorate_transactions": Spec("gauge", "Transactional ids coordinated here.", ("state",)),
    "quorate_transaction_oldest_open_seconds": Spec("gauge", "Age of the oldest open one."),
    "quorate_transaction_markers_waiting": Spec("gauge", "Markers that wait to be sent."),
    "quorate_transaction_markers_written": Spec("counter", "Markers that leaders wrote."),
    "quorate_transaction_markers_failed": Spec("counter", "Markers that leaders refused."),
}  # fmt: skip

CONTROLLER: Final[Mapping[str, Spec]] = {
    "kafka_controller_kafkacontroller_activecontrollercount": Spec("gauge", "1: this one decides."),
    "kafka_controller_kafkacontroller_activebrokercount": Spec("gauge", "Brokers in service."),
    "kafka_controller_kafkacontroller_fencedbrokercount": Spec("gauge", "Brokers out of service."),
    "kafka_controller_kafkacontroller_globaltopiccount": Spec("gauge", "Topics."),
    "kafka_controller_kafkacontroller_globalpartitioncount": Spec("gauge", "Partitions."),
    "kafka_controller_kafkacontroller_offlinepartitionscount": Spec(
        "gauge", "Partitions that nobody leads."
    ),
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount": Spec(
        "gauge", "Partitions that another one than the preferred leads."
    ),
    "kafka_controller_kafkacontroller_lastappliedrecordoffset": Spec(
        "gauge", "Offset of the newest metadata here."
    ),
    "kafka_controller_controllerstats_uncleanleaderelections": Spec(
        "counter", "Elections that may have lost records, since this process knows."
    ),
    "quorate_controller_leader_elections": Spec(
        "counter", "Changes of a partition's leader, since this process knows."
    ),
    "quorate_controller_isr_changes": Spec(
        "counter", "Changes of an ISR, since this process knows."
    ),
    "kafka_server_raft_metrics_current_leader": Spec("gauge", "Id of who leads; -1: nobody."),
    "kafka_server_raft_metrics_current_epoch": Spec("gauge", "The term."),
    "kafka_server_raft_metrics_high_watermark": Spec("gauge", "Log entries that are committed."),
    "kafka_server_raft_metrics_log_end_offset": Spec("gauge", "Log entries that are here."),
    "kafka_server_raft_metrics_number_of_voters": Spec("gauge", "Controllers that vote."),
    "quorate_quorum_elections": Spec("counter", "Terms that began, since this process knows."),
    "quorate_quorum_log_syncs": Spec("counter", "Times that the log was made durable."),
    "quorate_quorum_log_sync_seconds": Spec("counter", "How long that took in all."),
    "quorate_quorum_disk_full": Spec("gauge", "1: its log or a snapshot waits for space."),
}

PROCESS: Final[Mapping[str, Spec]] = {
    "quorate_event_loop_lag_seconds": Spec(
        "gauge", "How much too late the event loop was at most, since it was asked last."
    ),
    "quorate_build_info": Spec("gauge", "1.", ("version", "role", "node_id")),
}

ALL: Final[Mapping[str, Spec]] = {**BROKER, **CONTROLLER, **PROCESS}


def shown_name(name: str) -> str:
    """Return a metric's name as it is shown, and asked for."""
    return f"{name}_total" if ALL[name].kind == "counter" else name


def grouped(samples: Iterable[Sample]) -> Iterator[tuple[str, list[Sample]]]:
    """Yield samples by metric, in the order of the first of each."""
    together: dict[str, list[Sample]] = {}
    for sample in samples:
        together.setdefault(sample.name, []).append(sample)
    yield from together.items()
