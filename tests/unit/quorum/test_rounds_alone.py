"""A voter that is alone: acknowledged commands survive a crash at any step of the disk."""
# pyright: reportPrivateUsage=false

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.promise import Promise
from quorate.quorum.raft import core as core_module
from quorate.quorum.raft.messages import COMMAND_BYTES_MAX
from quorate.quorum.raft.outcomes import NotDone, NotLeader, ReadDone, Unknown
from quorate.quorum.raft.rounds import CommandTooLargeError, Rounds
from quorate.quorum.raft.rules import Rules
from quorate.quorum.raft.simulated_storage import SimulatedCrash, SimulatedStorage
from quorate.quorum.raft.timing import Timing
from tests.unit.quorum.cluster import Tape, key, voters

NEVER = float("inf")
RULES = Rules(Timing(heartbeat_s=0.1, election_min_s=0.5, election_max_s=1.0, snapshot_entries=12))


class Node:
    """Drives a replica as its shell does."""

    def __init__(self, storage: SimulatedStorage, seed: int = 1, rules: Rules = RULES) -> None:
        self.tape = Tape()
        self.rounds = Rounds[int](key(1), voters(1), storage, self.tape, rules, Random(seed))
        self.now_s = 0.0
        self.round()

    def flush(self) -> None:
        while work := self.rounds.start_flush():
            work.run()
            self.rounds.finish_flush(work)

    def round(self, *commands: bytes) -> list[Promise[int | NotDone]]:
        promises = [self.rounds.propose(command, NEVER) for command in commands]
        self.now_s += 0.1
        assert self.rounds.start(self.now_s) == []
        assert not any(promise.resolved for promise in promises)
        self.flush()
        assert self.rounds.finish() == []
        if snapshot := self.rounds.start_snapshot():
            snapshot.run()
            self.rounds.finish_snapshot(snapshot)
            self.round()
        return promises


def results(promises: list[Promise[int | NotDone]]) -> list[int | NotDone]:
    return [promise.value for promise in promises]


def test_a_new_node_leads_after_its_first_round() -> None:
    rounds = Node(SimulatedStorage(Random(1))).rounds
    assert rounds.is_leader
    assert rounds.leader == key(1)
    assert (rounds.term, rounds.commit_index, rounds.last_index) == (1, 2, 2)
    assert (rounds.snapshot_index, rounds.snapshot_bytes) == (0, 0)
    assert rounds.progress == {}
    assert rounds.next_deadline_s == NEVER


def test_commands_are_applied_once_and_in_order() -> None:
    node = Node(SimulatedStorage(Random(1)))
    assert results(node.round(b"a", b"b")) == [1, 2]
    assert node.rounds.applied_index == 4
    node.round()
    assert node.tape.commands == [b"a", b"b"]


def test_everything_is_there_after_a_restart_and_the_term_grows() -> None:
    storage = SimulatedStorage(Random(1))
    node = Node(storage)
    for n in range(5):
        node.round(b"%d" % n)
    again = Node(storage)
    assert again.tape.commands == node.tape.commands
    assert (again.rounds.term, again.rounds.is_leader) == (2, True)


def test_a_read_needs_nobodys_consent() -> None:
    node = Node(SimulatedStorage(Random(1)))
    node.round(b"a")
    read = node.rounds.read(NEVER)
    node.round()
    assert read.value == ReadDone(3)


def test_snapshots_keep_the_journal_short() -> None:
    storage = SimulatedStorage(Random(1))
    node = Node(storage)
    for n in range(100):
        node.round(b"%d" % n)
        journal = node.rounds._core.journal
        assert journal.last_index - journal.entries[0].log_index < 20
    assert node.rounds.snapshot_index > 80
    assert node.rounds.snapshot_bytes > 100
    again = Node(storage)
    assert again.tape.commands == [b"%d" % n for n in range(100)]


def test_large_commands_make_snapshots_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "JOURNAL_BYTES_MIN", 1000)
    node = Node(SimulatedStorage(Random(1)))
    sizes: list[int] = []
    for n in range(10):
        node.round(b"%03d" % n * 100)
        sizes.append(node.rounds.journal_bytes)
    assert node.rounds.snapshot_index > 3
    assert max(sizes) < 3700


def test_what_cannot_be_trimmed_does_not_make_a_snapshot_of_every_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core_module, "JOURNAL_BYTES_MIN", 1000)
    timing = Timing(0.1, 0.5, 1.0, snapshot_entries=5000, retained_entries=1000)
    node = Node(SimulatedStorage(Random(1)), rules=Rules(timing))
    snapshots: set[int] = set()
    for n in range(60):
        node.round(b"%02d" % n * 50)
        snapshots.add(node.rounds.snapshot_index)
    assert 3 <= len(snapshots) <= 8


def test_a_command_that_is_too_large_is_refused() -> None:
    node = Node(SimulatedStorage(Random(1)))
    with pytest.raises(CommandTooLargeError):
        node.rounds.propose(bytes(COMMAND_BYTES_MAX), NEVER)
    assert results(node.round(b"next")) == [1]


def test_nothing_is_told_before_it_is_durable() -> None:
    node = Node(SimulatedStorage(Random(1)))
    promise = node.rounds.propose(b"a", NEVER)
    node.rounds.start(1.0)
    flush = node.rounds.start_flush()
    assert flush is not None
    assert not promise.resolved
    assert node.rounds.applied_index == 2
    flush.run()
    node.rounds.finish_flush(flush)
    node.flush()
    assert promise.value == 1


def test_what_is_under_way_when_the_node_stops_is_unknown_and_the_rest_was_never_in_the_log() -> (
    None
):
    node = Node(SimulatedStorage(Random(1)))
    in_log = node.rounds.propose(b"a", NEVER)
    node.rounds.start(1.0)
    waiting = node.rounds.propose(b"b", NEVER)
    read = node.rounds.read(NEVER)
    node.rounds.stop()
    assert in_log.value == Unknown()
    assert waiting.value == NotLeader(key(1))
    assert read.value == Unknown()


def test_a_full_disk_ends_leadership_until_there_is_space() -> None:
    storage = SimulatedStorage(Random(1))
    node = Node(storage)
    promise = node.rounds.propose(b"a", NEVER)
    node.rounds.start(1.0)
    flush = node.rounds.start_flush()
    assert flush is not None
    assert node.rounds.storage_full() == []
    assert not node.rounds.is_leader
    assert node.rounds.propose(b"b", NEVER).value == NotLeader()
    flush.run()
    node.rounds.finish_flush(flush)
    node.flush()
    node.rounds.finish()
    node.round()
    assert node.rounds.is_leader
    assert promise.value == 1


def test_who_elected_itself_and_cannot_write_its_term_leads_no_more_until_there_is_space() -> None:
    rounds = Rounds[int](key(1), voters(1), SimulatedStorage(Random(1)), Tape(), RULES, Random(1))
    rounds.start(0.1)
    first = rounds.start_flush()
    assert first is not None
    first.run()
    rounds.finish_flush(first)
    flush = rounds.start_flush()
    assert flush is not None
    assert rounds.is_leader
    assert rounds.storage_full() == []
    assert not rounds.is_leader
    flush.run()
    rounds.finish_flush(flush)
    assert rounds.finish() == []
    rounds.start(2.0)
    while flush := rounds.start_flush():
        flush.run()
        rounds.finish_flush(flush)
    assert (rounds.is_leader, rounds.term) == (True, 2)


def crash_again_and_again(
    rng: Random, storage: SimulatedStorage, *, power_cut: bool, lives: int
) -> None:
    acknowledged: list[bytes] = []
    number, term = 0, 0
    for _ in range(lives):
        storage.fuse = rng.randrange(1, 120)
        try:
            node = Node(storage, rng.getrandbits(32))
            check_history(node, acknowledged, term)
            acknowledged, term = list(node.tape.commands), node.rounds.term
            while True:
                batch = [b"%d" % (number + k) for k in range(rng.choice((1, 2, 5)))]
                number += len(batch)
                first = len(acknowledged) + 1
                assert results(node.round(*batch)) == list(range(first, first + len(batch)))
                acknowledged += batch
                assert node.tape.commands == acknowledged
        except SimulatedCrash:
            storage.crash(power_cut=power_cut)
    check_history(Node(storage), acknowledged, term)


def check_history(node: Node, acknowledged: list[bytes], term: int) -> None:
    """Everything acknowledged comes first; what was under way may follow, in order, once."""
    found = node.tape.commands
    assert found[: len(acknowledged)] == acknowledged
    assert node.rounds.term > term
    numbers = [int(c) for c in found]
    assert numbers == sorted(set(numbers))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_acknowledged_commands_survive_crashes_at_random_steps(seed: int, power_cut: bool) -> None:
    rng = Random(seed)
    crash_again_and_again(rng, SimulatedStorage(rng), power_cut=power_cut, lives=8)


@pytest.mark.parametrize("power_cut", [False, True])
def test_acknowledged_commands_survive_a_crash_at_every_step(power_cut: bool) -> None:
    """Die once at each step of a run that goes through several snapshots."""
    for fuse in range(1, 250):
        storage = SimulatedStorage(Random(fuse))
        acknowledged: list[bytes] = []
        storage.fuse = fuse
        try:
            node = Node(storage)
            for n in range(40):
                node.round(b"%d" % n)
                acknowledged.append(b"%d" % n)
        except SimulatedCrash:
            storage.crash(power_cut=power_cut)
        storage.fuse = None
        check_history(Node(storage), acknowledged, 0)
