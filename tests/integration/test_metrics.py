"""What a node tells Prometheus of requests that real clients sent."""

import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from tests.compat import serving
from tests.compat.peers import nodes
from tests.conftest import IN_A_HURRY

pytestmark = pytest.mark.integration

RECORDS = 10
LARGE_BYTES = 100_000
"""What is small is read, and joined with what comes before it."""
TIMES = "kafka_network_requestmetrics_"


def scrape(address: str) -> dict[tuple[str, ...], float]:
    """Return values by name and the values of labels, those in the order of the labels' names."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_request_times_and_bytes_of_topics_are_told(tmp_path: Path) -> None:
    address = f"{nodes.HOST}:{nodes.free_port()}"
    with serving.quorate({**IN_A_HURRY, "quorate.metrics.listener": address}, tmp_path) as node:
        common = {"bootstrap.servers": node.server.bootstrap}
        producer = Producer({**common, "acks": "all", "linger.ms": 0})
        for _ in range(RECORDS):
            producer.produce("told", b"v" * 100)
            assert producer.flush(10) == 0
        producer.produce("large", bytes(LARGE_BYTES))
        assert producer.flush(10) == 0
        consumer = Consumer({**common, "group.id": "g", "fetch.wait.max.ms": 50})
        consumer.assign([TopicPartition(topic, 0, 0) for topic in ("told", "large")])
        got = 0
        while got < RECORDS + 1:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            got += 1
        consumer.poll(0.2)  # a fetch waits for more, in vain
        consumer.close()
        values = scrape(address)
    written = values["kafka_server_brokertopicmetrics_bytesin_total", "told"]
    assert RECORDS * 100 < written < RECORDS * 300
    assert values["kafka_server_brokertopicmetrics_bytesout_total", "told"] == written
    assert values["quorate_sendfile_bytes_total",] > LARGE_BYTES
    asked = sum(
        count for key, count in values.items() if key[:2] == (f"{TIMES}requests_total", "Produce")
    )
    assert values[f"{TIMES}totaltimems_count", "Produce"] == asked >= RECORDS
    for request in ("Produce", "Fetch", "Metadata", "ApiVersions"):
        total = values[f"{TIMES}totaltimems_sum", request]
        waited = values[f"{TIMES}remotetimems_sum", request]
        assert values[f"{TIMES}localtimems_sum", request] > 0
        assert 0 <= waited < total
    assert values[f"{TIMES}remotetimems_sum", "FetchConsumer"] >= 40
    low, high = (values[f"{TIMES}totaltimems", q, "Fetch"] for q in ("0.50", "0.999"))
    assert 0 < low <= high < 10_000
