"""Faults by schedule: when they begin and end, and what the history says of them."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from quorate.jepsen.history import Kind, Operation
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import DiedError, Host
from quorate.jepsen.nemesis.conducting import Conductor
from quorate.jepsen.nemesis.fault import Family, Fault, Note, NotNowError, Variant
from quorate.jepsen.nemesis.schedules import Step
from quorate.jepsen.reading import HistoryFile
from quorate.jepsen.recorder import Recorder

SECONDS = 0.3


class Trouble:
    """A fault that does nothing but what it is told to raise."""

    def __init__(self, diary: list[str], error: Exception | None = None) -> None:
        self._diary = diary
        self._error = error

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        if isinstance(self._error, NotNowError):
            raise self._error
        note(cast("Sequence[Host]", ()), why="because")
        if self._error is not None:
            raise self._error
        self._diary.append("on")

    def verified(self) -> str:
        return "it hurts"

    def heal(self) -> None:
        self._diary.append("off")


def conducted(tmp_path: Path, fault: Fault, *steps: Step) -> list[Operation]:
    path = tmp_path / "history.cbor"
    recorder = Recorder(path, {})
    conductor = Conductor(cast("Lab", None), recorder, Random(0), lambda _: None)
    family = Family("ill", "", {"badly": Variant(1, lambda: fault)})
    try:
        conductor.run(steps, {"ill": family}, SECONDS, lambda: None)
    finally:
        conductor.heal_all()
        recorder.close()
    return list(HistoryFile(path).operations())


def ended(operations: Sequence[Operation]) -> list[tuple[str, Kind, Any]]:
    return [(each.name, each.kind, each.asked["fault"]) for each in operations]


def test_a_fault_is_noted_healed_in_its_time_and_seen_to_bite(tmp_path: Path) -> None:
    diary: list[str] = []
    found = conducted(tmp_path, Trouble(diary), Step(0.0, "ill", "badly", 0.05))
    assert ended(found) == [("fault", Kind.OK, "ill:badly"), ("heal", Kind.OK, "ill:badly")]
    assert found[0].asked["detail"] == {"why": "because"}
    assert (found[0].told["verified"], diary) == ("it hurts", ["on", "off"])


def test_a_fault_is_not_inflicted_twice_at_once(tmp_path: Path) -> None:
    steps = [Step(at_s, "ill", "badly", 9.0) for at_s in (0.0, 0.1)]
    diary: list[str] = []
    assert len(conducted(tmp_path, Trouble(diary), *steps)) == 2
    assert diary == ["on", "off"]


def test_what_cannot_be_now_leaves_no_trace(tmp_path: Path) -> None:
    trouble = Trouble([], NotNowError("nobody leads"))
    assert conducted(tmp_path, trouble, Step(0.0, "ill", "badly", 0.1)) == []


def test_a_fault_that_fails_half_way_is_of_unknown_effect_and_healed(tmp_path: Path) -> None:
    diary: list[str] = []
    trouble = Trouble(diary, OSError("no such process"))
    found = conducted(tmp_path, trouble, Step(0.0, "ill", "badly", 0.1))
    assert ended(found) == [("fault", Kind.INFO, "ill:badly"), ("heal", Kind.OK, "ill:badly")]
    assert diary == ["off"]


def test_a_node_that_dies_ends_it(tmp_path: Path) -> None:
    trouble = Trouble([], DiedError("broker-101 ended with 1"))
    with pytest.raises(DiedError):
        conducted(tmp_path, trouble, Step(0.0, "ill", "badly", 0.1))
