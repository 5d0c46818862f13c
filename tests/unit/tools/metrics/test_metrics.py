"""What brokers and controllers tell Prometheus, and that documents and dashboards speak of that."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from quorate.broker.handlers.context import Caller
from quorate.broker.handlers.fetch import fetch
from quorate.broker.request_times import ApiTimes, RequestTimes
from quorate.model import NO_LEADER
from quorate.net.reactor import Traffic
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import FetchPartition, FetchRequest, FetchTopic
from quorate.quorum.control.succession import UNCLEAN
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.machine import Committed, MetadataMachine, encode_command
from quorate.settings import node_config
from quorate.tools.metrics.broker import BrokerMetrics
from quorate.tools.metrics.controller import ChangeCounter, ControllerMetrics
from quorate.tools.metrics.exposition import exposition, registry_of
from quorate.tools.metrics.http import Asked
from quorate.tools.metrics.specs import ALL, Sample, shown_name
from quorate.tools.metrics_server import MetricsServer, NodeMetrics, metrics_endpoint
from quorate.tools.problems import UsageError
from tests.unit.broker.handlers.transacting import add, end, init, new_transactions
from tests.unit.broker.harness import Node, new_cluster, new_node

if TYPE_CHECKING:
    from quorate.quorum.controller import Controller

DOCS = Path(__file__).parents[4] / "docs"
OTHERS = re.compile(r"process_\w+")


class Counts:
    """Requests and connections, as a server counts them."""

    connection_count = 3

    def request_counts(self) -> dict[tuple[int, int], int]:
        return {(ApiKey.PRODUCE, 13): 7}

    def request_times(self) -> Mapping[str, ApiTimes]:
        times = RequestTimes()
        times.short = 7
        times.end_short_turn(0.004)
        return times.by_name()


def metrics_of(node: Node) -> BrokerMetrics:
    return BrokerMetrics(node.broker, Traffic(), Counts())


def told(metrics: BrokerMetrics) -> dict[tuple[str, ...], float]:
    return {(s.name + s.suffix, *s.labels): s.value for s in metrics.samples()}


def series_of(topic: str, metrics: BrokerMetrics) -> set[str]:
    return {name for name, *labels in told(metrics) if topic in labels}


# --- brokers


def test_a_broker_is_ready_while_it_is_in_service() -> None:
    node = new_node()
    metrics = metrics_of(node)
    assert not metrics.is_ready
    assert told(metrics)["kafka_server_kafkaserver_brokerstate",] == 2
    node.join()
    assert metrics.is_ready
    assert told(metrics)["kafka_server_kafkaserver_brokerstate",] == 3


def test_a_broker_tells_requests_connections_and_logs() -> None:
    node = new_node()
    node.join()
    node.create_topic("t", 2)
    node.append(b"a", b"b", topic="t")
    values = told(metrics_of(node))
    assert values["kafka_network_requestmetrics_requests", "Produce", "13"] == 7
    assert values["kafka_network_requestmetrics_totaltimems_count", "Produce"] == 7
    assert values["kafka_network_requestmetrics_totaltimems_sum", "Produce"] == 28
    assert 2 < values["kafka_network_requestmetrics_totaltimems", "Produce", "0.99"] < 5
    assert values["kafka_network_requestmetrics_localtimems_sum", "Produce"] == 4
    assert values["kafka_network_requestmetrics_remotetimems_sum", "Produce"] == 0
    assert values["kafka_server_socketservermetrics_connection_count",] == 3
    assert values["kafka_server_replicamanager_partitioncount",] == 2
    assert values["kafka_server_replicamanager_leadercount",] == 2
    assert values["kafka_log_log_size", "t"] > 0
    assert values["quorate_replication_high_watermark_lag_records", "t"] == 0
    assert values["kafka_cluster_partition_laststableoffsetlag", "t"] == 0


def test_records_are_counted_across_looks_and_leaderships() -> None:
    node = new_node()
    node.join()
    node.create_topic("t", segment_bytes="1024")
    metrics = metrics_of(node)
    name = ("kafka_server_brokertopicmetrics_messagesin", "t")
    size = ("kafka_server_brokertopicmetrics_bytesin", "t")
    assert told(metrics)[name] == told(metrics)[size] == 0
    node.append(b"a", b"b", topic="t")
    assert told(metrics)[name] == told(metrics)[name] == 2
    assert told(metrics)[size] == node.leader("t").log.size_bytes
    node.lead("t", 0, 1)
    node.append(bytes(900), topic="t")
    assert told(metrics)[name] == 3
    log = node.leader("t").log
    assert log.segment_count == 2
    assert told(metrics)[size] == log.size_bytes


def test_what_consumers_are_sent_is_counted_by_topic_until_it_is_deleted() -> None:
    node = new_node()
    node.join()
    topic_id = node.create_topic("t")
    metrics = metrics_of(node)
    name = ("kafka_server_brokertopicmetrics_bytesout", "t")
    assert name not in told(metrics)
    node.append(b"a", b"b", topic="t")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    asked = FetchRequest(max_bytes=1000, topics=topics)
    for looks in (1, 2):
        fetch(node.broker, asked, Caller("PLAINTEXT", 12))
        assert told(metrics)[name] == looks * node.leader("t").log.size_bytes
    node.apply(r.TopicRemoved("test", 0, topic_id))
    assert name not in told(metrics)


def test_a_topic_made_again_is_counted_anew() -> None:
    node = new_node()
    node.join()
    topic_id = node.create_topic("t", 2)
    metrics = metrics_of(node)
    node.append(b"a", b"b", topic="t")
    assert told(metrics)["kafka_server_brokertopicmetrics_messagesin", "t"] == 2
    node.apply(r.TopicRemoved("test", 0, topic_id))
    assert series_of("t", metrics) == set()
    node.create_topic("t")
    node.append(b"a", topic="t")
    assert told(metrics)["kafka_server_brokertopicmetrics_messagesin", "t"] == 1


def test_a_topic_whose_last_partition_moves_away_is_told_of_no_more() -> None:
    node = new_cluster()
    node.apply(r.FeatureLevelSet("test", 0, "metadata.version", 3))
    topic_id = node.create_topic("t", 2)
    metrics = metrics_of(node)
    for partition in (0, 1):
        node.append(b"a", topic="t", partition=partition)
        node.broker.bytes_out["t"] = 7
        assert "kafka_server_brokertopicmetrics_bytesin" in series_of("t", metrics)
        moved = r.PartitionChanged("test", 0, topic_id, partition, 2, 1, (2,), replicas=(2,))
        node.apply(moved)
    assert series_of("t", metrics) == set()


def test_replicas_out_of_sync_are_told_and_isr_changes_counted() -> None:
    node = new_cluster({"default.replication.factor": "2"})
    metrics = metrics_of(node)
    topic_id = node.create_topic("t", replicas=(1, 2), min_insync_replicas="2")
    node.append(b"a", b"b", topic="t")
    values = told(metrics)
    assert values["kafka_server_replicamanager_underreplicatedpartitions",] == 1
    assert values["kafka_server_replicamanager_underminisrpartitioncount",] == 1
    assert values["quorate_replication_follower_lag_records", "2"] == 2
    for isr in ((1, 2), (1,)):
        node.apply(r.PartitionChanged("test", 0, topic_id, 0, 1, 0, isr))
    node.apply(r.TopicRemoved("test", 0, topic_id))
    values = told(metrics)
    assert values["kafka_server_replicamanager_isrexpands",] == 1
    assert values["kafka_server_replicamanager_isrshrinks",] == 1


# --- controllers


def test_elections_and_isr_changes_are_counted_from_the_records() -> None:
    machine = MetadataMachine()
    topic_id = bytes(16)

    def commit(index: int, *records: r.MetadataRecord) -> None:
        done = machine.apply(index, 1, encode_command(machine.image.version, records))
        assert done == Committed(index), done

    commit(
        1,
        r.FeatureLevelSet("c", 0, "metadata.version", 3),
        r.TopicCreated("c", 0, "t", topic_id),
        r.PartitionCreated("c", 0, topic_id, 0, (1, 2), (1, 2), 1),
    )
    counter = ChangeCounter(machine)
    commit(2, r.PartitionChanged("c", 0, topic_id, 0, 2, 1, (2,)))
    counter.look()
    assert (counter.elections, counter.isr_changes, counter.unclean) == (1, 1, 0)
    commit(3, r.PartitionChanged("c", 0, topic_id, 0, NO_LEADER, 2, (), elr=(2,)))
    commit(4, r.PartitionChanged(f"c; {UNCLEAN}", 0, topic_id, 0, 1, 3, (1,), elr=()))
    commit(5, r.TopicRemoved("c", 0, topic_id))
    counter.look()
    assert (counter.elections, counter.unclean) == (2, 1)


def test_what_is_a_snapshot_by_now_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = MetadataMachine()
    counter = ChangeCounter(machine)
    machine.apply(1, 1, encode_command(0, [r.TopicCreated("c", 0, "t", bytes(16))]))

    def far_behind(version: int) -> bool:
        return version < machine.image.version

    monkeypatch.setattr(machine, "needs_snapshot", far_behind)
    counter.look()
    assert counter.elections == 0


# --- as text


def test_samples_become_what_prometheus_reads() -> None:
    samples = [
        Sample("quorate_groups", 2, ("classic", "Stable")),
        Sample("quorate_log_syncs", 5),
        Sample("quorate_groups", 1, ("consumer", "Empty")),
        Sample("kafka_network_requestmetrics_totaltimems", 0.5, ("Fetch", "0.99")),
        Sample("kafka_network_requestmetrics_totaltimems", 3, ("Fetch",), "_count"),
    ]
    text = exposition(registry_of(lambda: samples)).decode()
    assert 'quorate_groups{state="Stable",type="classic"} 2.0' in text
    assert "# TYPE quorate_log_syncs_total counter\nquorate_log_syncs_total 5.0" in text
    assert "process_cpu_seconds_total" in text
    times = "kafka_network_requestmetrics_totaltimems"
    assert f"# TYPE {times} summary" in text
    assert f'{times}{{quantile="0.99",request="Fetch"}} 0.5' in text
    assert f'{times}_count{{request="Fetch"}} 3.0' in text
    assert text.count("# TYPE quorate_groups gauge") == 1


def test_all_that_a_broker_tells_is_declared_with_as_many_labels() -> None:
    node = new_node()
    node.join()
    node.create_topic("t")
    for sample in metrics_of(node).samples():
        of_all = sample.suffix and "quantile" in ALL[sample.name].labels
        assert len(sample.labels) == len(ALL[sample.name].labels) - bool(of_all)


def test_transactions_are_counted_by_state_and_the_oldest_is_timed() -> None:
    node = new_transactions()
    for name in ("a", "b"):
        init(node, transactional_id=name)
    add(node, 0, v3_and_below_transactional_id="a")
    node.wait(2_000)
    found = {(s.name, *s.labels): s.value for s in metrics_of(node).samples()}
    assert found["quorate_transactions", "Ongoing"] == found["quorate_transactions", "Empty"] == 1
    assert found["quorate_transaction_oldest_open_seconds",] == 2.0
    end(node, transactional_id="a")
    found = {(s.name, *s.labels): s.value for s in metrics_of(node).samples()}
    assert found["quorate_transaction_oldest_open_seconds",] == 0
    assert found["quorate_transaction_markers_written",] == 1


@pytest.mark.parametrize(
    ("leader", "log_full", "is_ready"),
    [(None, False, False), ("a voter", False, True), ("a voter", True, False)],
)
def test_a_controller_is_ready_that_can_follow_whoever_leads(
    leader: str | None, *, log_full: bool, is_ready: bool
) -> None:
    rounds = SimpleNamespace(leader=leader)
    raft = SimpleNamespace(machine=MetadataMachine(), term=1, rounds=rounds, log_full=log_full)
    metrics = ControllerMetrics(cast("Controller", SimpleNamespace(raft=raft)))
    assert metrics.is_ready is is_ready


def test_a_node_is_ready_once_all_of_it_is() -> None:
    node = new_node()
    metrics = NodeMetrics("broker", 1)
    server = MetricsServer(metrics)
    assert server.told(Asked("/healthz")).status == 200
    assert server.told(Asked("/readyz")).body == b"not ready: starting\n"
    metrics.sources["broker"] = metrics_of(node)
    assert server.told(Asked("/readyz")).body == b"not ready: broker\n"
    node.join()
    assert server.told(Asked("/readyz")).status == 200
    assert server.told(Asked("/")).status == 404
    shown = server.told(Asked("/metrics")).body.decode()
    assert 'quorate_build_info{node_id="1",role="broker"' in shown
    assert shown.count("kafka_server_kafkaserver_brokerstate 3.0") == 1


def test_where_metrics_are_served_is_an_address() -> None:
    config = node_config({"quorate.metrics.listener": "127.0.0.1:9308"})
    assert str(metrics_endpoint(config)) == "127.0.0.1:9308"
    with pytest.raises(UsageError, match="no address"):
        metrics_endpoint(node_config({"quorate.metrics.listener": "9308"}))


# --- documents


def expressions(document: Any) -> list[str]:
    return [target["expr"] for panel in document["panels"] for target in panel.get("targets", ())]


def test_every_expression_of_the_dashboard_names_metrics_that_there_are() -> None:
    document = json.loads((DOCS / "grafana" / "quorate.json").read_text())
    shown = {shown_name(name): spec for name, spec in ALL.items()}
    for name, spec in ALL.items():
        if spec.kind == "summary":
            shown |= {f"{name}_count": spec, f"{name}_sum": spec}
    asked = expressions(document)
    assert len(asked) >= 25
    for expression in asked:
        names = re.findall(r"\b(\w+)\{", expression)
        assert names, expression
        for name in names:
            assert name in shown or OTHERS.fullmatch(name), name
        for clause in re.findall(r"by \(([\w, ]+)\)", expression):
            labels = {label for name in names if name in shown for label in shown[name].labels}
            assert set(clause.split(", ")) <= labels | {"instance"}, expression


def test_the_page_lists_every_metric_with_its_meaning() -> None:
    page = (DOCS / "metrics.md").read_text()
    for name, spec in ALL.items():
        row = f"| `{shown_name(name)}` | {', '.join(spec.labels)} | {spec.meaning} |"
        assert row in page
