"""Mutants are armed against the product as it is: a refactoring cannot disarm one silently."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from quorate.broker.handlers import produce
from quorate.broker.replication.leader import LeaderReplica
from quorate.jepsen.checkers.meanings import MEANINGS
from quorate.jepsen.mutants.launch import UnknownMutantError, arm
from quorate.jepsen.mutants.mutant import PROPERTIES
from quorate.jepsen.mutants.patching import Patches, UnarmedError
from quorate.jepsen.mutants.registry import MUTANTS

LAUNCH = (sys.executable, "-m", "quorate.jepsen.mutants.launch")


@pytest.fixture
def patches() -> Iterator[Patches]:
    made = Patches()
    yield made
    made.undo()


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_still_finds_what_it_breaks(name: str, patches: Patches) -> None:
    arm(name, patches)
    assert len(patches) > 0


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_says_what_it_breaks_and_what_must_be_found(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.name == name
    assert mutant.breaks.endswith(".")
    assert mutant.properties
    assert set(mutant.properties) <= PROPERTIES.keys()
    assert mutant.anomalies
    assert mutant.anomalies <= MEANINGS.keys()
    assert mutant.proof.workloads
    assert mutant.proof.faults


def test_there_are_as_many_mutants_as_promised() -> None:
    assert len(MUTANTS) >= 15
    assert "ack-before-isr" in MUTANTS


def test_what_was_replaced_comes_back(patches: Patches) -> None:
    before = vars(produce)["_must_wait"], vars(LeaderReplica)["_replicated"]
    for name in MUTANTS:
        arm(name, patches)
    assert vars(produce)["_must_wait"] is not before[0]
    assert vars(LeaderReplica)["_replicated"] is not before[1]
    patches.undo()
    assert (vars(produce)["_must_wait"], vars(LeaderReplica)["_replicated"]) == before


def takes(_self: LeaderReplica) -> None:
    """Stand for a method of a mutant."""


def takes_epoch(_self: LeaderReplica, _current_leader_epoch: int) -> None:
    """Stand for another one."""


def test_a_method_that_is_gone_is_told(patches: Patches) -> None:
    with pytest.raises(UnarmedError, match="has no method advance_all of its own"):
        patches.method(LeaderReplica, "advance_all", takes)


def test_a_method_that_a_base_class_has_by_now_is_told(patches: Patches) -> None:
    with pytest.raises(UnarmedError, match="has no method check_epoch of its own"):
        patches.method(LeaderReplica, "check_epoch", takes_epoch)


def test_a_method_that_takes_something_else_by_now_is_told(patches: Patches) -> None:
    with pytest.raises(UnarmedError, match=r"takes .* by now, its mutant"):
        patches.method(LeaderReplica, "_replicated", takes)


def test_a_property_that_is_a_method_by_now_is_told(patches: Patches) -> None:
    with pytest.raises(UnarmedError, match="has no property review"):
        patches.getter(LeaderReplica, "review", lambda _self: True)


def test_a_function_that_is_gone_is_told(patches: Patches) -> None:
    with pytest.raises(UnarmedError, match="has no function must_wait"):
        patches.function(produce, "must_wait", takes)


def test_there_is_no_mutant_of_another_name(patches: Patches) -> None:
    with pytest.raises(UnknownMutantError, match="there are ack-before-isr, "):
        arm("ack-before-irs", patches)


def test_a_process_with_a_mutant_is_the_quorate_command() -> None:
    ran = subprocess.run(
        [*LAUNCH, "ack-before-isr", "--", "version"],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout.startswith("quorate ")


def test_a_process_without_words_says_how_it_is_used() -> None:
    ran = subprocess.run(
        [*LAUNCH, "ack-before-isr"], check=False, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 2
    assert ran.stderr == "usage: python -m quorate.jepsen.mutants.launch NAME -- WORDS...\n"
