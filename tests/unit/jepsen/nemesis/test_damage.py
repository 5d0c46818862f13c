"""Who may lose what they did not sync, so that nothing acknowledged is lost with it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from quorate.jepsen.lab.equipment import EquipmentPlan
from quorate.jepsen.nemesis import damage
from quorate.jepsen.nemesis.fault import NotNowError

if TYPE_CHECKING:
    from quorate.jepsen.lab.cluster import Lab
    from quorate.jepsen.lab.hosts import Host


@dataclass(eq=False)
class FakeHost:
    answers: bool = True


@dataclass
class FakeEquipment:
    plan: EquipmentPlan
    damaged_s: float = -1e9


@dataclass
class FakeLab:
    """Three brokers and three controllers; as whole as it says."""

    equipment: FakeEquipment
    whole: bool = True
    brokers: list[FakeHost] = field(default_factory=lambda: [FakeHost() for _ in range(3)])
    controllers: list[FakeHost] = field(default_factory=lambda: [FakeHost() for _ in range(3)])

    def view(self) -> Any:
        return type("View", (), {"partitions": {"t-0": None}})

    def is_whole(self, topics: set[str]) -> bool:
        assert topics == {"t"}
        return self.whole


def lab_with(damaged_max: int) -> FakeLab:
    return FakeLab(FakeEquipment(EquipmentPlan(3, 3, damaged_max=damaged_max)))


def allows(lab: FakeLab, hosts: Sequence[FakeHost]) -> bool:
    try:
        damage.check_allowed(cast("Lab", lab), cast("list[Host]", hosts))
    except NotNowError:
        return False
    return True


def test_as_many_brokers_as_leave_a_copy_and_any_controllers() -> None:
    lab = lab_with(1)
    assert allows(lab, lab.brokers[:1])
    assert allows(lab, [*lab.brokers[:1], *lab.controllers])
    assert not allows(lab, lab.brokers[:2])
    lab.whole = False
    assert allows(lab, lab.controllers)


@pytest.mark.parametrize("reason", ["not whole", "one is down", "just now"])
def test_nobody_while_there_are_fewer_copies_than_usual(reason: str) -> None:
    lab = lab_with(1)
    if reason == "not whole":
        lab.whole = False
    elif reason == "one is down":
        lab.brokers[2].answers = False
    else:
        damage.note_loss(cast("Lab", lab))
    assert not allows(lab, lab.brokers[:1])


def test_all_at_once_and_always_where_records_are_synced_before_they_are_acknowledged() -> None:
    lab = lab_with(3)
    lab.whole = False
    lab.brokers[1].answers = False
    assert allows(lab, lab.brokers)
