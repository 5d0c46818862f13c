"""What a member of a consumer group writes down, whoever's client it is."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from quorate.dataclass import dataclass
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe

POLL_RECORDS: Final = 200
POLL_S: Final = 0.1
LIFE_POLLS: Final = (20, 200)
"""After how many polls a member goes, and another one comes in its place."""
COMMIT_ODDS: Final = 0.3
DIE_ODDS: Final = 0.3
"""How often a member goes without a word."""
SLEEP_ODDS: Final = 0.3
"""How often it sleeps past its session once in its life, if it can, and then commits."""
CLOSE_S_MAX: Final = 60.0

Reads = Mapping[str, tuple[list[int], list[int]]]
"""Offsets and values by partition."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Of which group, and how.

    Attributes:
        protocol: ``classic``, or ``consumer`` (KIP-848).
        strategy: Of a classic group: ``range``, ``cooperative-sticky``...
        session_ms: Of a classic group.
        may_die: Whether members of ours may go without a word; the group then waits for the end of
            their session.
    """

    bootstrap: str
    group: str
    topic: str
    protocol: str = "classic"
    strategy: str = "range"
    session_ms: int = 6_000
    may_die: bool = True

    @property
    def is_classic(self) -> bool:
        """Whether the members share the partitions out among themselves."""
        return self.protocol == "classic"

    @property
    def is_eager(self) -> bool:
        """Whether members have nothing between two generations."""
        return self.is_classic and not self.strategy.startswith("cooperative")

    def partition(self, number: int) -> str:
        """Return how a partition is called in the history."""
        return f"{self.topic}-{number}"


class Member(Protocol):
    """A place in a group: one member after the other, from its making on."""

    errors: list[str]

    def stop(self) -> None:
        """Leave the group."""


class Diary:
    """What the members in one place write down; for one thread.

    State: which assignment they have, and how far they have read in it.
    """

    def __init__(self, recorder: Recorder, membership: Membership) -> None:
        self._membership = membership
        self._scribe = Scribe(recorder)
        self._ear = Scribe(recorder)
        self._assignment = 0
        self._polled = 0
        """The assignment when the poll under way began."""
        self._member = ""
        self._generation: int | None = None
        self._next: dict[str, int] = {}

    def assigned(self, member: str, generation: int | None, partitions: Iterable[str]) -> None:
        """A member hears what it has from now on, in all.

        Its generation is its epoch where the coordinator assigns (KIP-848): of each of these, too,
        there is one assignment. It is None if the client does not say of which one that is.
        """
        self._turn(member, generation)
        if generation is not None:
            told = [self._membership.group, generation, member, sorted(partitions)]
            self._ear.tell("assign", told)

    def revoked(self) -> None:
        """A member hears that it has less from now on."""
        self._turn(self._member, None)

    def _turn(self, member: str, generation: int | None) -> None:
        self._member = member
        self._generation = generation
        self._assignment += 1
        self._next = {}

    def begin_poll(self) -> None:
        """It asks for records."""
        self._polled = self._assignment
        self._begin_poll(self._generation)

    def _begin_poll(self, generation: int | None) -> None:
        asked = [self._assignment, self._membership.group, generation, self._member]
        self._scribe.begin("poll", asked)

    def end_poll(self, reads: Reads) -> None:
        """It got these; in another assignment than it asked in, if there was a rebalance."""
        if self._polled != self._assignment:
            self._scribe.end(Kind.OK, "poll", [])
            self._begin_poll(None)
        for partition, (offsets, _) in reads.items():
            self._next[partition] = offsets[-1] + 1
        self._scribe.end(Kind.OK, "poll", [[partition, *read] for partition, read in reads.items()])

    def fail_poll(self) -> None:
        """It got nothing but an error."""
        self._scribe.end(Kind.FAIL, "poll")

    def begin_commit(self) -> dict[str, int]:
        """Return what it commits now; if that is nothing, it does not.

        It tells its generation only where it cannot have gone on to another one meanwhile: who is
        cooperative reads on, and hears of a generation in which nothing changes for it from nobody.
        """
        offsets = dict(self._next)
        if offsets:
            asked = [[partition, offset] for partition, offset in offsets.items()]
            is_certain = self._membership.is_eager and self._generation is not None
            who = [self._member, self._generation] if is_certain else []
            self._scribe.begin("commit", [self._membership.group, asked, *who])
        return offsets

    def end_commit(self, kind: Kind) -> None:
        """It was told what came of it."""
        self._scribe.end(kind, "commit")


def past_session_s(session_ms: int) -> float:
    """Return for how long somebody sleeps who oversleeps its session."""
    return session_ms / 1000 * 1.3
