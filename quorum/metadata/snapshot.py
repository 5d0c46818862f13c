"""Snapshots: an image as bytes, in pieces that each take little time to make and to read.

A snapshot is the CBOR array ``[format, version, [piece...]]``, a piece is a batch of records.
There is one for each topic and each configuration, made once and kept until that changes; so a
snapshot costs little more than what changed since the last one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from quorate.control.codec import DecodeError, as_array, dump_cbor, load_cbor
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.codec import Fact, decode_facts, encode_batch
from quorate.quorum.metadata.image import (
    EMPTY_IMAGE,
    BrokerImage,
    ConfigResource,
    InconsistentRecordError,
    MetadataImage,
    PartitionState,
    TopicImage,
)
from quorate.quorum.metadata.sharded import Encoded, K, Shard, V

FORMAT: Final = 2
CAUSE: Final = "snapshot"
"""Why the records of a snapshot are there: what made them so is not kept."""


def encode_image(image: MetadataImage) -> bytes:
    """Return a snapshot of the image.

    It takes its time for a large one, in steps; an image never changes, so another thread may do
    it.
    """
    return dump_cbor([FORMAT, image.version, list(_pieces(image))])


def decode_image(data: bytes) -> MetadataImage:
    """Return the image of a snapshot; like :func:`encode_image`, in another thread if need be.

    Raises:
        DecodeError: not a snapshot, or not one of this format.
        UnsupportedLevelError: the cluster works at a level that is not known here.
    """
    match as_array(load_cbor(data)):
        case [format_version, *_] if format_version != FORMAT:
            raise DecodeError(f"unknown snapshot format {format_version!r}")
        case [_, int() as version, [*pieces]] if all(isinstance(p, bytes) for p in pieces):
            pass
        case _:
            raise DecodeError("not a metadata snapshot")
    if version == 0 and not pieces:
        return EMPTY_IMAGE
    try:
        return apply_records(EMPTY_IMAGE, version, _decoded(pieces))
    except InconsistentRecordError as error:
        raise DecodeError(f"the snapshot contradicts itself: {error}") from error


def _decoded(pieces: Iterable[bytes]) -> Iterator[Fact]:
    for piece in pieces:
        yield from decode_facts(piece)


def _pieces(image: MetadataImage) -> Iterator[bytes]:
    scarce = list(scarce_records(image))
    if scarce:
        yield encode_batch(scarce)
    for topics in image.topics.shards:
        yield from _encoded(topics, _topic_records)
    for configs in image.configs.shards:
        yield from _encoded(configs, _config_records)


def _encoded(
    shard: Shard[K, V], records: Callable[[K, V], Iterator[r.MetadataRecord]]
) -> Iterator[bytes]:
    """Yield the entries of a shard as batches, which are made only if they were not before.

    Two threads may do this at once, of one image or of different ones; what is kept of a shard is
    shared. So every step is a single one of the dict, and expects nothing of the one before.
    """
    known = shard.encoded
    for key, value in shard.entries.items():
        encoded = known.get(key)
        if encoded is None or encoded.value is not value:
            encoded = known[key] = Encoded(value, encode_batch(list(records(key, value))))
        yield encoded.data
    if len(known) > 2 * len(shard.entries):
        for key in list(known):
            if key not in shard.entries:
                known.pop(key, None)


def image_records(image: MetadataImage) -> Iterator[r.MetadataRecord]:
    """Yield records that make this image from the empty one."""
    yield from scarce_records(image)
    for name, topic in image.topics.items():
        yield from _topic_records(name, topic)
    for resource, properties in image.configs.items():
        yield from _config_records(resource, properties)


def scarce_records(image: MetadataImage) -> Iterator[r.MetadataRecord]:
    """Yield all records but those of topics and configurations, which alone are very many.

    The levels come first: others need them.
    """
    if image.cluster_id:
        yield r.ClusterFormatted(CAUSE, 0, image.cluster_id)
    for name, level in image.features.items():
        yield r.FeatureLevelSet(CAUSE, 0, name, level)
    if image.next_producer_id:
        yield r.ProducerIdsAllocated(CAUSE, 0, -1, -1, image.next_producer_id)
    for broker in image.brokers.values():
        yield _broker_record(broker)
        if broker.shutting_down or broker.draining or broker.cannot_write:
            yield r.BrokerChanged(
                cause=CAUSE,
                time_ms=0,
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                shutting_down=broker.shutting_down,
                draining=broker.draining,
                cannot_write=broker.cannot_write or None,
            )
    for request_id, answer in image.answers.items():
        yield r.RequestAnswered(CAUSE, 0, request_id, answer)
    yield from _access_records(image)


def _access_records(image: MetadataImage) -> Iterator[r.MetadataRecord]:
    for acl_id, rule in image.access_rules.items():
        yield r.AclAdded(
            cause=CAUSE,
            time_ms=0,
            acl_id=acl_id,
            resource_type=rule.resource_type,
            resource_name=rule.resource_name,
            pattern_type=rule.pattern_type,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission=rule.permission,
        )
    for user, known in image.scram.items():
        yield r.ScramCredentialSet(
            cause=CAUSE,
            time_ms=0,
            user=user.name,
            mechanism=user.mechanism,
            salt=known.salt,
            stored_key=known.stored_key,
            server_key=known.server_key,
            iterations=known.iterations,
        )
    for entity, quotas in image.quotas.items():
        for name, value in quotas.items():
            yield r.ClientQuotaSet(CAUSE, 0, entity, name, value)


def _topic_records(name: str, topic: TopicImage) -> Iterator[r.MetadataRecord]:
    yield r.TopicCreated(CAUSE, 0, name, topic.topic_id)
    for partition, state in enumerate(topic.partitions):
        yield _partition_record(topic.topic_id, partition, state)


def _config_records(
    resource: ConfigResource, properties: Mapping[str, str]
) -> Iterator[r.MetadataRecord]:
    for name, value in properties.items():
        yield r.ConfigSet(CAUSE, 0, resource.type, resource.name, name, value)


def _broker_record(broker: BrokerImage) -> r.BrokerRegistered:
    return r.BrokerRegistered(
        cause=CAUSE,
        time_ms=0,
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        incarnation_id=broker.incarnation_id,
        directory_id=broker.directory_id,
        endpoints=broker.endpoints,
        rack=broker.rack,
        fenced=broker.fenced,
        features=broker.features,
    )


def _partition_record(topic_id: bytes, partition: int, state: PartitionState) -> r.PartitionCreated:
    return r.PartitionCreated(
        cause=CAUSE,
        time_ms=0,
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
