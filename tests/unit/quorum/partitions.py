"""Clusters of a few brokers with one topic, at the newest level."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from quorate.control.messages import SupportedFeature
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.features import NEWEST_LEVEL
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionState

ID = b"i" * 16
FEATURES = (SupportedFeature("metadata.version", 1, NEWEST_LEVEL),)


def epoch_of(broker_id: int) -> int:
    """Return the epoch that a broker of these clusters has."""
    return 10 + broker_id


def broker(broker_id: int, *, fenced: bool = False, rack: str | None = None) -> r.BrokerRegistered:
    return r.BrokerRegistered(
        cause="c",
        time_ms=1,
        broker_id=broker_id,
        broker_epoch=epoch_of(broker_id),
        incarnation_id=bytes([broker_id]) * 16,
        directory_id=bytes([0, broker_id]) * 8,
        endpoints={},
        rack=rack,
        fenced=fenced,
        features=FEATURES,
    )


def created(partition: int, state: PartitionState, topic_id: bytes = ID) -> r.PartitionCreated:
    return r.PartitionCreated(
        cause="c",
        time_ms=1,
        topic_id=topic_id,
        partition=partition,
        replicas=state.replicas,
        isr=state.isr,
        leader_id=state.leader_id,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
        elr=state.elr,
        last_known_leader=state.last_known_leader,
    )


def cluster(
    *states: PartitionState,
    alive: Iterable[int] = (1, 2, 3),
    brokers: Sequence[int] = (1, 2, 3, 4, 5),
    min_isr: int = 2,
    level: int = NEWEST_LEVEL,
) -> MetadataImage:
    """Return an image with a topic "t" whose partitions are so."""
    records: list[r.MetadataRecord] = [
        r.FeatureLevelSet("c", 1, "metadata.version", level),
        *(broker(b, fenced=b not in alive) for b in brokers),
        r.TopicCreated("c", 1, "t", ID),
        r.ConfigSet("c", 1, "topic", "t", "min.insync.replicas", str(min_isr)),
        *(created(n, state) for n, state in enumerate(states)),
    ]
    return apply_records(EMPTY_IMAGE, 20, records)


def partition(
    isr: tuple[int, ...] = (1, 2, 3),
    leader_id: int = 1,
    elr: tuple[int, ...] = (),
    last_known_leader: int = -1,
    replicas: tuple[int, ...] = (1, 2, 3),
) -> PartitionState:
    """Return a partition in leader epoch 5."""
    state = PartitionState(replicas, isr, leader_id, leader_epoch=5, partition_epoch=0)
    return replace(state, elr=elr, last_known_leader=last_known_leader)


def moving(
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    isr: tuple[int, ...],
    leader_id: int,
) -> PartitionState:
    """Return a partition that is being reassigned."""
    state = partition(isr, leader_id, replicas=replicas)
    return replace(state, adding_replicas=adding, removing_replicas=removing)


def with_records(image: MetadataImage, *records: r.MetadataRecord) -> MetadataImage:
    """Return the next image."""
    return apply_records(image, image.version + 1, records)


def the_partition(image: MetadataImage, number: int = 0) -> PartitionState:
    """Return a partition of the topic."""
    return image.topics["t"].partitions[number]
