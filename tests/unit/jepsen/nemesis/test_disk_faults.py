"""What disks are told to do by faults."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from quorate.jepsen.nemesis import disk_faults
from quorate.jepsen.nemesis.fault import NotNowError

if TYPE_CHECKING:
    from quorate.jepsen.nemesis.disk_faults import BadDisk


@dataclass
class FakeShim:
    fields: dict[str, int] = field(default_factory=lambda: {"faults": 3, "delays": 1})

    def set(self, name: str, value: int) -> None:
        self.fields[name] = value

    def get(self, name: str) -> int:
        return self.fields[name]


@dataclass
class FakeDisk:
    shim: FakeShim = field(default_factory=FakeShim)


@dataclass(eq=False)
class FakeHost:
    name: str = "broker-101"
    may_end: bool = False
    runs: bool = True
    disk: FakeDisk = field(default_factory=FakeDisk)
    data: Path = Path()
    starts: int = 0

    def close(self) -> None:
        self.runs = False

    def start(self) -> None:
        self.runs = True
        self.starts += 1


@dataclass
class FakeLab:
    brokers: list[FakeHost] = field(default_factory=list[FakeHost])


LAB = cast("Any", FakeLab())


class Notes:
    """Takes down what a fault is about to do."""

    def __init__(self) -> None:
        self.details: list[dict[str, Any]] = []

    def __call__(self, targets: Sequence[Any], **detail: Any) -> None:
        self.details.append(detail)


@pytest.mark.parametrize(
    ("make", "told", "healed"),
    [
        ("full", {"space_bytes": 0}, {"space_bytes": -1}),
        ("unwritable", {"write_errno": 5}, {"write_errno": 0}),
        ("unsyncable", {"sync_errno": 5}, {"sync_errno": 0}),
    ],
)
def test_a_disk_fails_as_it_is_told_until_it_is_healed(
    make: str, told: dict[str, int], healed: dict[str, int]
) -> None:
    host, notes = FakeHost(), Notes()

    def chosen(_lab: object, _rng: object) -> list[FakeHost]:
        return [host]

    fault: BadDisk = getattr(disk_faults, make)(chosen)
    fault.inflict(LAB, Random(1), notes)
    assert notes.details == [told]
    assert told.items() <= host.disk.shim.fields.items()
    assert host.may_end
    host.disk.shim.fields["faults"] += 2
    assert fault.verified() == "faults: broker-101 2 times"
    fault.heal()
    assert healed.items() <= host.disk.shim.fields.items()
    assert host.starts == 1  # a node that gave its disk up comes back to it


def test_how_slow_a_disk_is_is_drawn() -> None:
    host, notes = FakeHost(), Notes()
    fault = disk_faults.slow(lambda _lab, _rng: [cast("Any", host)])
    fault.inflict(LAB, Random(1), notes)
    assert 100_000 <= notes.details[0]["sync_delay_us"] <= 1_500_000


def test_a_broker_to_which_nothing_is_written_would_not_notice(tmp_path: Path) -> None:
    host, notes = FakeHost(data=tmp_path), Notes()
    lab = cast("Any", FakeLab([host]))
    fault = disk_faults.full(lambda _lab, _rng: [cast("Any", host)])
    with pytest.raises(NotNowError):
        fault.inflict(lab, Random(1), notes)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "0.log").write_bytes(b"a batch")
    fault.inflict(lab, Random(1), notes)
    assert notes.details == [{"space_bytes": 0}]
