"""What changed between two images, so that who follows them need not compare everything."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from quorate.dataclass import dataclass
from quorate.quorum.metadata.image import ConfigResource, MetadataImage, ScramUser, TopicImage
from quorate.quorum.metadata.records import QuotaEntity

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Touched:
    """The keys of what may have changed; everything else is equal in both images."""

    topics: frozenset[str] = frozenset()
    configs: frozenset[ConfigResource] = frozenset()
    brokers: frozenset[int] = frozenset()
    features: frozenset[str] = frozenset()
    access_rules: frozenset[bytes] = frozenset()
    scram: frozenset[ScramUser] = frozenset()
    quotas: frozenset[QuotaEntity] = frozenset()

    def __or__(self, other: "Touched") -> "Touched":
        return Touched(*(getattr(self, f.name) | getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """From one image to a later one; a topic that was deleted and made again is both."""

    before: MetadataImage
    after: MetadataImage
    touched: Touched

    def then(self, later: "MetadataDelta") -> "MetadataDelta":
        """Return this delta and the one that follows it as one."""
        assert later.before.version == self.after.version, "one delta follows the other"
        return MetadataDelta(self.before, later.after, self.touched | later.touched)

    def removed_topics(self) -> Iterator[TopicImage]:
        """Yield the topics that exist no more, as they were."""
        for name in self.touched.topics:
            before, after = self.before.topics.get(name), self.after.topics.get(name)
            if before is not None and (after is None or after.topic_id != before.topic_id):
                yield before

    def left_topics(self, broker_id: int, names: Collection[str]) -> Iterator[TopicImage]:
        """Yield those of these topics of which a broker has no replica any more, as they were."""
        for name in self.touched.topics.intersection(names):
            before, after = self.before.topics.get(name), self.after.topics.get(name)
            if before is not None and not (
                after is not None
                and after.topic_id == before.topic_id
                and any(broker_id in partition.replicas for partition in after.partitions)
            ):
                yield before

    def changed_topics(self) -> Iterator[TopicImage]:
        """Yield the topics that are new or different, as they are."""
        for name in self.touched.topics:
            after = self.after.topics.get(name)
            if after is not None and after is not self.before.topics.get(name):
                yield after


def unchanged(image: MetadataImage) -> MetadataDelta:
    """Return the delta from an image to itself."""
    return MetadataDelta(image, image, Touched())


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Return the delta between any two images, by comparing them: for a snapshot."""
    touched = Touched(
        *(_different(getattr(before, f.name), getattr(after, f.name)) for f in fields(Touched))
    )
    return MetadataDelta(before, after, touched)


def _different(before: Mapping[K, Any], after: Mapping[K, Any]) -> frozenset[K]:
    gone = [key for key in before if key not in after]
    new = [key for key, value in after.items() if before.get(key) != value]
    return frozenset([*gone, *new])
