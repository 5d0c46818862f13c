"""What a group's records in ``__consumer_offsets`` tell: its members, its commits."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from quorate.broker.groups.consumer_records import EpochFact, ProfileFact, read_fact
from quorate.broker.groups.records import (
    GroupMetadataValue,
    KeyType,
    read_names,
    read_offset_key,
    read_offset_value,
)
from quorate.broker.shards.formats import decode_value, leading_number
from quorate.broker.shards.shards import partition_of
from quorate.broker.shards.topics import GROUPS_TOPIC
from quorate.dataclass import dataclass
from quorate.errors import CorruptRecordError
from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from quorate.records.record import Record
from quorate.tools.metadata.decided import Decided
from quorate.tools.why.answer import Line, cite, name_of
from quorate.tools.why.past import cause_of, leader_text, past_of

FACTS: Final = frozenset({KeyType.CONSUMER_GROUP_METADATA, KeyType.CONSUMER_GROUP_MEMBER_METADATA})


@dataclass(frozen=True, slots=True)
class Generation:
    """A group's members, by id, each with its name for people, as of a record."""

    log: str
    offset: int
    time_ms: int
    number: int
    members: tuple[tuple[str, str], ...]

    @property
    def ids(self) -> frozenset[str]:
        """The members' ids."""
        return frozenset(member_id for member_id, _ in self.members)


@dataclass(frozen=True, slots=True)
class Commit:
    """How far a group said that it had read a partition, as of a record."""

    log: str
    offset: int
    time_ms: int
    partition: TopicPartition
    committed: int

    def line(self) -> Line:
        """Return the commit, as a line."""
        text = f"committed last that it has read {name_of(self.partition)} up to {self.committed}"
        return Line(text, self.offset, self.time_ms, self.log)


@dataclass(frozen=True, slots=True)
class Diff:
    """What a generation changed."""

    generation: Generation
    joined: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Who came and who went."""
        parts = [f"{', '.join(self.joined)} joined"] if self.joined else []
        parts += [f"{', '.join(self.left)} left"] if self.left else []
        return " and ".join(parts) or "with the same members"

    def line(self) -> Line:
        """Return it as a line."""
        g = self.generation
        count = len(g.members)
        members = "1 member" if count == 1 else f"{count} members"
        text = f"generation {g.number}, {members}: {self.reason}"
        return Line(text, g.offset, g.time_ms, g.log)


def diffs_of(generations: Sequence[Generation]) -> list[Diff]:
    """Return what each generation changed; of the first one, all members joined."""
    found: list[Diff] = []
    before: Generation | None = None
    for generation in generations:
        was = before.members if before is not None else ()
        had = before.ids if before is not None else frozenset[str]()
        found.append(
            Diff(
                generation,
                tuple(name for member_id, name in generation.members if member_id not in had),
                tuple(name for member_id, name in was if member_id not in generation.ids),
            )
        )
        before = generation
    return found


class GroupReader:
    """Reads the records of one group among those of all groups of a partition.

    State: the newest members (KIP-848: each has a record of its own), all generations, and the
    newest commit of each partition.
    """

    def __init__(self, group_id: str) -> None:
        self.generations: list[Generation] = []
        self.commits: dict[TopicPartition, Commit] = {}
        self._group_id = group_id
        self._members: dict[str, str] = {}

    def take(self, record: Record) -> None:
        """Read a record; those of other groups and kinds are passed over."""
        if record.key is None:
            return
        try:
            self._read(record, record.key)
        except CorruptRecordError:
            return  # a tool that explains must not fail on what it need not understand

    def _read(self, record: Record, key: bytes) -> None:
        kind = leading_number(key)
        if kind in (KeyType.OFFSET_COMMIT_OLD, KeyType.OFFSET_COMMIT):
            self._commit(record, key)
        elif kind == KeyType.GROUP_METADATA and read_names(key, 1)[0] == self._group_id:
            self._classic(record)
        elif kind in FACTS:
            self._fact(record, kind, key)

    def _commit(self, record: Record, key: bytes) -> None:
        told = read_offset_key(key)
        if told.group_id != self._group_id:
            return
        partition = TopicPartition(told.topic, told.partition)
        if record.value is None:
            self.commits.pop(partition, None)
            return
        committed = read_offset_value(record.value).offset
        self.commits[partition] = Commit(*_place(record), partition, committed)

    def _classic(self, record: Record) -> None:
        if record.value is None:
            return
        told = decode_value(GroupMetadataValue, record.value)
        members = tuple(
            (m.member_id, _member_name(m.client_id, m.client_host)) for m in told.members
        )
        self.generations.append(Generation(*_place(record), told.generation, members))

    def _fact(self, record: Record, kind: int, key: bytes) -> None:
        match read_fact(kind, key, record.value):
            case ProfileFact(self._group_id, member_id, None):
                self._members.pop(member_id, None)
            case ProfileFact(self._group_id, member_id, profile) if profile is not None:
                self._members[member_id] = _member_name(profile.client_id, profile.client_host)
            case EpochFact(self._group_id, epoch) if epoch is not None:
                members = tuple(sorted(self._members.items()))
                self.generations.append(Generation(*_place(record), epoch.epoch, members))
            case _:
                pass


def _place(record: Record) -> tuple[str, int, int]:
    return name_of(record.topic_partition), record.offset, record.timestamp_ms


def _member_name(client_id: str, host: str) -> str:
    return f"{client_id or 'a nameless member'} ({host.lstrip('/')})"


def coordinating_partition(
    decided: Iterable[Decided], key: str, topic: str = GROUPS_TOPIC
) -> TopicPartition:
    """Return the partition whose leader coordinates a group; 0 if there is none yet.

    With the topic of transactions, it is a transactional id that is coordinated.
    """
    count = 0
    for each in decided:
        if each.topic == topic and isinstance(each.record, r.PartitionCreated):
            count = max(count, each.record.partition + 1)
    return TopicPartition(topic, partition_of(key, max(1, count)))


def coordinator_lines(
    decided: Sequence[Decided], partition: TopicPartition, since_ms: int = 0
) -> Iterator[Line]:
    """Yield the moves of a group's coordinator, without those before a time."""
    past = past_of(decided, partition)
    if past is None:
        return
    for old, new in past.leaderships():
        if (new.decided.time_ms or 0) >= since_ms:
            text = f"the coordinator moved from {leader_text(old.leader_id)} to "
            yield cite(new.decided, f"{text}{leader_text(new.leader_id)}: {new.cause}")


def topic_lines(
    decided: Iterable[Decided], topics: AbstractSet[str], since_ms: int
) -> Iterator[Line]:
    """Yield what happened since a time to topics: that they came, went, or grew.

    The partitions of one record of the log are one line.
    """
    told = set[tuple[int, str]]()
    for each in decided:
        when, topic = each.time_ms, each.topic
        if topic is None or topic not in topics or when is None or when < since_ms:
            continue
        if isinstance(each.record, r.TopicRemoved):
            yield cite(each, f"topic {topic} was deleted: {cause_of(each)}")
        if isinstance(each.record, r.PartitionCreated) and (each.offset, topic) not in told:
            told.add((each.offset, topic))
            yield cite(each, f"topic {topic} got partitions: {cause_of(each)}")
