"""What is mended in PySyncObj from outside, each with a switch of its own.

The switches exist so that a simulation can be asked whether it notices when one is off; nothing
else ever turns one off.  ``docs/decisions/0012-boxing-pysyncobj.md`` tells what each is for.
"""

from typing import Final

from quorate.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Hardening:
    """Which weaknesses of the library are covered."""

    term_filter: bool = True
    """Messages of an older term are dropped; so are answers to what another leader sent."""

    nack: bool = True
    """Senders of an older term are told the newer one; a newer term is adopted from any message."""

    reconcile: bool = True
    """Entries that match are never truncated; committed ones never at all."""

    probe_mode: bool = True
    """One append on its way to a follower whose log is not known to match."""

    vote_dedupe: bool = True
    """One vote per voter and term, and of voters only."""

    prevote: bool = True
    """A term is raised only after a majority said that it would vote."""

    snap_commit_guard: bool = True
    """Commit indexes that come with snapshots do not commit a log that was not compared."""

    snap_guard: bool = True
    """A snapshot is installed only if the log lacks what it covers."""

    align: bool = True
    """After a crash between snapshot and trim, the journal is cut to fit instead of cleared."""

    barrier: bool = True
    """Nothing but a leader's appends leaves before what it rests on is durable."""

    cfg_guard: bool = True
    """One membership change at a time, and only when it is safe."""

    eager_commit: bool = True
    """Followers hear of commits after milliseconds instead of with the next heartbeat."""


ALL: Final = Hardening()
