"""Who votes according to the log: the newest voter set in it counts, committed or not."""

from quorate.control.codec import DecodeError, dump_cbor, load_cbor
from quorate.quorum.raft.engine import VOTERS, EngineError
from quorate.quorum.raft.journal_file import Entry
from quorate.quorum.raft.snapshots import Configuration
from quorate.quorum.raft.voters import ReplicaKey, VoterSet, decode_voters, encode_voters


def encode_voters_command(voters: VoterSet) -> bytes:
    """Return the content of a log entry that says who votes from there on."""
    return dump_cbor(encode_voters(voters))


def decode_voters_entry(entry: Entry) -> VoterSet:
    """Return what such an entry says.

    Raises:
        EngineError: nothing that can be understood.
    """
    try:
        return decode_voters(load_cbor(entry.command[len(VOTERS) :]))
    except DecodeError as error:
        raise EngineError(f"entry {entry.log_index} says in no known way who votes") from error


class Configurations:
    """Owns the voter sets of a log: that of its snapshot (or the bootstrap set) and all since."""

    def __init__(self, first: Configuration, entries: list[Entry]) -> None:
        """Find the voter sets behind the first one in a log that was recovered."""
        self._history = [first]
        for entry in entries:
            if entry.command[:1] == VOTERS and entry.log_index > first.log_index:
                self.appended(entry)

    @property
    def newest(self) -> Configuration:
        """The one that counts."""
        return self._history[-1]

    @property
    def voters(self) -> VoterSet:
        """Who votes."""
        return self._history[-1].voters

    def may_lead(self, key: ReplicaKey, commit_index: int) -> bool:
        """Return whether a replica votes now, or did before a change that is not committed.

        One that is on its way out may be the only one whose log is good enough to lead, until its
        removal is committed (Raft dissertation, 4.2.2).
        """
        return any(
            key in configuration.voters
            for configuration in self._history[self._committed_position(commit_index) :]
        )

    def _committed_position(self, commit_index: int) -> int:
        last = len(self._history) - 1
        return next(
            (n for n in range(last, 0, -1) if self._history[n].log_index <= commit_index), 0
        )

    def at(self, index: int) -> Configuration:
        """Return the one that counted when the log ended at an index."""
        return next(c for c in reversed(self._history) if c.log_index <= index)

    def appended(self, entry: Entry) -> None:
        """Take over what a new entry says."""
        self._history.append(Configuration(entry.log_index, decode_voters_entry(entry)))

    def truncated(self, index: int) -> bool:
        """Undo what entries from an index on said; return whether there was anything."""
        before = len(self._history)
        while self._history[-1].log_index >= index:
            self._history.pop()
        return len(self._history) < before

    def replace(self, configuration: Configuration) -> None:
        """Forget all: a snapshot took the place of the log."""
        self._history = [configuration]

    def forget_before(self, index: int) -> None:
        """Forget what a durable snapshot made superfluous."""
        while len(self._history) > 1 and self._history[1].log_index <= index:
            self._history.pop(0)
