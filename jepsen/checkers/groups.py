"""The group checker: do the members of a consumer group share its partitions, and skip nothing?

An ``assign`` is told ``[group, generation, member, partitions]`` when a member hears what it is to
read. A ``poll`` is told ``[[partition, offsets, values], ...]``. A ``commit`` asks for ``[group,
[[partition, offset], ...]]``; a ``committed`` asks for ``[group, partitions]`` and is told
``[[partition, offset], ...]``, with -1 where nothing is committed. All who poll in one history are
members of one group, which begins at the first record and is never reset.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.history import Kind, Operation

NOTHING: Final = -1


class _Said(NamedTuple):
    """An offset that was committed, or told as such."""

    called_ns: int
    returned_ns: int
    offset: int
    process: int


@dataclass(slots=True)
class _Partition:
    """What is known of one partition's offsets in the group."""

    commits: list[_Said] = field(default_factory=list[_Said])
    """Acknowledged ones."""
    reads: list[_Said] = field(default_factory=list[_Said])
    highest_asked: int = NOTHING
    given_until: int = 0
    """All records below this were given to some member."""
    given: set[int] = field(default_factory=set[int])
    """Beyond that: those that were."""


class GroupChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, int, str], str] = {}
        self._partitions: dict[str, _Partition] = {}
        self._found = Anomalies()

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        if operation.name == "commit":
            self._add_commit(operation)
        elif operation.kind is not Kind.OK:
            return
        elif operation.name == "assign":
            self._add_assignment(*operation.told)
        elif operation.name == "poll":
            for name, offsets, _ in operation.told:
                self._add_given(self._partition(name), offsets)
        elif operation.name == "committed":
            for name, offset in operation.told:
                self._partition(name).reads.append(_said(operation, offset))

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        for name, partition in self._partitions.items():
            self._check_commits(name, partition)
            self._check_reads(name, partition)
        return self._found

    def _partition(self, name: str) -> _Partition:
        partition = self._partitions.get(name)
        if partition is None:
            partition = self._partitions[name] = _Partition()
        return partition

    def _add_assignment(
        self, group: str, generation: int, member: str, partitions: Iterable[str]
    ) -> None:
        for partition in partitions:
            owner = self._owners.setdefault((group, generation, partition), member)
            if owner != member:
                self._found.add(
                    "double-assignment",
                    f"{group}: in generation {generation} both {owner} and {member} have"
                    f" {partition}",
                )

    @staticmethod
    def _add_given(partition: _Partition, offsets: Iterable[int]) -> None:
        given = partition.given
        given.update(offset for offset in offsets if offset >= partition.given_until)
        while partition.given_until in given:
            given.discard(partition.given_until)
            partition.given_until += 1

    def _add_commit(self, operation: Operation) -> None:
        """Take note of a commit, which must pass no record that nobody was given so far.

        Members poll before they commit, so operations that end before this one tell of it.
        """
        if operation.kind is Kind.FAIL:
            return
        for name, offset in operation.asked[1]:
            partition = self._partition(name)
            partition.highest_asked = max(partition.highest_asked, offset)
            if offset > partition.given_until:
                self._found.add(
                    "skipped-record",
                    f"{name}: process {operation.process} commits {offset}, and nobody was given"
                    f" {partition.given_until}",
                )
            if operation.kind is Kind.OK:
                partition.commits.append(_said(operation, offset))

    def _check_commits(self, name: str, partition: _Partition) -> None:
        """Find commits that go back behind what had been acknowledged when they began."""
        for said, before in _with_highest_before(partition.commits, partition.commits):
            if said.offset < before.offset:
                self._found.add(
                    "commit-regression",
                    f"{name}: process {said.process} committed {said.offset} after process"
                    f" {before.process} had committed {before.offset}",
                )

    def _check_reads(self, name: str, partition: _Partition) -> None:
        """Find offsets told that are older than the last commit, or than what was told before."""
        known = [*partition.commits, *(read for read in partition.reads if read.offset != NOTHING)]
        for said, before in _with_highest_before(partition.reads, known):
            if said.offset < before.offset:
                self._found.add(
                    "stale-committed-offset",
                    f"{name}: process {said.process} was told {said.offset} after {before.offset}"
                    f" had been committed, or told",
                )
        for said in partition.reads:
            if said.offset > partition.highest_asked:
                self._found.add(
                    "phantom-commit",
                    f"{name}: process {said.process} was told {said.offset}; nobody ever"
                    f" committed more than {partition.highest_asked}",
                )


def _said(operation: Operation, offset: int) -> _Said:
    assert operation.returned_ns is not None, "what is known was told"
    return _Said(operation.called_ns, operation.returned_ns, offset, operation.process)


def _with_highest_before(judged: list[_Said], known: list[_Said]) -> Iterable[tuple[_Said, _Said]]:
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
