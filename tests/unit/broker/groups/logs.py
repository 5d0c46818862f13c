"""What groups stand on in tests: a log that is a list, time that goes from deadline to deadline."""

from collections.abc import Iterable, Mapping

from quorate.broker.groups.group import GroupProtocol
from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.shards.effects import Done, Effects, Entry
from quorate.broker.shards.formats import leading_number
from quorate.errors import ErrorCode

NONE = ErrorCode.NONE


class ListWriter:
    """A partition whose log is a list; entries are replayed when they are appended."""

    epoch = 0

    def __init__(self, replay: Mapping[int, GroupProtocol]) -> None:
        self.log: list[Entry] = []
        self.refuses: ErrorCode | None = None
        self.commits_at_once = True
        self.committed = 0
        self.ends: list[int] = []
        """Where the batches end: of each, all is there after a failure, or nothing."""
        self._replay = replay
        self.uncommitted: list[Done] = []

    def append(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.log.append(entry)
            kind = leading_number(entry.key)
            if kind in self._replay:  # nobody asks here which offsets were committed
                self._replay[kind].replay(kind, entry.key, entry.value)
        self.ends.append(len(self.log))

    def begin_verification(self, producer_id: int, producer_epoch: int, *, adds: bool) -> None:
        """Say that the transaction is open here."""

    def write(self, effects: Effects) -> bool:
        if self.refuses is not None:
            effects.done(self.refuses)
            return False
        self.append(effects.entries)
        self.when_committed(effects.subject, effects.done)
        return True

    def when_committed(self, subject: str, done: Done) -> None:
        self.uncommitted.append(done)
        if self.commits_at_once:
            self.settle()

    def settle(self, code: ErrorCode = NONE) -> None:
        """Say what came of all that was written: it is committed, or nobody knows."""
        if code is NONE:
            self.committed = len(self.log)
        waiting, self.uncommitted = self.uncommitted, []
        for done in waiting:
            done(code)


def pass_ms(deadlines: Deadlines, ms: int) -> None:
    """Let time pass, deadline by deadline."""
    end_ms = deadlines.now_ms + ms
    while (next_ms := deadlines.next_ms()) is not None and next_ms <= end_ms:
        deadlines.now_ms = max(next_ms, deadlines.now_ms)
        deadlines.fire()
    deadlines.now_ms = end_ms
