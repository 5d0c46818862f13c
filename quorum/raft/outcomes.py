"""What becomes of proposals, reads and membership changes; each is told exactly once."""

from enum import IntEnum

from quorate.dataclass import dataclass
from quorate.quorum.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class NotLeader:
    """Nothing entered a log; the leader may take it, if it is known."""

    leader: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The command's place in the log was taken by another leader: it never takes effect."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The command may or may not take effect.

    The deadline passed or the node stopped before it knew, or a snapshot covered the place.
    """


NotDone = NotLeader | Lost | Unknown


@dataclass(frozen=True, slots=True)
class ReadDone:
    """The state machine now holds everything that was acknowledged before the read was asked."""

    index: int


class Refusal(IntEnum):
    """Why a membership change or a transfer is refused."""

    CHANGE_IN_FLIGHT = 1
    NO_COMMIT_IN_TERM = 2
    NOT_CAUGHT_UP = 3
    NO_LIVE_MAJORITY = 4
    UNKNOWN_VOTER = 5
    ALREADY_A_VOTER = 6
    OTHER_DIRECTORY = 7
    LAST_VOTER = 8
    TOO_MANY_VOTERS = 9
    NOT_TAKEN_OVER = 10


@dataclass(frozen=True, slots=True)
class ChangeRefused:
    """Nothing was changed, because it would not be safe, or not be possible."""

    refusal: Refusal
    message: str


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """The voter set that is committed since ``index``."""

    index: int
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class LeadershipMoved:
    """Another node leads now."""

    leader: ReplicaKey


ChangeOutcome = VotersChanged | ChangeRefused | NotDone
TransferOutcome = LeadershipMoved | ChangeRefused | NotLeader | Unknown
ReadOutcome = ReadDone | NotLeader | Unknown
