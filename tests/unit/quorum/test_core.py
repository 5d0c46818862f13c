"""The core: acknowledged commands survive a crash at any step of the disk."""
# pyright: reportPrivateUsage=false

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.quorum.raft import core as core_module
from quorate.quorum.raft.core import Applied, CommandTooLargeError, RaftCore
from quorate.quorum.raft.engine import Timing
from quorate.quorum.raft.simulated_storage import SimulatedCrash, SimulatedStorage

TIMING = Timing(heartbeat_s=0.1, election_min_s=0.5, election_max_s=1.0, snapshot_entries=12)


class Tape:
    """A state machine that remembers every command."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []

    def apply(self, index: int, command: bytes) -> int:
        del index
        self.commands.append(command)
        return len(self.commands)

    def dump(self) -> bytes:
        return b"\n".join(self.commands)

    def load(self, data: bytes) -> None:
        self.commands = data.split(b"\n")


class Node:
    """Drives a core as its shell does: no result is told before the round is durable."""

    def __init__(self, storage: SimulatedStorage, seed: int = 1) -> None:
        self.tape = Tape()
        self.core = RaftCore[int]("1", storage, self.tape, TIMING, Random(seed))
        self.now_s = 0.0
        self.round()

    def flush(self) -> None:
        while work := self.core.start_flush():
            work.run()
            self.core.finish_flush(work)

    def round(self, *commands: bytes) -> list[Applied[int]]:
        for command in commands:
            self.core.propose(command)
        self.flush()
        self.now_s += 0.1
        applied = self.core.tick(self.now_s)
        self.flush()
        return applied


def test_a_new_node_leads_after_its_first_round() -> None:
    node = Node(SimulatedStorage(Random(1)))
    assert node.core.is_leader
    assert (node.core.term, node.core.commit_index, node.core.last_index) == (1, 2, 2)
    assert node.core.snapshot_index == 0


def test_commands_are_applied_once_and_in_order() -> None:
    node = Node(SimulatedStorage(Random(1)))
    assert node.round(b"a", b"b") == [Applied(3, 1, 1), Applied(4, 1, 2)]
    assert node.round() == []
    assert node.tape.commands == [b"a", b"b"]


def test_everything_is_there_after_a_restart_and_the_term_grows() -> None:
    storage = SimulatedStorage(Random(1))
    node = Node(storage)
    for n in range(5):
        node.round(b"%d" % n)
    again = Node(storage)
    assert again.tape.commands == node.tape.commands
    assert (again.core.term, again.core.is_leader) == (2, True)


def test_snapshots_keep_the_journal_short() -> None:
    storage = SimulatedStorage(Random(1))
    node = Node(storage)
    for n in range(100):
        node.round(b"%d" % n)
        assert node.core._journal.last_index - node.core._journal.entries[0].log_index < 20
    assert node.core.snapshot_index > 80
    again = Node(storage)
    assert again.tape.commands == [b"%d" % n for n in range(100)]


def test_large_commands_make_snapshots_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "JOURNAL_BYTES_MIN", 1000)
    node = Node(SimulatedStorage(Random(1)))
    sizes: list[int] = []
    for n in range(10):
        node.round(b"%03d" % n * 100)
        sizes.append(node.core._journal.size_bytes)
    assert node.core.snapshot_index > 3
    assert max(sizes) < 3500


def test_a_command_that_is_too_large_is_refused() -> None:
    node = Node(SimulatedStorage(Random(1)))
    with pytest.raises(CommandTooLargeError):
        node.core.propose(bytes(core_module.COMMAND_BYTES_MAX + 1))
    assert node.round(b"next") == [Applied(3, 1, 1)]


def test_nothing_counts_as_committed_before_it_is_durable() -> None:
    node = Node(SimulatedStorage(Random(1)))
    node.core.propose(b"not flushed")
    with pytest.raises(AssertionError, match="durable"):
        node.core.tick(9.0)


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
            acknowledged, term = list(node.tape.commands), node.core.term
            while True:
                batch = [b"%d" % (number + k) for k in range(rng.choice((1, 2, 5)))]
                number += len(batch)
                applied = node.round(*batch)
                assert [a.result for a in applied] == [
                    len(acknowledged) + 1 + k for k in range(len(batch))
                ]
                acknowledged += batch
                assert node.tape.commands == acknowledged
        except SimulatedCrash:
            storage.crash(power_cut=power_cut)
    check_history(Node(storage), acknowledged, term)


def check_history(node: Node, acknowledged: list[bytes], term: int) -> None:
    """Everything acknowledged comes first; what was under way may follow, in order, once."""
    found = node.tape.commands
    assert found[: len(acknowledged)] == acknowledged
    assert node.core.term > term
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
