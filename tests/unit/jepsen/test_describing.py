"""What a run must show depends on what it is asked to do."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from quorate.jepsen.describing import describe
from quorate.jepsen.history import Kind
from quorate.jepsen.judging import Validity, judge
from quorate.jepsen.options import RunOptions
from tests.unit.jepsen.golden.making import phase, sent, unsent

STARTED = datetime(2026, 1, 2, tzinfo=UTC)


def quotas_of(*faults: str, **more: Any) -> dict[str, int]:
    options = RunOptions(("append",), faults, 60, 1, Path("runs"), **more)
    quotas: dict[str, int] = describe(options, STARTED)["quotas"]
    return quotas


def test_writes_must_go_on_under_faults() -> None:
    quotas = quotas_of("kill", "pause")
    assert quotas["acks"] > quotas["acks-under-fault"] > 0
    assert quotas["faults"] > 0


@pytest.mark.parametrize(
    ("fault", "min_insync", "writable"),
    [
        ("kill:two", 3, True),
        ("kill:three", 3, False),
        ("kill:one", 5, False),
        ("kill:one", 4, True),
    ],
)
def test_writes_must_be_refused_where_too_few_are_left(
    fault: str, min_insync: int, *, writable: bool
) -> None:
    quotas = quotas_of(
        fault, brokers=5, replication_factor=5, min_insync=min_insync, client="plain"
    )
    assert ("acks-under-fault" in quotas) == writable
    assert ("refusals" in quotas) == (not writable)


def test_nothing_is_acknowledged_to_who_does_not_ask_for_it() -> None:
    assert quotas_of("kill", acks="0").keys() == {"faults"}


def test_other_clients_hide_refusals() -> None:
    assert quotas_of("kill:three", min_insync=3).get("refusals") == 0


@pytest.mark.parametrize("fault", ["power:all", "restart:everybody", "kill:brokers", "kill:all"])
def test_nothing_need_be_written_while_nobody_is_there(fault: str) -> None:
    assert "acks-under-fault" not in quotas_of(fault)
    assert "acks-under-fault" in quotas_of(fault, "kill:leader")


@pytest.mark.parametrize(("acks", "is_bounded"), [("all", True), ("1", True), ("0", False)])
def test_a_partition_that_takes_nothing_for_too_long_is_found_in_a_run(
    acks: str, *, is_bounded: bool
) -> None:
    header = describe(RunOptions(("append",), (), 1, 1, Path("runs"), acks=acks), STARTED)
    s = 1_000_000_000
    waits = unsent(1, Kind.INFO, (2 * s, 0))
    taken = [phase("load", 0), sent(0, 0, (s, s + 1)), waits]
    found = judge(header, [*taken, phase("final", 90 * s)]).anomalies.counts
    never = judge(header, [phase("load", 0), waits, phase("final", 90 * s)]).anomalies.counts
    assert ("unavailable" in found) == is_bounded
    assert ("slow-recovery" in never) == is_bounded
    soon = judge(header, [*taken, phase("final", 20 * s)]).anomalies.counts
    assert soon.keys().isdisjoint({"unavailable", "slow-recovery"})


@pytest.mark.parametrize("workload", ["append", "metadata", "offsets", "groups", "transactions"])
def test_a_run_in_which_nothing_was_done_shows_nothing(workload: str) -> None:
    header = describe(RunOptions((workload,), (), 60, 1, Path("runs")), STARTED)
    verdict = judge(header, [])
    assert (verdict.validity, len(verdict.notes)) == (Validity.UNKNOWN, 1)
    idle = judge({**header, "against": True}, [phase("load", 0), phase("end", 60)])
    assert (idle.validity, idle.notes) == (Validity.UNKNOWN, ())
