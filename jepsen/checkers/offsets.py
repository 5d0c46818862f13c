"""The offset checker: are committed offsets what was committed last, and do they skip nothing?

A ``commit`` asks for ``[group, [[partition, offset], ...]]``, or ``[partition, offset, metadata]``
with texts that are unique in the history, and perhaps the member and its generation behind that. A
``reset`` asks likewise, and may go back. A ``committed`` asks for ``[group, partitions]`` and is
told ``[[partition, offset], ...]``, with the metadata if there is any, and with -1 where nothing is
committed. A ``poll`` that asks with ``[assignment, group, ...]`` is one of a member of that group;
those that name none are of members of the only group there is. Groups begin at the first record.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import accumulate
from typing import Any, Final, NamedTuple

from quorate.dataclass import dataclass
from quorate.jepsen import linearizability as lin
from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.registers import Histories
from quorate.jepsen.history import Kind, Operation

NOTHING: Final = -1
NO_GROUP: Final = ""


class _Said(NamedTuple):
    """An offset that was committed, or told as such."""

    called_ns: int
    returned_ns: float
    offset: int
    process: int


class _Span(NamedTuple):
    """The time of an operation; it may never have ended."""

    called_ns: float
    returned_ns: float


@dataclass(slots=True)
class _Given:
    """Which records of a partition were given to some member."""

    until: int = 0
    """All below this were."""
    beyond: set[int] = field(default_factory=set[int])
    """Beyond that: those that were."""

    def add(self, offsets: Iterable[int]) -> None:
        """Take note of some."""
        self.beyond.update(offset for offset in offsets if offset >= self.until)
        while self.until in self.beyond:
            self.beyond.discard(self.until)
            self.until += 1


@dataclass(slots=True)
class _Committed:
    """What is known of a group's offset in one partition."""

    commits: list[_Said] = field(default_factory=list[_Said])
    """Acknowledged ones."""
    reads: list[_Said] = field(default_factory=list[_Said])
    resets: list[_Span] = field(default_factory=list[_Span])
    highest_asked: int = NOTHING
    has_metadata: bool = False

    def never_reset(self) -> Iterator[tuple[list[_Said], list[_Said]]]:
        """Yield the commits and reads of each stretch of time in which nobody reset the offset.

        What overlaps with a reset may be before or after it, and shows nothing.
        """
        if not self.resets:
            yield self.commits, self.reads
            return
        ends = accumulate((span.returned_ns for span in self.resets), max, initial=-lin.NEVER)
        begins = [*(span.called_ns for span in self.resets), lin.NEVER]
        for begin, end in zip(ends, begins, strict=True):
            yield (
                [
                    said
                    for said in self.commits
                    if begin < said.called_ns and said.returned_ns < end
                ],
                [said for said in self.reads if begin < said.called_ns and said.returned_ns < end],
            )


class OffsetChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], _Given] = {}
        self._groups_given: set[str] = set()
        self._committed: dict[tuple[str, str], _Committed] = {}
        self._registers = Histories("nonlinearizable-commit")
        self._found = Anomalies()
        self._commits = 0

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        name = operation.name
        if name in {"commit", "reset"}:
            if operation.kind is not Kind.FAIL:
                self._add_commit(operation)
        elif operation.kind is not Kind.OK:
            return
        elif name == "poll":
            group = _group_of(operation.asked)
            self._groups_given.add(group)
            for partition, offsets, *_ in operation.told:
                self._given.setdefault((group, partition), _Given()).add(offsets)
        elif name == "committed":
            for partition, offset, *metadata in operation.told:
                self._add_read(operation, (operation.asked[0], partition), offset, metadata)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        for (group, partition), committed in self._committed.items():
            name = f"{group} {partition}"
            committed.resets.sort()
            for commits, reads in committed.never_reset():
                self._check_commits(name, partition, commits)
                self._check_reads(name, partition, commits, reads)
            self._check_phantoms(name, partition, committed)
            if not committed.has_metadata:  # the same offset may be committed again and again
                self._registers.forget(name)
        self._found.merge(self._registers.judge())
        return self._found

    def figures(self) -> dict[str, int | float | str]:
        """Return what is neither right nor wrong."""
        return {"commits acknowledged": self._commits}

    @property
    def undecided(self) -> tuple[int, int]:
        """How many registers there were, and of how many nobody knows."""
        return self._registers.keys, len(self._registers.undecided)

    # --- as operations end ----------------------------------------------------

    def _of(self, group: str, partition: str) -> _Committed:
        return self._committed.setdefault((group, partition), _Committed())

    def _add_commit(self, operation: Operation) -> None:
        """Take note of a commit, which must pass no record that nobody was given so far.

        Members poll before they commit, so operations that end before this one tell of it.
        """
        group, offsets, *_ = operation.asked
        is_reset = operation.name == "reset"
        self._commits += operation.kind is Kind.OK and not is_reset
        for partition, offset, *metadata in offsets:
            committed = self._of(group, partition)
            committed.highest_asked = max(committed.highest_asked, offset)
            committed.has_metadata |= bool(metadata)
            self._registers.add(
                f"{group} {partition}", lin.Put(_value_of(offset, metadata)), operation
            )
            if is_reset:
                self._pass_over(group, partition, offset)
                returned_ns = operation.returned_ns if operation.kind is Kind.OK else None
                end_ns = lin.NEVER if returned_ns is None else returned_ns
                committed.resets.append(_Span(operation.called_ns, end_ns))
                continue
            given = self._given_to(group, partition)
            if offset > given.until:
                self._found.add(
                    "skipped-record",
                    f"{partition}: process {operation.process} commits {offset}, and nobody was"
                    f" given {given.until}",
                    where=partition,
                    offsets=(given.until, offset),
                    processes=(operation.process,),
                    at_ns=(operation.called_ns,),
                )
            if operation.kind is Kind.OK:
                committed.commits.append(_said(operation, offset))

    def _given_to(self, group: str, partition: str) -> _Given:
        who = group if group in self._groups_given else NO_GROUP
        return self._given.get((who, partition), _Given())

    def _pass_over(self, group: str, partition: str, offset: int) -> None:
        """Take note that a group is to begin at an offset, and need not be given what is before."""
        for who in group, NO_GROUP:
            given = self._given.setdefault((who, partition), _Given())
            given.until = max(given.until, offset)

    def _add_read(
        self, operation: Operation, key: tuple[str, str], offset: int, metadata: list[Any]
    ) -> None:
        self._of(*key).reads.append(_said(operation, offset))
        value = None if offset == NOTHING else _value_of(offset, metadata)
        self._registers.add(" ".join(key), lin.Get(value), operation)

    # --- in the end -----------------------------------------------------------

    def _check_commits(self, name: str, partition: str, commits: list[_Said]) -> None:
        """Find commits that go back behind what had been acknowledged when they began."""
        for said, before in _with_highest_before(commits, commits):
            if said.offset < before.offset:
                self._found.add(
                    "commit-regression",
                    f"{name}: process {said.process} committed {said.offset} after process"
                    f" {before.process} had committed {before.offset}",
                    **_fields(partition, said, before),
                )

    def _check_reads(
        self, name: str, partition: str, commits: list[_Said], reads: list[_Said]
    ) -> None:
        """Find offsets told that are older than the last commit, or than what was told before."""
        known = [*commits, *(read for read in reads if read.offset != NOTHING)]
        for said, before in _with_highest_before(reads, known):
            if said.offset < before.offset:
                self._found.add(
                    "stale-committed-offset",
                    f"{name}: process {said.process} was told {said.offset} after {before.offset}"
                    f" had been committed, or told",
                    **_fields(partition, said, before),
                )

    def _check_phantoms(self, name: str, partition: str, committed: _Committed) -> None:
        for said in committed.reads:
            if said.offset > committed.highest_asked:
                self._found.add(
                    "phantom-commit",
                    f"{name}: process {said.process} was told {said.offset}; nobody ever"
                    f" committed more than {committed.highest_asked}",
                    **_fields(partition, said, said),
                )


def _fields(partition: str, said: _Said, before: _Said) -> dict[str, Any]:
    return {
        "where": partition,
        "offsets": (said.offset, before.offset),
        "processes": (before.process, said.process),
        "at_ns": (before.called_ns, said.called_ns),
    }


def _group_of(asked: Any) -> str:
    return NO_GROUP if asked is None or isinstance(asked, int) else asked[1]


def _value_of(offset: int, metadata: list[Any]) -> str:
    return f"{offset} {metadata[0]}" if metadata else str(offset)


def _said(operation: Operation, offset: int) -> _Said:
    assert operation.returned_ns is not None, "what is known was told"
    return _Said(operation.called_ns, operation.returned_ns, offset, operation.process)


def _with_highest_before(judged: list[_Said], known: list[_Said]) -> Iterator[tuple[_Said, _Said]]:
    """Yield each with the highest offset of those that had ended when it began, if any had."""
    ended = sorted(known, key=lambda said: said.returned_ns)
    done, highest = 0, None
    for said in sorted(judged):
        while done < len(ended) and ended[done].returned_ns < said.called_ns:
            if highest is None or ended[done].offset > highest.offset:
                highest = ended[done]
            done += 1
        if highest is not None:
            yield said, highest
