"""Replication: the follower's side, which truncates conflicts only, and the leader's pacing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from quorate.dataclass import dataclass
from quorate.quorum.raft.engine import NEVER_S, Engine, EngineError
from quorate.quorum.raft.hardening import Hardening
from quorate.quorum.raft.messages import Append, AppendAnswer, Heartbeat, RaftMessage
from quorate.quorum.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from quorate.quorum.raft.journal import Journal
    from quorate.quorum.raft.journal_file import Entry

Send = Callable[[ReplicaKey, RaftMessage], None]


class Receiver:
    """Takes over a leader's log; the library only ever sees entries that match and are new."""

    def __init__(
        self, engine: Engine, journal: "Journal", hardening: Hardening, send: Send
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._hardening = hardening
        self._send = send

    def receive_heartbeat(self, source: ReplicaKey, heartbeat: Heartbeat) -> None:
        """Follow; the log was not compared, so nothing of it is known to be committed."""
        guarded = self._hardening.snap_commit_guard
        commit_index = 0 if guarded else heartbeat.commit_index
        self._engine.receive_heartbeat(source, heartbeat.term, commit_index)
        self._answer(source, self._journal.last_index + 1, success=False, reset=False)

    def receive_append(self, source: ReplicaKey, append: Append) -> None:
        """Take over what is new, truncating from the first conflict on, if there is one."""
        if not self._hardening.reconcile:
            self._engine.receive_append(source, append)
            return
        rest = self._without_committed(append)
        if rest.previous_index > self._engine.committed or self._knows(rest.previous_index):
            ours = self._journal.entry_at(rest.previous_index)
            if ours is None or ours.term != rest.previous_term:
                self._reject(source, rest, ours)
                return
        self._accept(source, self._without_matching(rest))

    def _knows(self, index: int) -> bool:
        return self._journal.entry_at(index) is not None

    def _without_committed(self, append: Append) -> Append:
        """Drop the entries that are committed here; they must be the same."""
        count = 0
        for entry in append.entries:
            if entry.log_index > self._engine.committed:
                break
            ours = self._journal.entry_at(entry.log_index)
            if ours is not None and ours.term != entry.term:
                raise EngineError(f"the leader contradicts committed entry {entry.log_index}")
            count += 1
        return _without_first(append, count)

    def _without_matching(self, append: Append) -> Append:
        count = 0
        for entry in append.entries:
            ours = self._journal.entry_at(entry.log_index)
            if ours is None or ours.term != entry.term:
                break
            count += 1
        return _without_first(append, count)

    def _reject(self, source: ReplicaKey, append: Append, ours: "Entry | None") -> None:
        """Say from where on the log should be sent: skip the term that does not match."""
        previous, committed = append.previous_index, self._engine.committed
        if previous <= committed:
            raise EngineError(f"the leader contradicts committed entry {previous}")
        self._engine.receive_heartbeat(source, append.term, 0)
        if ours is None:
            next_index = self._journal.last_index + 1
        else:
            next_index = previous
            while next_index - 1 > committed and self._term_at(next_index - 1) == ours.term:
                next_index -= 1
        next_index = max(min(next_index, previous), committed + 1)
        self._answer(source, next_index, success=False, reset=True, rejected_index=previous)

    def _term_at(self, index: int) -> int:
        entry = self._journal.entry_at(index)
        return -1 if entry is None else entry.term

    def _accept(self, source: ReplicaKey, append: Append) -> None:
        if not append.entries:
            commit_index = min(append.commit_index, append.previous_index)
            self._engine.receive_heartbeat(source, append.term, commit_index)
            self._answer(source, append.previous_index + 1, success=True, reset=False)
            return
        assert append.previous_index >= self._engine.committed, "committed entries were dropped"
        commit_index = min(append.commit_index, append.entries[-1].log_index)
        self._engine.receive_append(source, replace(append, commit_index=commit_index))

    def _answer(
        self,
        target: ReplicaKey,
        next_index: int,
        *,
        success: bool,
        reset: bool,
        rejected_index: int = 0,
    ) -> None:
        term = self._engine.term
        self._send(target, AppendAnswer(term, next_index, success, reset, rejected_index))


def _without_first(append: Append, count: int) -> Append:
    if count == 0:
        return append
    last = append.entries[count - 1]
    entries: Sequence[Entry] = append.entries[count:]
    return replace(append, previous_index=last.log_index, previous_term=last.term, entries=entries)


@dataclass(slots=True)
class _Probe:
    """The one append that is on its way to a follower whose log is not known to match."""

    sent_s: float = NEVER_S
    previous_index: int = -1


class Pacer:
    """Owns which followers are being probed: after elections, rejections and reconnections.

    Without it each rejection of one of many appends has the leader send everything again, and
    rejections multiply.
    """

    def __init__(
        self, engine: Engine, journal: "Journal", hardening: Hardening, resend_s: float
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._hardening = hardening
        self._resend_s = resend_s
        self._probes: dict[ReplicaKey, _Probe] = {}
        self._term = 0

    def may_send(self, target: ReplicaKey, append: Append) -> bool:
        """Return whether an append may leave now; it will be made again if not."""
        if not self._hardening.probe_mode:
            return True
        if self._term != append.term:
            self._term = append.term
            self._probes = {key: _Probe() for key in self._engine.followers}
        probe = self._probes.get(target)
        if probe is None:
            return True
        if self._engine.now_s - probe.sent_s < self._resend_s:
            return False
        probe.sent_s, probe.previous_index = self._engine.now_s, append.previous_index
        return True

    def rewind(self) -> None:
        """Undo, for those being probed, that the library took appends for sent."""
        for key, probe in self._probes.items():
            if probe.previous_index >= 0 and self._engine.match_index(key) is not None:
                ours = min(probe.previous_index, self._journal.last_index)
                self._engine.set_next_index(key, ours + 1)

    def connected(self, key: ReplicaKey) -> None:
        """Begin anew behind what was known to match: what was on its way may be lost.

        A follower may have less than it said: its disk lost something, or a copy of it said so.
        """
        match = self._engine.match_index(key)
        if match is None or not self._engine.is_leader or not self._hardening.probe_mode:
            return
        if match > 0:
            self._engine.set_next_index(key, match + 1)
            self._engine.forget_match(key)
        self._probes[key] = _Probe()

    def disconnected(self, key: ReplicaKey) -> None:
        """Forget a follower, which may never come back."""
        self._probes.pop(key, None)

    def holds(self, key: ReplicaKey) -> bool:
        """Whether a follower is to be sent nothing for now."""
        probe = self._probes.get(key)
        return probe is not None and self._engine.now_s - probe.sent_s < self._resend_s

    def receive_answer(self, source: ReplicaKey, answer: AppendAnswer, match: int) -> None:
        """Hand an answer to the library, as far as it says something new."""
        if not self._hardening.probe_mode:
            self._engine.receive_answer(source, answer)
            return
        if answer.success:
            self._receive_success(source, answer)
        elif answer.reset:
            self._engine.receive_answer(source, self._judge_rejection(source, answer, match))
        else:
            self._engine.receive_answer(source, answer)

    def _receive_success(self, source: ReplicaKey, answer: AppendAnswer) -> None:
        if self._probes.pop(source, None) is not None:
            # Continue right behind the probe.
            self._engine.receive_answer(source, replace(answer, reset=True))
            return
        before = self._engine.next_index(source)
        self._engine.receive_answer(source, answer)
        # The library would send what is on its way already once more.
        self._engine.set_next_index(source, max(before, self._engine.next_index(source)))

    def _judge_rejection(
        self, source: ReplicaKey, answer: AppendAnswer, match: int
    ) -> AppendAnswer:
        rejected, probe = answer.rejected_index, self._probes.get(source)
        if rejected == 0:  # it was not said which
            rejected = answer.next_index
        elif rejected <= match:
            return replace(answer, reset=False)  # it was overtaken by a success
        elif probe is not None and rejected != probe.previous_index:
            return replace(answer, reset=False)  # it is about an append before the probe
        self._probes[source] = _Probe()
        next_index = max(match + 1, min(answer.next_index, rejected))
        return replace(answer, next_index=min(next_index, self._journal.last_index + 1))
