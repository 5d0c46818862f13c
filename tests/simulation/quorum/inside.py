"""What the invariants need to see of a core, and no shell has any business with."""
# pyright: reportPrivateUsage=false

from typing import NamedTuple
from zlib import crc32

from quorate.quorum.raft.journal_file import Entry
from quorate.quorum.raft.rounds import Rounds
from quorate.quorum.raft.voters import VoterSet
from tests.simulation.quorum.registers import Answer

Core = Rounds[Answer]


class EntryId(NamedTuple):
    """An entry as far as it matters whether it is the same."""

    term: int
    crc: int


def identity(entry: Entry) -> EntryId:
    return EntryId(entry.term, crc32(entry.command))


def leads(rounds: Core) -> bool:
    """Return whether a replica believes to lead, committed entries or not."""
    return rounds._core.engine.is_leader


def all_is_durable(rounds: Core) -> bool:
    """Return whether the log in memory is the one on the disk."""
    return not rounds._core.journal.dirty


def first_index(rounds: Core) -> int:
    """Return where the log begins in memory; what precedes is in the snapshot."""
    return rounds._core.journal.entries[0].log_index


def entry_id(rounds: Core, index: int) -> EntryId | None:
    entry = rounds._core.journal.entry_at(index)
    return None if entry is None else identity(entry)


def newest_voter_sets(rounds: Core) -> list[VoterSet]:
    """Return the two that a log says last: the newest counts, but may not be committed."""
    return [configuration.voters for configuration in rounds._core.configurations._history[-2:]]


def follow(rounds: Core, terms: dict[int, int]) -> list[Entry]:
    """Bring terms by index up to date with a log; return the entries that are new, in order."""
    journal = rounds._core.journal
    index = last_index = journal.last_index
    new: list[Entry] = []
    while (entry := journal.entry_at(index)) is not None and terms.get(index) != entry.term:
        new.append(entry)
        index -= 1
    if entry is None:
        terms.pop(index, None)
    while last_index + 1 in terms:
        last_index += 1
        del terms[last_index]
    new.reverse()
    for entry in new:
        terms[entry.log_index] = entry.term
    return new
