"""Replicas that move fetch no faster than their broker is told, and are sent no more than that."""

from dataclasses import replace

import pytest

from quorate.broker.replication.fetching import FetchRules
from quorate.broker.replication.throttle import FOLLOWING, LEADING, Throttle
from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.settings import TopicConfig
from tests.unit.broker.harness import waits
from tests.unit.broker.replication.cluster import TOPIC, Cluster

PARTITION = TopicPartition("t", 3)
FREE = TopicConfig()
THROTTLED = replace(FREE, follower_replication_throttled_replicas=("3:7", "4:8"))


def rate(text: str, broker: str = "7") -> MetadataImage:
    return apply_records(
        EMPTY_IMAGE, 1, [r.ConfigSet("c", 1, "broker", broker, FOLLOWING.rate, text)]
    )


def resume_ms(
    config: TopicConfig, image: MetadataImage, node_id: int = 7, partition: int = 3
) -> int:
    fetched = TopicPartition("t", partition), 5000
    return Throttle(node_id, FOLLOWING).resume_ms(image, config, fetched, 10_000)


@pytest.mark.parametrize("broker", ["7", ""])
def test_a_throttled_replica_waits_until_it_has_fetched_no_faster_than_it_may(broker: str) -> None:
    assert resume_ms(THROTTLED, rate("1000", broker)) == 15_000


def test_all_replicas_may_be_throttled() -> None:
    everywhere = replace(FREE, follower_replication_throttled_replicas=("*",))
    assert resume_ms(everywhere, rate("2500"), partition=9) == 12_000


def test_other_replicas_go_on() -> None:
    assert resume_ms(FREE, rate("1000")) == 0
    assert resume_ms(THROTTLED, rate("1000"), partition=4) == 0
    assert resume_ms(THROTTLED, rate("1000", "8"), node_id=8) == 0
    assert resume_ms(THROTTLED, EMPTY_IMAGE) == 0, "no rate is told"


def test_the_replicas_of_a_broker_share_its_rate() -> None:
    throttle, image = Throttle(7, FOLLOWING), rate("1000")
    assert throttle.resume_ms(image, THROTTLED, (PARTITION, 1000), 10_000) == 11_000
    assert throttle.resume_ms(image, THROTTLED, (PARTITION, 500), 10_100) == 11_500
    assert throttle.resume_ms(image, THROTTLED, (PARTITION, 500), 20_000) == 20_500


# --- leaders


def sending(cluster: Cluster, rate: str) -> None:
    """Have leader 1 send the partition to who is not in sync no faster than so."""
    name = "leader.replication.throttled.replicas"
    cluster.apply(
        r.ConfigSet("test", 0, "topic", TOPIC, name, "0:1"),
        r.ConfigSet("test", 0, "broker", "1", LEADING.rate, rate),
    )


def batches(cluster: Cluster, count: int) -> int:
    """Append batches of the same size; return how large one is."""
    for _ in range(count):
        cluster.append(bytes(1000))
    log = cluster.leader().log
    data = log.read(0, max_bytes=1, limit_offset=log.log_end_offset, at_least_one=True)
    assert data is not None
    return len(data)


def one_at_a_time(cluster: Cluster) -> None:
    cluster.fetcher(2)._rules = FetchRules(partition_bytes_max=1)  # pyright: ignore[reportPrivateUsage]


def test_a_leader_sends_who_is_not_in_sync_no_more_than_it_may() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    size_bytes = batches(cluster, 5)
    one_at_a_time(cluster)
    sending(cluster, str(10 * size_bytes))
    cluster.fetch(2)
    assert cluster.follower(2).log.log_end_offset == 1
    cluster.fetch(2, times=3)
    assert cluster.follower(2).log.log_end_offset == 1, "its 100 ms are not over"
    answer = cluster.ask(cluster.fetcher(2).build())
    cluster.wait(99)
    assert waits(answer)
    cluster.wait(1)
    cluster.take(2, answer)
    assert cluster.follower(2).log.log_end_offset == 2


def test_who_is_held_back_hears_all_the_same_what_is_committed() -> None:
    cluster = Cluster((1, 2), isr=(1,))
    one_at_a_time(cluster)
    sending(cluster, str(batches(cluster, 3)))
    cluster.fetch(2)
    cluster.leader().delete_records_before(1)
    cluster.fetch(2)
    assert cluster.follower(2).log.log_start_offset == 1


def test_a_leader_does_not_hold_back_who_is_in_sync() -> None:
    cluster = Cluster((1, 2))
    one_at_a_time(cluster)
    batches(cluster, 3)
    sending(cluster, "1")
    cluster.fetch(2, times=3)
    assert cluster.follower(2).log.log_end_offset == 3
