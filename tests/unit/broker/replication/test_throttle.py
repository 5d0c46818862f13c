"""Replicas that move fetch no faster than their broker is told."""

from dataclasses import replace

import pytest

from quorate.broker.replication.throttle import RATE, Throttle
from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.settings import TopicConfig

PARTITION = TopicPartition("t", 3)
FREE = TopicConfig()
THROTTLED = replace(FREE, follower_replication_throttled_replicas=("3:7", "4:8"))


def rate(text: str, broker: str = "7") -> MetadataImage:
    return apply_records(EMPTY_IMAGE, 1, [r.ConfigSet("c", 1, "broker", broker, RATE, text)])


def resume_ms(
    config: TopicConfig, image: MetadataImage, node_id: int = 7, partition: int = 3
) -> int:
    fetched = TopicPartition("t", partition), 5000
    return Throttle(node_id).resume_ms(image, config, fetched, 10_000)


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
    throttle, image = Throttle(7), rate("1000")
    assert throttle.resume_ms(image, THROTTLED, (PARTITION, 1000), 10_000) == 11_000
    assert throttle.resume_ms(image, THROTTLED, (PARTITION, 500), 10_100) == 11_500
    assert throttle.resume_ms(image, THROTTLED, (PARTITION, 500), 20_000) == 20_500
