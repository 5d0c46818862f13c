"""What clients of a quorum did and saw, what its controllers told, and whether it all agrees."""

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.control import messages as m
from quorate.jepsen.linearizability import (
    NEVER,
    Cas,
    Linearizable,
    NotLinearizable,
    Operation,
    check,
    described,
)

SHOWN_MAX: Final = 6


class View(NamedTuple):
    """What a controller said about who leads; ``linearizable`` if it asked a majority before."""

    called: float
    returned: float
    node_id: int
    leader_id: int
    term: int
    version: int
    """Of the metadata."""
    linearizable: bool


class Wipe(NamedTuple):
    """A controller got a new disk: it may have forgotten everything."""

    at: float
    node_id: int


class Change(NamedTuple):
    """A register got a value: a fact of the metadata."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Feed:
    """The facts that one reader got from one controller, by version.

    ``gaps`` are versions (after, up to) that came as a snapshot: the facts in between are not
    known. ``end`` is the version up to which the reader has come, ``start`` the one of the
    snapshot that it began with, if it did.
    """

    node_id: int
    changes: dict[int, tuple[Change, ...]]
    gaps: list[tuple[int, int]]
    end: int
    start: int = 0


class History:
    """Everything that happened; for several threads.

    Invariant: no value is ever written by two requests, so a value says which request it was.
    Registers have numbers for names, from ``first_key`` on, and nobody else has written them.
    """

    def __init__(self, first_key: int) -> None:
        self.first_key: Final = first_key
        self.operations: list[Operation] = []
        self.views: list[View] = []
        self.refused: set[Change] = set()
        """Writes that the controllers said have not been carried out."""
        self.wiped: list[Wipe] = []
        self.problems: list[str] = []
        self.unknown: Counter[str] = Counter()
        """Why outcomes are unknown, and how often."""

    @property
    def acknowledged(self) -> int:
        """How many writes were acknowledged."""
        return sum(_is_acknowledged(operation) for operation in self.operations)

    def saw(self, called: float, answer: m.DescribeQuorumAnswer, *, linearizable: bool) -> None:
        """Note what a controller said about the quorum."""
        self.views.append(
            View(
                called,
                time.monotonic(),
                answer.node_id,
                answer.leader_id,
                answer.leader_epoch,
                answer.metadata_version,
                linearizable,
            )
        )

    def check(self, feeds: Sequence[Feed], *, complete: bool = True) -> list[str]:
        """Return what is wrong; facts can only be missing from feeds that are complete."""
        return [
            *self.problems,
            *wrong_order(self.operations),
            *wrong_terms(self.views, self.wiped),
            *wrong_feeds(feeds),
            *wrong_facts(self.operations if complete else (), self.refused, feeds),
        ]


def wrong_order(operations: Sequence[Operation]) -> list[str]:
    """Say which register did not behave like one."""
    match check(operations):
        case Linearizable():
            return []
        case NotLinearizable(key, explained, value, stuck):
            last = "\n  ".join(map(_shown, explained[-SHOWN_MAX:]))
            next_ = "\n  ".join(map(_shown, stuck[:SHOWN_MAX]))
            problem = f"register {key} is not linearizable; it can be explained up to\n  {last}\n"
            return [f"{problem} when it has {value!r}, but none of these can be next:\n  {next_}"]
        case undecided:
            return [f"nobody can tell whether register {undecided.key} is linearizable"]


def wrong_terms(views: Sequence[View], wiped: Sequence[Wipe]) -> list[str]:
    """Say where two led in one term, or where a term went back."""
    problems: list[str] = []
    leaders = defaultdict[int, set[int]](set)
    for view in views:
        if view.leader_id != m.NO_NODE:
            leaders[view.term].add(view.leader_id)
    for term, those in leaders.items():
        if len(those) > 1:
            problems.append(f"in term {term}, {sorted(those)} led")
    problems += wrong_memory(views, wiped)
    return problems + wrong_progress([view for view in views if view.linearizable])


def wrong_memory(views: Sequence[View], wiped: Sequence[Wipe]) -> list[str]:
    """Say who forgot a term in which it led: its own vote for that was on its disk before."""
    led: dict[int, View] = {}
    for view in sorted(views, key=lambda view: view.returned):
        before = led.get(view.node_id)
        if before is not None and _has_new_disk(before, view, wiped):
            del led[view.node_id]
            before = None
        if before is not None and before.returned < view.called and view.term < before.term:
            return [f"a controller forgot a term: {before}, then {view}"]
        if view.leader_id == view.node_id and (before is None or view.term > before.term):
            led[view.node_id] = view
    return []


def _has_new_disk(before: View, view: View, wiped: Sequence[Wipe]) -> bool:
    return any(
        wipe.node_id == view.node_id and before.called < wipe.at < view.returned for wipe in wiped
    )


def wrong_progress(views: Sequence[View]) -> list[str]:
    """Say where the term or the version went back: both only grow, and these are not stale."""
    ended = sorted(views, key=lambda view: view.returned)
    before: View | None = None
    done = 0
    for view in sorted(views, key=lambda view: view.called):
        while done < len(ended) and ended[done].returned < view.called:
            before = _later(before, ended[done])
            done += 1
        if before is not None and (view.term < before.term or view.version < before.version):
            return [f"the term or the version went back: {before}, then {view}"]
    return []


def _later(before: View | None, view: View) -> View:
    """Return a view that has the higher numbers of both."""
    if before is None:
        return view
    highest = max(before.term, view.term), max(before.version, view.version)
    return view._replace(term=highest[0], version=highest[1])


def wrong_feeds(feeds: Sequence[Feed]) -> list[str]:
    """Say where two controllers told different facts."""
    problems: list[str] = []
    told: dict[int, tuple[Change, ...]] = {}
    for feed in feeds:
        for version, changes in feed.changes.items():
            if told.setdefault(version, changes) != changes:
                problems.append(
                    f"version {version} is {changes} on controller {feed.node_id},"
                    f" {told[version]} on another"
                )
        for other in feeds:
            missing = [v for v in other.changes if not _misses(feed, v) and v not in feed.changes]
            if missing:
                problems.append(
                    f"controller {feed.node_id} never told of version {missing[0]},"
                    f" which {other.node_id} has"
                )
    return problems


def wrong_facts(
    operations: Sequence[Operation], refused: set[Change], feeds: Sequence[Feed]
) -> list[str]:
    """Say which acknowledged writes are not among the facts, and which refused ones are."""
    told: dict[int, tuple[Change, ...]] = {}
    for feed in feeds:
        told.update(feed.changes)
    keys = {operation.key for operation in operations} | {change.key for change in refused}
    times = Counter(c for changes in told.values() for c in changes if c.key in keys)
    problems = [f"{change} happened {count} times" for change, count in times.items() if count > 1]
    problems += [f"{change} happened, but was refused" for change in refused & times.keys()]
    if blind(feeds):
        return problems
    lost = [
        operation
        for operation in operations
        if _is_acknowledged(operation) and times[_change_of(operation)] == 0
    ]
    if lost:
        problems.append(f"{len(lost)} acknowledged writes are lost; the first: {_shown(lost[0])}")
    return problems


def blind(feeds: Sequence[Feed]) -> bool:
    """Whether there are versions that no reader saw, so that facts may be missing here."""
    begin = min(feed.start for feed in feeds)
    ends = {feed.end for feed in feeds} | {end for feed in feeds for _, end in feed.gaps}
    ends |= {feed.start for feed in feeds}
    # A gap that all have in common ends where one of them ends.
    return any(
        version > begin and all(_misses(feed, version) for feed in feeds) for version in ends
    )


def _misses(feed: Feed, version: int) -> bool:
    return not feed.start < version <= feed.end or any(
        after < version <= end for after, end in feed.gaps
    )


def _is_acknowledged(operation: Operation) -> bool:
    return isinstance(operation.action, Cas) and operation.action.done is True


def _change_of(operation: Operation) -> Change:
    assert isinstance(operation.action, Cas)
    return Change(operation.key, str(operation.action.value))


def _shown(operation: Operation) -> str:
    returned = "never" if operation.returned == NEVER else f"{operation.returned:.4f}"
    what = described(operation.action)
    return f"{operation.called:.4f} to {returned}, client {operation.client}: {what}"
