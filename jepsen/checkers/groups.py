"""The group checker: do the members of a consumer group share its partitions, and skip nothing?

An ``assign`` is told ``[group, generation, member, partitions]`` when a member hears what it is to
read; one process stands for one client, over the lives of its members. A ``poll`` asks with the
number of an assignment, or with ``[assignment, group, generation, member]``, and is told
``[[partition, offsets, values], ...]``. Generations are those of classic groups, and the epochs of
members to whom the coordinator assigns (KIP-848): what they have is of the one assignment of that
epoch. None where nobody says. Commits are the
:mod:`offset checker's <quorate.jepsen.checkers.offsets>`.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.checkers.offsets import OffsetChecker
from quorate.jepsen.history import Kind, Operation


class _Span(NamedTuple):
    """Offsets that a member was given, the last one exclusive."""

    first: int
    end: int
    member: str


class _Generation(NamedTuple):
    """A generation that somebody was told of."""

    number: int
    returned_ns: int


class GroupChecker:
    """Takes the operations of a history in the order of their ends, then judges."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, int, str], str] = {}
        self._told: dict[tuple[str, str | int], _Generation] = {}
        """By group, and by member or process: the last generation that it was told of."""
        self._newest: dict[str, list[_Generation]] = defaultdict(list)
        """By group: each generation that was newer than all before, and when it was told first."""
        self._given: dict[tuple[str, int, str], list[_Span]] = defaultdict(list)
        self._offsets = OffsetChecker()
        self._found = Anomalies()

    def add(self, operation: Operation) -> None:
        """Take note of an operation; those of other workloads mean nothing here."""
        self._offsets.add(operation)
        if operation.kind is not Kind.OK:
            return
        if operation.name == "assign":
            self._add_assignment(operation)
        elif operation.name == "poll":
            if not _is_number(operation.asked):
                self._add_poll(*operation.asked, told=operation.told)
        elif operation.name == "commit":
            self._check_fencing(*operation.asked, operation=operation)

    def finish(self) -> Anomalies:
        """Return all that is wrong."""
        for (group, generation, partition), spans in self._given.items():
            self._check_given(group, generation, partition, sorted(spans))
        self._found.merge(self._offsets.finish())
        return self._found

    def figures(self) -> dict[str, int | float | str]:
        """Return what is neither right nor wrong."""
        return {"generations": len({(g, n) for g, n, _ in self._owners}), **self._offsets.figures()}

    @property
    def undecided(self) -> tuple[int, int]:
        """How many registers of offsets there were, and of how many nobody knows."""
        return self._offsets.undecided

    def _add_assignment(self, operation: Operation) -> None:
        group, generation, member, partitions = operation.told
        if generation is None:  # who has it may have got it in another one
            return
        assert operation.returned_ns is not None, "what is known was told"
        self._check_generation(operation, group, generation, member)
        newest = self._newest[group]
        if not newest or generation > newest[-1].number:
            newest.append(_Generation(generation, operation.returned_ns))
        for partition in partitions:
            owner = self._owners.setdefault((group, generation, partition), member)
            if owner != member:
                self._found.add(
                    "double-assignment",
                    f"{group}: in generation {generation} both {owner} and {member} have"
                    f" {partition}",
                    where=partition,
                    processes=(operation.process,),
                    at_ns=(operation.returned_ns,),
                )

    def _check_generation(
        self, operation: Operation, group: str, generation: int, member: str
    ) -> None:
        """See that nobody who was told of a generation is told of an older one."""
        assert operation.returned_ns is not None, "what is known was told"
        keys: tuple[str | int, str | int] = member, operation.process
        before = max(
            (told for key in keys if (told := self._told.get((group, key))) is not None),
            default=None,
        )
        if before is not None and generation < before.number:
            self._found.add(
                "generation-regression",
                f"{group}: {member} was told generation {generation} after {before.number}",
                processes=(operation.process,),
                at_ns=(before.returned_ns, operation.called_ns),
            )
        for key in keys:
            self._told[group, key] = _Generation(generation, operation.returned_ns)

    def _check_fencing(
        self,
        group: str,
        _offsets: object,
        member: str = "",
        generation: int | None = None,
        *,
        operation: Operation,
    ) -> None:
        """See that a commit is not of a generation that was over before it began."""
        told = self._newest.get(group, ())
        before = bisect_left(told, operation.called_ns, key=lambda each: each.returned_ns)
        newest = told[before - 1] if before else None
        if generation is not None and newest is not None and newest.number > generation:
            self._found.add(
                "zombie-commit",
                f"{group}: a commit of {member} in generation {generation} was accepted when"
                f" somebody had been told of generation {newest.number}",
                processes=(operation.process,),
                at_ns=(newest.returned_ns, operation.called_ns),
            )

    def _add_poll(
        self, _assignment: int, group: str, generation: int | None, member: str, *, told: Any
    ) -> None:
        for partition, offsets, *_ in told:
            if offsets and generation is not None:
                self._add_given((group, generation, partition), offsets, member)

    def _add_given(self, key: tuple[str, int, str], offsets: Sequence[int], member: str) -> None:
        spans = self._given[key]
        first, end = offsets[0], offsets[-1] + 1
        if spans and spans[-1].member == member and spans[-1].end == first:
            spans[-1] = spans[-1]._replace(end=end)
        else:
            spans.append(_Span(first, end, member))

    def _check_given(
        self, group: str, generation: int, partition: str, spans: Iterable[_Span]
    ) -> None:
        """Find offsets that two members were given in one generation."""
        farthest: dict[str, int] = {}
        for span in spans:
            for member, end in farthest.items():
                if member != span.member and span.first < end:
                    self._found.add(
                        "double-processing",
                        f"{group}: in generation {generation} both {member} and {span.member} were"
                        f" given {span.first} of {partition}",
                        where=partition,
                        offsets=(span.first,),
                    )
            farthest[span.member] = max(span.end, farthest.get(span.member, 0))


def _is_number(asked: Any) -> bool:
    """Return whether a poll says no more than the number of its assignment."""
    return asked is None or isinstance(asked, int)
