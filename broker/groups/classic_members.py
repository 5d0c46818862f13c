"""The members of a classic group: who they are, what they know, and who of them waits."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from quorate.broker.groups.errors import FencedInstanceIdError
from quorate.broker.groups.group import UnknownMemberIdError
from quorate.dataclass import dataclass
from quorate.promise import Promise
from quorate.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse

Protocols = Sequence[tuple[str, bytes]]
"""The ways of assigning partitions that a member knows, best first, each with what it says of
itself there: which topics it reads, which partitions it has."""


@dataclass(frozen=True, slots=True)
class Applicant:
    """Who wants to join, or to join again.

    Attributes:
        member_id: empty for who does not have one yet.
        instance_id: its ``group.instance.id``, if it is a static member (KIP-345).
        reason: why it joins, in its own words (KIP-800).
        returns_with_id: it can join again with the id that it is told (KIP-394, from version 4).
        may_skip_assignment: it can lead without assigning anything (KIP-814, from version 9).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    reason: str
    returns_with_id: bool
    may_skip_assignment: bool


@dataclass(frozen=True, slots=True)
class Assigner:
    """Who asks for its assignment, and brings those of all if it leads.

    Attributes:
        protocol_type: what it takes the group's type to be, if it says so (KIP-559, version 5).
        protocol_name: likewise the protocol.
        assignments: by member id; empty for all but the leader.
    """

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Leaver:
    """Who leaves; an administrator names static members by their instance id alone."""

    member_id: str
    instance_id: str | None
    reason: str


@dataclass(slots=True, eq=False)
class Member:
    """One member.

    Attributes:
        is_new: it has not been in a generation yet.
        joining: where its answer goes when all have joined, if it waits for that.
        syncing: where its assignment goes when the leader has assigned, if it waits for that.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    joining: Promise[JoinGroupResponse] | None = None
    syncing: Promise[SyncGroupResponse] | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """Return what it says of itself in a protocol; nothing, where it does not know that."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def __str__(self) -> str:
        static = "" if self.instance_id is None else f", instance {self.instance_id!r}"
        return f"{self.member_id!r} ({self.client_host}{static})"


class Members:
    """The members of one group, in the order in which they came.

    Invariants: ``joined_count`` members wait for the others to join; an instance id belongs to one
    member; there is a leader if there are members.
    """

    __slots__ = ("_by_id", "_knowing", "_static", "joined_count", "leader_id")

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        self._knowing: Counter[str] = Counter()
        self.joined_count = 0
        self.leader_id: str | None = None

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def get(self, member_id: str) -> Member | None:
        """Return a member, if there is one with that id."""
        return self._by_id.get(member_id)

    def with_instance_id(self, instance_id: str | None) -> Member | None:
        """Return the static member of that instance id, if there is one."""
        member_id = None if instance_id is None else self._static.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def find(self, member_id: str, instance_id: str | None) -> Member:
        """Return who says to be this member.

        Raises:
            UnknownMemberIdError: there is no such member.
            FencedInstanceIdError: another one has that instance id now.
        """
        if instance_id is not None:
            owner = self._static.get(instance_id)
            if owner is None:
                raise UnknownMemberIdError
            if owner != member_id:
                raise FencedInstanceIdError
        member = self._by_id.get(member_id)
        if member is None:
            raise UnknownMemberIdError
        return member

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest of them may take to join again."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def add(self, member: Member) -> None:
        """Take in a member, who is nobody's replacement."""
        assert member.member_id not in self._by_id, "a member is taken in once"
        if member.instance_id is not None:
            assert member.instance_id not in self._static, "its predecessor would be replaced"
            self._static[member.instance_id] = member.member_id
        self._by_id[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        self.joined_count += member.joining is not None
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member: Member) -> None:
        """Let go of a member; whoever has been there longest leads, if it led."""
        del self._by_id[member.member_id]
        if member.instance_id is not None:
            del self._static[member.instance_id]
        self._count_protocols(member.protocols, -1)
        self.joined_count -= member.joining is not None
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self._by_id), None)

    def replace(self, old: Member, new: Member) -> None:
        """Put one member of the same instance id into the place of another."""
        led = self.leader_id == old.member_id
        self.remove(old)
        self.add(new)
        if led:
            self.leader_id = new.member_id

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        """Note what a member knows now."""
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)

    def set_joining(self, member: Member, promise: Promise[JoinGroupResponse] | None) -> None:
        """Note where a member waits for the others to join, if it does."""
        self.joined_count += (promise is not None) - (member.joining is not None)
        member.joining = promise

    def all_know_one_of(self, names: Iterable[str]) -> bool:
        """Whether all members know one of these protocols; so it is if there are none."""
        return any(self._knowing[name] == len(self._by_id) for name in names)

    def elect_leader(self) -> bool:
        """Let one lead who has joined, if there is any; say whether there is."""
        leader = self._by_id.get(self.leader_id or "")
        if leader is None or leader.joining is None:
            joined = next((m.member_id for m in self if m.joining is not None), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def _count_protocols(self, protocols: Protocols, step: int) -> None:
        for name in {name for name, _ in protocols}:
            self._knowing[name] += step
            if not self._knowing[name]:
                del self._knowing[name]


def elect_protocol(ballots: Iterable[Protocols]) -> str | None:
    """Return the protocol that most members like best, of those that all of them know.

    Of two with equal votes it is the one that was voted for first.
    """
    wishes = [[name for name, _ in protocols] for protocols in ballots]
    candidates = set(wishes[0]).intersection(*wishes[1:]) if wishes else set[str]()
    if not candidates:
        return None
    votes = Counter(next(name for name in names if name in candidates) for names in wishes)
    return votes.most_common(1)[0][0]
