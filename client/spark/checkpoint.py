"""Offsets of a stream as Spark keeps them in a checkpoint: JSON like that of its Kafka source.

Beside the topics stands, under a name that no topic can have, the id of each: so it is noticed if
one was deleted and created again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from quorate.client.spark.plan import OffsetRange, ranges_between
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TOPIC_IDS: Final = "#topicIds"
NO_TOPIC_ID: Final = "00000000000000000000000000000000"

_WHAT_IS_LOST: Final = "some data may have been missed"


class CheckpointError(QuorateError):
    """A checkpoint does not hold what this connector wrote there."""


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """Where a stream is: what comes next in each partition, and which topics that was about.

    ``topic_ids`` are in hexadecimal; topics of brokers that give none are left out.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return what goes into the checkpoint: the same for the same offsets."""
        topics: dict[str, Any] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            topics.setdefault(topic, {})[str(partition)] = offset
        ids = {topic: self.topic_ids[topic] for topic in topics if topic in self.topic_ids}
        if ids:
            topics[TOPIC_IDS] = ids
        return topics


def stream_offsets(parsed: Mapping[str, Any]) -> StreamOffsets:
    """Return what a checkpoint says; one of Spark's Kafka source will do.

    Raises:
        CheckpointError: It says something else.
    """
    try:
        ids = cast("dict[str, str]", dict(parsed.get(TOPIC_IDS, {})))
        offsets = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in parsed.items()
            if topic != TOPIC_IDS
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise CheckpointError(
            f"the checkpoint holds {parsed!r}, which are no offsets of topics: was it another"
            " source's?"
        ) from None
    return StreamOffsets(offsets, ids)


def same_topics(
    start: StreamOffsets, now: Mapping[str, str], report_loss: Callable[[str], None]
) -> StreamOffsets:
    """Return where to go on, given the ids that topics have now.

    A topic with another id than before is another topic: what was to be read of the old one is
    lost, and if that is no error, the new one is read from its beginning.
    """
    replaced = {
        topic for topic, topic_id in start.topic_ids.items() if now.get(topic, topic_id) != topic_id
    }
    for topic in sorted(replaced):
        report_loss(
            f"Topic {topic} was deleted and created again since this query read it (its id was"
            f" {start.topic_ids[topic]}, and is {now[topic]}): offsets in the checkpoint are those"
            f" of the old one, {_WHAT_IS_LOST}. To read the new one, start from a new checkpoint"
        )
    kept = {p: offset for p, offset in start.offsets.items() if p.topic not in replaced}
    return StreamOffsets(kept, {**start.topic_ids, **{topic: now[topic] for topic in replaced}})


def planned(
    start: StreamOffsets, end: StreamOffsets, report_loss: Callable[[str], None]
) -> list[OffsetRange]:
    """Return what a micro-batch reads: by nothing but its two ends, however often it is planned.

    Partitions that were added are read from offset 0.
    """
    starts = dict(start.offsets)
    for topic, topic_id in end.topic_ids.items():
        if start.topic_ids.get(topic, topic_id) != topic_id:
            starts = {p: offset for p, offset in starts.items() if p.topic != topic}
    gone = sorted(starts.keys() - end.offsets.keys())
    if gone:
        report_loss(f"{', '.join(map(str, gone))} are gone. Some data may have been missed.")
    for partition, offset in sorted(end.offsets.items()):
        begin = starts.setdefault(partition, 0)
        if offset < begin:
            report_loss(
                f"Partition {partition}'s offset was changed from {begin} to {offset},"
                f" {_WHAT_IS_LOST}"
            )
    return ranges_between(starts, end.offsets)
