"""Snapshots: bytes of an image, made and read in pieces, the same ones wherever they are made."""

# pyright: reportPrivateUsage=false

from collections.abc import Iterator
from typing import Any

import pytest

from quorate.control.codec import DecodeError, dump_cbor, load_cbor
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.codec import encode_batch
from quorate.quorum.metadata.features import UnsupportedLevelError, bootstrap_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionState
from quorate.quorum.metadata.sharded import Encoded, Shard
from quorate.quorum.metadata.snapshot import (
    _encoded,
    decode_image,
    encode_image,
    image_records,
)

USER = (r.QuotaEntityPart("user", "alice"), r.QuotaEntityPart("client-id", None))


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def topic(number: int, partitions: int = 2) -> list[r.MetadataRecord]:
    return [
        r.TopicCreated("c", 1, f"t-{number}", topic_id(number)),
        *(
            r.PartitionCreated("c", 1, topic_id(number), n, (1, 2), (1,), 1, 3, 4)
            for n in range(partitions)
        ),
    ]


MOVING = r.PartitionChanged(
    cause="c",
    time_ms=1,
    topic_id=topic_id(3),
    partition=1,
    leader_id=-1,
    leader_epoch=9,
    isr=(),
    replicas=(3, 2, 1),
    adding_replicas=(3,),
    removing_replicas=(1,),
    elr=(1,),
    last_known_leader=1,
)


def everything() -> MetadataImage:
    """An image that has something of all that there is."""
    records = [
        *bootstrap_records("x", 1),
        r.BrokerRegistered("c", 1, 1, 5, b"x" * 16, b"d" * 16, {}, "r1", fenced=True),
        r.BrokerChanged("c", 1, 1, 5, shutting_down=True, draining=True),
        r.BrokerRegistered("c", 1, 2, 6, b"x" * 16, b"d" * 16, {}, "r1", fenced=False),
        r.BrokerChanged("c", 1, 2, 6, cannot_write=True),
        r.ProducerIdsAllocated("c", 1, 1, 1, 1000),
        *(record for number in range(1000) for record in topic(number)),
        MOVING,
        r.ConfigSet("c", 1, "topic", "t-7", "k", "v"),
        r.RequestAnswered("c", 1, b"id", b"answer"),
        r.AclAdded("c", 1, b"a", 2, "t", 3, "User:alice", "*", 3, 3),
        r.ScramCredentialSet("c", 1, "alice", 1, b"salt", b"stored", b"server", 4096),
        r.ClientQuotaSet("c", 1, USER, "producer_byte_rate", 1024.5),
    ]
    return apply_records(EMPTY_IMAGE, 7, records)


def test_a_snapshot_comes_back_as_it_went() -> None:
    image = everything()
    assert decode_image(encode_image(image)) == image
    assert decode_image(encode_image(EMPTY_IMAGE)) == EMPTY_IMAGE


def test_the_records_of_an_image_make_it_again() -> None:
    image = everything()
    assert apply_records(EMPTY_IMAGE, image.version, image_records(image)) == image
    assert list(image_records(EMPTY_IMAGE)) == []


def test_who_loaded_a_snapshot_makes_the_same_one() -> None:
    data = encode_image(everything())
    assert encode_image(decode_image(data)) == data


def test_only_the_pieces_that_changed_are_made_again() -> None:
    image = everything()
    encode_image(image)
    changed = r.PartitionChanged("c", 2, topic_id(7), 0, 2, 4, (2,))
    after = apply_records(image, 8, [changed])
    assert not_encoded(after) == {"t-7"}
    assert decode_image(encode_image(after)) == after
    assert not_encoded(after) == set()
    assert not_encoded(image) == {"t-7"}
    assert decode_image(encode_image(image)) == image, "older images stay what they were"


def not_encoded(image: MetadataImage) -> set[str]:
    return {
        name
        for shard in image.topics.shards
        for name, topic in shard.entries.items()
        if name not in shard.encoded or shard.encoded[name].value is not topic
    }


def test_what_is_gone_is_not_kept_for_ever() -> None:
    image = everything()
    encode_image(image)
    removed = [r.TopicRemoved("c", 1, topic_id(number)) for number in range(900)]
    after = apply_records(image, 8, removed)
    encode_image(after)
    kept = sum(len(shard.encoded) for shard in after.topics.shards)
    assert 100 <= kept <= 200 + len(after.topics.shards)


def test_pieces_are_small() -> None:
    pieces = load_cbor(encode_image(everything()))[2]
    assert len(pieces) == 1 + 1000 + 1
    assert max(map(len, pieces)) < 500


NO_PIECES: list[bytes] = []


def test_snapshots_from_before_replication_are_read() -> None:
    """The keys are those of then, written out."""
    broker: dict[int, Any] = {
        0: 10,
        3: 1,
        4: 5,
        5: b"x" * 16,
        6: b"d" * 16,
        7: {},
        8: None,
        9: False,
    }
    created: dict[int, Any] = {0: 22, 3: topic_id(1), 4: 0, 5: [1, 2], 6: [1], 7: 1, 8: 3, 9: 4}
    level: dict[int, Any] = {0: 2, 3: "metadata.version", 4: 2}
    pieces = [
        dump_cbor(["snapshot", 0, level, broker]),
        dump_cbor(["snapshot", 0, {0: 20, 3: "t", 4: topic_id(1)}, created]),
    ]
    image = decode_image(dump_cbor([2, 7, pieces]))
    assert image.topics["t"].partitions == (PartitionState((1, 2), (1,), 1, 3, 4, (), (), (), -1),)
    assert image.brokers[1].may_lead
    assert not image.brokers[1].draining


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([1, 7, NO_PIECES], "unknown snapshot format 1"),
        ([2], "not a metadata snapshot"),
        ({1: 1}, "expected list"),
        ([2, 7, 7], "not a metadata snapshot"),
        ([2, 7, [7]], "not a metadata snapshot"),
        ([2, 7, [b"\x80"]], "not a batch"),
        ([2, 7, [encode_batch([r.TopicRemoved("c", 2, b"i")])]], "contradicts itself"),
    ],
)
def test_what_is_no_snapshot_is_refused(content: Any, complaint: str) -> None:
    with pytest.raises(DecodeError, match=complaint):
        decode_image(dump_cbor(content))


def test_a_snapshot_of_a_newer_cluster_stops_the_node() -> None:
    newer = encode_batch([r.FeatureLevelSet("c", 1, "metadata.version", 99)])
    with pytest.raises(UnsupportedLevelError, match=r"works at metadata.version 99.*upgrade"):
        decode_image(dump_cbor([2, 7, [newer]]))


class Shared(dict[str, Encoded[int]]):
    """What is kept of a shard; another thread tidies up as soon as this one begins to."""

    def __iter__(self) -> Iterator[str]:
        found = list(super().__iter__())
        self.pop(found[0])
        return iter(found)


def test_two_threads_may_tidy_up_what_they_keep_of_a_shard() -> None:
    known = Shared({name: Encoded(1, b"old") for name in ("gone", "gone, too", "here")})
    shard = Shard({"here": 1}, known)
    assert list(_encoded(shard, lambda _key, _value: iter(()))) == [b"old"]
    assert dict(known.items()) == {"here": Encoded(1, b"old")}
