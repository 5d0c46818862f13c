"""What was promised about every partition, and whether it is kept: the named invariants.

The names are those of ``docs/invariants.md``.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quorate.broker.log.log import Log
from quorate.broker.replication.replica import Replica
from quorate.model import NO_LEADER, UNKNOWN_EPOCH, TopicPartition
from quorate.quorum.metadata.image import MetadataImage, PartitionState
from quorate.records.batch import BatchHeader, parse_header
from tests.simulation.trace import Trace
from tests.unit.broker.log.batches import bytes_of

READ_BYTES: Final = 1 << 20


class Incarnation(NamedTuple):
    """A partition of one topic: of those that had its name before, or get it later, it is none."""

    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id.hex()[:6]}-{self.partition}"


def incarnation_of(replica: Replica) -> Incarnation:
    """Return what a replica is one of."""
    return Incarnation(replica.topic_id, replica.topic_partition.partition)


class Batch(NamedTuple):
    """A batch as it stands in a log."""

    header: BatchHeader
    data: bytes


def batches_of(log: Log, start: int, end: int) -> list[Batch]:
    """Return the batches between two offsets."""
    found: list[Batch] = []
    offset = max(start, log.log_start_offset)
    while offset < end:
        taken = log.read(offset, max_bytes=READ_BYTES, limit_offset=end, at_least_one=True)
        if taken is None:
            break
        found += split(bytes_of(taken))
        offset = found[-1].header.next_offset
    return found


def split(data: bytes) -> list[Batch]:
    """Return the batches that follow each other."""
    found: list[Batch] = []
    position = 0
    while position < len(data):
        header = parse_header(data, position)
        found.append(Batch(header, data[position : position + header.size_bytes]))
        position += header.size_bytes
    return found


class Named(NamedTuple):
    """A partition as a client means it: of the topic with an id, or of any that has the name."""

    partition: TopicPartition
    topic_id: bytes | None


@dataclass(slots=True)
class Committed:
    """The committed records of one partition, as they were when some leader first showed them."""

    batches: dict[int, Batch] = field(default_factory=dict[int, Batch])
    end: int = 0
    ends: dict[int, int] = field(default_factory=dict[int, int])
    """How far the high watermark came in each leader epoch."""
    leaders: dict[int, int] = field(default_factory=dict[int, int])
    """Who leads in an epoch."""
    epochs: set[int] = field(default_factory=set[int])
    """All epochs, with a leader and without."""
    appended_by: dict[int, int] = field(default_factory=dict[int, int])
    """Who appended in an epoch."""


class Ledger:
    """Owns what is committed, and finds out whether somebody contradicts it."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.partitions: defaultdict[Incarnation, Committed] = defaultdict(Committed)
        self.topic_ids: list[bytes] = []
        """Of all topics that there ever were, oldest first."""
        self.resuming = set[int]()
        """Producers that may go on in a new topic with the sequences of an old one."""
        self._images: dict[int, MetadataImage] = {}
        self.unclean = False
        """Whether elections outside the ISR are allowed: then records may be lost."""

    # --- logs

    def high_watermark_is(self, who: str, replica: Replica, before: int, now: int) -> None:
        """Take note of a replica's high watermark: below it, all replicas are the same."""
        partition, log = incarnation_of(replica), replica.log
        if now < before:
            raise self._trace.violated(
                "hw_never_regresses", f"{who} {partition}: {now} after {before}"
            )
        if now > log.log_end_offset:
            raise self._trace.violated(
                "hw_is_within_the_log", f"{who} {partition}: {now} of {log.log_end_offset}"
            )
        committed = self.partitions[partition]
        for batch in batches_of(log, before, now):
            self._agrees(who, partition, committed, batch)
        committed.end = max(committed.end, now)
        epoch = replica.leader_epoch
        committed.ends[epoch] = max(committed.ends.get(epoch, 0), now)

    def _agrees(self, who: str, partition: Incarnation, committed: Committed, batch: Batch) -> None:
        offset = batch.header.base_offset
        known = committed.batches.get(offset)
        if known is None:
            if offset < committed.end:
                raise self._trace.violated(
                    "offsets_are_dense_and_immutable_below_hw",
                    f"{who} {partition}: another batch at {offset} of {committed.end}",
                )
            committed.batches[offset] = batch
        elif known.data != batch.data:
            raise self._trace.violated(
                "followers_agree_below_hw",
                f"{who} {partition} at {offset}: {batch.header}, but {known.header} was committed",
            )

    def leader_begins(self, who: str, leader: Replica) -> None:
        """See that a new leader has all that was committed in older epochs.

        Not what newer leaders committed: it may be the last to learn that there are any.
        """
        ends = self.partitions[incarnation_of(leader)].ends
        epoch = leader.leader_epoch
        needed = max((end for older, end in ends.items() if older < epoch), default=0)
        self.has_committed(who, leader, needed)

    def has_all(self, who: str, replica: Replica) -> None:
        """See that a replica has all that was ever committed."""
        self.has_committed(who, replica, self.partitions[incarnation_of(replica)].end)

    def has_committed(self, who: str, replica: Replica, end: int) -> None:
        """See that a replica has what was committed up to an offset."""
        partition, log = incarnation_of(replica), replica.log
        committed = self.partitions[partition]
        if self.unclean:
            return
        if log.log_end_offset < end:
            raise self._trace.violated(
                "acknowledged_records_survive",
                f"{who} has {partition} in epoch {replica.leader_epoch} up to"
                f" {log.log_end_offset}, committed was up to {end}",
            )
        for batch in batches_of(log, log.log_start_offset, end):
            self._agrees(who, partition, committed, batch)

    def appended(self, broker_id: int, leader: Replica) -> None:
        """Take note of who appends in an epoch."""
        partition, epoch = incarnation_of(leader), leader.leader_epoch
        committed = self.partitions[partition]
        if committed.appended_by.setdefault(epoch, broker_id) != broker_id:
            raise self._trace.violated(
                "one_leader_per_epoch",
                f"{partition}: {broker_id} and {committed.appended_by[epoch]} append in {epoch}",
            )

    # --- clients

    def acknowledged(self, name: Named, offset: int, value: bytes) -> list[bytes]:
        """See that what a producer was told is committed; return in which topics it is."""
        found = [each for each in self._meant(name) if self._has(each, offset, value)]
        if not found:
            raise self._trace.violated(
                "acknowledged_records_are_committed", f"{name} {offset} {value!r}"
            )
        return [each.topic_id for each in found]

    def consumed(
        self, name: Named, position: int, batches: Sequence[Batch], epoch: int = UNKNOWN_EPOCH
    ) -> None:
        """See that a consumer was given what comes next, committed, all of it in one topic."""
        for batch in batches:
            if batch.header.base_offset > position:
                raise self._trace.violated(
                    "readers_skip_nothing", f"{name}: {batch.header}, asked for was {position}"
                )
            position = batch.header.next_offset
        if not any(self._shows(each, batches, epoch) for each in self._meant(name)):
            raise self._trace.violated(
                "consumers_see_committed_records_only",
                f"{name} in {epoch=}: {[batch.header for batch in batches]}",
            )

    def _shows(self, partition: Incarnation, batches: Sequence[Batch], epoch: int) -> bool:
        committed = self.partitions[partition]
        known = [committed.batches.get(batch.header.base_offset) for batch in batches]
        return (epoch == UNKNOWN_EPOCH or epoch in committed.epochs) and all(
            each is not None and each.data == batch.data
            for each, batch in zip(known, batches, strict=True)
        )

    def _meant(self, name: Named) -> list[Incarnation]:
        """Return what somebody may have meant: by a name, any topic that ever had it."""
        topic_ids = self.topic_ids if name.topic_id is None else [name.topic_id]
        return [Incarnation(topic_id, name.partition.partition) for topic_id in topic_ids]

    def _has(self, partition: Incarnation, offset: int, value: bytes) -> bool:
        committed = self.partitions[partition]
        batch = committed.batches.get(offset)
        return batch is not None and offset < committed.end and value in batch.data

    def sequences_have_no_gap_or_repeat(self) -> None:
        """See that the committed records of every producer follow each other."""
        for partition, committed in self.partitions.items():
            next_sequence: dict[tuple[int, int], int] = {}
            for _, batch in sorted(committed.batches.items()):
                header = batch.header
                if header.is_control:
                    continue
                producer = header.producer_id, header.producer_epoch
                first = header.base_sequence if header.producer_id in self.resuming else 0
                expected = next_sequence.get(producer, first)
                if header.base_sequence != expected:
                    raise self._trace.violated(
                        "sequences_have_no_gap_or_repeat",
                        f"{partition} {header}, expected {expected}",
                    )
                next_sequence[producer] = expected + header.record_count

    # --- metadata

    def metadata_is(self, before: MetadataImage, after: MetadataImage) -> None:
        """Take note of what the controllers committed."""
        self._images[after.version] = after
        for topic in after.topics.values():
            older = before.topic_of(topic.topic_id)
            if older is None:
                self.topic_ids.append(topic.topic_id)
            for number, state in enumerate(topic.partitions):
                partition = Incarnation(topic.topic_id, number)
                self.partitions[partition].epochs.add(state.leader_epoch)
                known = self.partitions[partition].leaders
                if state.leader_id != NO_LEADER:
                    if known.setdefault(state.leader_epoch, state.leader_id) != state.leader_id:
                        raise self._trace.violated(
                            "one_leader_per_epoch", f"{partition}: {state}, {known}"
                        )
                    if older is not None and number < len(older.partitions):
                        returned = _registered(before, after)
                        self._leader_comes_from(
                            partition, older.partitions[number], state, returned
                        )

    def _leader_comes_from(
        self,
        partition: Incarnation,
        before: PartitionState,
        after: PartitionState,
        returned: set[int],
    ) -> None:
        if self.unclean or after.leader_id == before.leader_id:
            return
        eligible = {*before.isr, *before.elr} - returned
        if before.leader_id in (*after.isr, *before.removing_replicas):
            # The leader says who is in sync, and because it shuts down, or was to be removed once
            # all others are, one of those leads at once.
            eligible.update(after.isr)
        if not eligible:
            # Whoever returns uncleanly is not eligible any more; the last leader is all there is.
            eligible = {before.last_known_leader}
        if after.leader_id not in eligible:
            raise self._trace.violated(
                "leaders_come_from_the_isr", f"{partition}: {after} after {before}"
            )

    def is_newer(self, topic_id: bytes, than: bytes | None) -> bool:
        """Whether a topic was made later than another one; whatever it is, than none."""
        return than is None or self.topic_ids.index(topic_id) > self.topic_ids.index(than)

    def image_is(self, who: str, image: MetadataImage) -> None:
        """See that a broker has the image that everybody has at that version."""
        known = self._images.get(image.version)
        if known is not None and known != image:
            raise self._trace.violated("images_agree_at_equal_versions", f"{who} {image.version}")


def _registered(before: MetadataImage, after: MetadataImage) -> set[int]:
    """Return the brokers that registered again in between."""
    return {
        broker_id
        for broker_id, broker in after.brokers.items()
        if broker_id in before.brokers
        and before.brokers[broker_id].broker_epoch != broker.broker_epoch
    }
