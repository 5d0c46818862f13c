"""Faults by schedule: when they begin and end, and what the history says of them."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from quorate.jepsen.history import Kind, Operation
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import DiedError, Host
from quorate.jepsen.nemesis import conducting
from quorate.jepsen.nemesis.conducting import Conductor
from quorate.jepsen.nemesis.fault import Family, Fault, Note, NotNowError, NotYetError, Variant
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


def conducted(
    tmp_path: Path, fault: Fault, *steps: Step, other: Fault | None = None
) -> list[Operation]:
    path = tmp_path / "history.cbor"
    recorder = Recorder(path, {})
    conductor = Conductor(cast("Lab", None), recorder, Random(0), lambda _: None)
    variants = {"badly": Variant(1, lambda: fault), "worse": Variant(1, lambda: other or fault)}
    family = Family("ill", "", variants)
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


class Stubborn(Trouble):
    """Cannot be healed while another one is on."""

    def heal(self) -> None:
        if "off" not in self._diary:
            raise NotYetError("the other one is in the way")
        self._diary.append("off, too")


def test_what_another_fault_is_in_the_way_of_is_healed_after_it(tmp_path: Path) -> None:
    diary: list[str] = []
    steps = [Step(0.0, "ill", "badly", 0.05), Step(0.0, "ill", "worse", 0.0)]
    found = conducted(tmp_path, Trouble(diary), *steps, other=Stubborn(diary))
    heals = [(kind, fault) for name, kind, fault in ended(found) if name == "heal"]
    assert heals[0] == (Kind.INFO, "ill:worse")
    assert heals[-2:] == [(Kind.OK, "ill:badly"), (Kind.OK, "ill:worse")]
    assert diary == ["on", "on", "off", "off, too"]


def test_what_cannot_be_now_leaves_no_trace(tmp_path: Path) -> None:
    trouble = Trouble([], NotNowError("nobody leads"))
    assert conducted(tmp_path, trouble, Step(0.0, "ill", "badly", 0.1)) == []


class Late(Trouble):
    """Cannot be now, but a moment later."""

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        self._diary.append("asked")
        if len(self._diary) == 1:
            raise NotNowError("nobody leads")
        super().inflict(lab, rng, note)


def test_what_cannot_be_now_is_tried_again_until_it_should_be_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conducting, "AGAIN_S", 0.01)
    monkeypatch.setattr(conducting, "SHORTEST_S", 0.01)
    diary: list[str] = []
    found = conducted(tmp_path, Late(diary), Step(0.0, "ill", "badly", 0.2))
    assert ended(found) == [("fault", Kind.OK, "ill:badly"), ("heal", Kind.OK, "ill:badly")]
    assert diary == ["asked", "asked", "on", "off"]


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
