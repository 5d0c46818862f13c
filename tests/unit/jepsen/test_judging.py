"""What a history's verdict is, and that it takes more than the absence of anomalies to be valid."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import cbor2
import pytest

from quorate.jepsen.history import (
    Event,
    HistoryError,
    Kind,
    Operation,
    TruncatedHistoryError,
    operations,
)
from quorate.jepsen.judging import Quota, Validity, Verdict, allowed_for, judge
from tests.unit.jepsen.correct import HEADER, correct_history
from tests.unit.jepsen.golden.making import (
    complaint,
    did,
    fault,
    heal,
    phase,
    poll,
    read,
    replica,
    sent,
    unsent,
)

THREE = [sent(value, value, (2 * value, 2 * value + 1)) for value in range(3)]
ALL_THREE = read((0, 0), (1, 1), (2, 2))


def judged(events: list[Event], **header: Any) -> Verdict:
    return judge({**HEADER, **header}, operations(events))


@pytest.mark.parametrize("seed", range(3))
def test_what_a_cluster_does_that_is_all_right_is_valid(seed: int) -> None:
    verdict = judged(list(correct_history(seed, 1_500)))
    assert verdict.anomalies.counts == {}
    assert verdict.notes == ()
    assert [quota for quota in verdict.quotas if not quota.met] == []
    assert verdict.validity is Validity.VALID
    assert verdict.exit_code == 0
    assert verdict.figures["faults"] == 1
    assert verdict.figures["registers judged"] == 2


# --- spoilt histories


def indices(events: list[Event], wanted: Callable[[Event], bool]) -> list[int]:
    return [n for n, event in enumerate(events) if wanted(event)]


def is_acknowledged(event: Event) -> bool:
    return event.name == "send" and event.kind is Kind.OK


def without_an_answer(events: list[Event], rng: Random) -> None:
    """The harness forgets to write down that somebody was answered."""
    last = {event.process: n for n, event in enumerate(events)}
    answers = indices(events, lambda e: e.kind is Kind.OK and e.name in {"poll", "commit"})
    del events[rng.choice([n for n in answers if last[events[n].process] > n])]


def with_two_offsets_swapped(events: list[Event], rng: Random) -> None:
    """Answers reach each other's callers."""
    asked = {e.process: e.value[0] for e in events if e.name == "send" and e.kind is Kind.INVOKE}
    acks = indices(events, is_acknowledged)
    one = rng.choice(acks)
    other = rng.choice([n for n in acks if asked[events[n].process] == asked[events[one].process]])
    if other == one:
        other = acks[(acks.index(one) + 1) % len(acks)]
    swapped = events[other].value, events[one].value
    events[one] = events[one]._replace(value=swapped[0])
    events[other] = events[other]._replace(value=swapped[1])


def with_a_late_answer(events: list[Event], rng: Random) -> None:
    """An answer is written down behind a later one, with its own time."""
    at = rng.choice(indices(events, is_acknowledged))
    events.insert(at + rng.randrange(2, 9), events[at])
    del events[at]


def with_a_record_left_out_in_the_end(events: list[Event], rng: Random) -> None:
    at = rng.choice(indices(events, lambda e: e.name == "read" and e.kind is Kind.OK))
    (partition, offsets, values) = events[at].value[0]
    gone = rng.randrange(len(offsets) - 1)
    told = [[partition, offsets[:gone] + offsets[gone + 1 :], values[:gone] + values[gone + 1 :]]]
    events[at] = events[at]._replace(value=told)


def with_a_stale_read(events: list[Event], rng: Random) -> None:
    """A register tells what it has not had for long."""
    reads = indices(events, lambda e: e.name == "get" and e.kind is Kind.OK and e.value is not None)
    at = rng.choice(reads)
    events[at] = events[at]._replace(value=1_000_000)


def with_an_older_commit_told(events: list[Event], rng: Random) -> None:
    told = indices(events, lambda e: e.name == "committed" and e.kind is Kind.OK)
    at = next(n for n in reversed(told) if any(offset > 0 for _, offset in events[n].value))
    events[at] = events[at]._replace(value=[[name, min(o, 0)] for name, o in events[at].value])


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(
    "spoil",
    [
        without_an_answer,
        with_two_offsets_swapped,
        with_a_late_answer,
        with_a_record_left_out_in_the_end,
        with_a_stale_read,
        with_an_older_commit_told,
    ],
)
def test_what_is_spoilt_is_not_valid(
    spoil: Callable[[list[Event], Random], None], seed: int
) -> None:
    events = list(correct_history(seed, 1_500))
    spoil(events, Random(seed))
    try:
        verdict = judged(events)
    except HistoryError:  # nobody can have done this
        return
    assert verdict.validity is Validity.INVALID_SAFETY


def test_a_fault_that_is_never_healed_leaves_the_verdict_open() -> None:
    events = list(correct_history(1, 1_500))
    whole = judged(events)
    (at, _) = indices(events, lambda e: e.name == "heal")
    del events[at : at + 2]
    verdict = judged(events)
    assert (whole.validity, verdict.validity) == (Validity.VALID, Validity.UNKNOWN)
    assert [quota.name for quota in verdict.quotas if not quota.met] == ["faults-healed"]


@pytest.mark.parametrize(("seen_late", "unmet"), [("it bit", []), ("", ["faults-verified"])])
def test_a_fault_may_be_seen_to_bite_as_late_as_it_is_healed(
    seen_late: str, unmet: list[str]
) -> None:
    events = list(correct_history(1, 1_500))
    told = next(
        n for n in indices(events, lambda e: e.name == "fault") if events[n].kind is Kind.OK
    )
    events[told] = events[told]._replace(value={"verified": ""})
    healed = next(n for n in range(told, len(events)) if events[n][2:4] == (Kind.OK, "heal"))
    events[healed] = events[healed]._replace(value={"verified": seen_late})
    assert [quota.name for quota in judged(events).quotas if not quota.met] == unmet


# --- what else makes a verdict


def names_unmet(verdict: Verdict) -> list[str]:
    return [quota.name for quota in verdict.quotas if not quota.met]


def test_too_little_seen_is_neither_valid_nor_invalid() -> None:
    verdict = judge({"quotas": {"acks": 4, "leader-changes": 1}}, [*THREE, ALL_THREE])
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.exit_code == 4
    assert names_unmet(verdict) == ["acks", "leader-changes"]


def test_a_quota_that_nobody_knows_is_not_met() -> None:
    assert names_unmet(judge({"quotas": {"miracles": 1}}, [])) == ["miracles"]


def test_a_fault_that_was_not_seen_to_bite_leaves_the_verdict_open() -> None:
    unseen = fault("kill", (0, 1), verified="")
    assert names_unmet(judge({}, [unseen, heal("kill", (2, 3))])) == ["faults-verified"]
    late = did("heal", {"fault": "kill"}, {"verified": "seen in the end"}, (2, 3))
    assert names_unmet(judge({}, [unseen, late])) == []
    assert names_unmet(judge({}, [fault("kill", (0, 1)), late, unseen, heal("kill", (4, 5))])) == [
        "faults-verified"
    ]
    failed = did("fault", {"fault": "kill", "targets": [], "detail": {}}, kind=Kind.INFO)
    verdict = judge({}, [failed, heal("kill", (2, 3))])
    assert verdict.validity is Validity.VALID
    assert verdict.figures["faults that failed"] == 1


def test_what_is_acknowledged_under_a_fault_that_did_not_happen_shows_nothing() -> None:
    asked: dict[str, Any] = {"fault": "kill", "targets": [], "detail": {}}
    failed = did("fault", asked, {"error": "no room"}, kind=Kind.INFO)
    acked = [sent(0, 0, (2, 3)), read((0, 0))]
    header = {"quotas": {"acks-under-fault": 1}}
    healed = heal("kill", (98, 99))
    assert names_unmet(judge(header, [failed, *acked, healed])) == ["acks-under-fault"]
    over = [failed, fault("pause", (0, 1)), heal("pause", (1, 2)), *acked, healed]
    assert names_unmet(judge(header, over)) == ["acks-under-fault"]
    happened = [failed, heal("kill", (0, 1)), fault("kill", (1, 2)), *acked, healed]
    assert names_unmet(judge(header, happened)) == []


def test_a_fault_that_failed_may_have_happened_by_half_and_has_to_be_healed() -> None:
    failed = did("fault", {"fault": "kill", "targets": [], "detail": {}}, kind=Kind.INFO)
    assert [quota for quota in judge({}, [failed, *THREE, ALL_THREE]).quotas if not quota.met] == [
        Quota("faults-healed", 1, 0)
    ]


def test_who_does_not_read_to_the_end_has_not_seen_enough() -> None:
    verdict = judge({}, [sent(0, 0), sent(1, None, (2, 3)), did("read", kind=Kind.FAIL)])
    assert "final-reads" in names_unmet(verdict)


def test_an_anomaly_outweighs_what_is_not_certain() -> None:
    lost = [*THREE, read((0, 0), (2, 2))]
    verdict = judge({"quotas": {"acks": 99}}, [*lost, complaint("workload-failed")])
    assert verdict.validity is Validity.INVALID_SAFETY
    assert verdict.exit_code == 3


def test_safety_outweighs_liveness() -> None:
    late = [*THREE, read((0, 0), (1, 1))]
    assert judge({}, late).validity is Validity.INVALID_LIVENESS
    assert judge({}, late).exit_code == 3
    assert judge({}, [*late, poll((1, 7))]).validity is Validity.INVALID_SAFETY


def test_what_nobody_was_told_of_is_counted_as_such_and_is_never_lost() -> None:
    sends = [unsent(value, Kind.INFO, (2 * value, 2 * value + 1)) for value in range(3)]
    verdict = judge({"acks": "0"}, [*sends, read((0, 1))])
    assert (verdict.validity, verdict.anomalies.counts) == (Validity.VALID, {})
    counted = ("sends", "acknowledged", "unknown", "unknown and read")
    assert [verdict.figures[name] for name in counted] == [3, 0, 3, 1]
    told = [sent(value, None, (2 * value, 2 * value + 1)) for value in range(3)]
    assert judge({"acks": "0"}, [*told, read((0, 1))]).figures["acknowledged"] == 0
    assert judge({"acks": "0"}, [*sends, read((0, 9))]).anomalies.counts == {"phantom": 1}


def test_whoever_ran_it_may_doubt_it() -> None:
    verdict = judge({}, [complaint("workload-failed")])
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.notes == ("workload-failed: it was so",)


def cut_off(given: list[Operation]) -> Iterator[Operation]:
    yield from given
    raise TruncatedHistoryError


def test_a_history_that_is_cut_off_is_judged_as_far_as_it_goes() -> None:
    verdict = judge({}, cut_off([*THREE, poll((0, 0)), poll((1, 1))]))
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.notes == ("the history ends before its run did: it is judged as far as it goes",)
    wrong = judge({}, cut_off([*THREE, poll((1, 1)), poll((0, 0))]))
    assert wrong.validity is Validity.INVALID_SAFETY
    assert judge({}, THREE, is_cut_off=lambda: True).validity is Validity.UNKNOWN


@pytest.mark.parametrize("told", [[0, 1, 2], [None, None, None]])
def test_what_is_cut_off_while_all_is_read_in_the_end_has_lost_nothing_that_was_to_come(
    told: list[Any],
) -> None:
    acked = [sent(value, told[value], (2 * value, 2 * value + 1)) for value in range(3)]
    verdict = judge({}, cut_off([*acked, poll((0, 0)), read((0, 0), (1, 1))]))
    assert (verdict.validity, verdict.anomalies.counts) == (Validity.UNKNOWN, {})
    skipped = judge({}, cut_off([*THREE, read((0, 0), (2, 2))]))
    assert skipped.anomalies.counts == {"lost-write": 1, "int-poll-skip": 1}


def test_a_record_of_which_nobody_was_told_where_it_is_is_not_lost_where_not_all_was_read() -> None:
    acked = [sent(0, 0), sent(1, None, (2, 3))]
    ends = replica(1, (0, 2, 0, b"a"))
    verdict = judge({}, [*acked, read((0, 0)), ends])
    assert verdict.validity is Validity.INVALID_LIVENESS
    assert names_unmet(verdict) == ["final-reads"]
    other = judge({}, [*acked, unsent(2, Kind.INFO, (4, 5)), read((0, 0), (1, 2)), ends])
    assert other.anomalies.counts == {"lost-write": 1}


@pytest.mark.parametrize("failed", [[], [unsent(value, Kind.FAIL) for value in range(3)]])
def test_where_nothing_was_done_nothing_was_shown(failed: list[Operation]) -> None:
    verdict = judge({}, failed)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.notes == ("nothing was done in it",)


def test_a_run_that_did_not_come_to_its_end_is_cut_off() -> None:
    begun = [phase("load", 0), *THREE, ALL_THREE]
    assert judge({}, begun).validity is Validity.UNKNOWN
    assert judge({}, [*begun, phase("end", 99)]).validity is Validity.VALID


def test_registers_of_which_nobody_knows_must_be_few() -> None:
    hard = [
        *(did("cas", ["k", None, n], kind=Kind.INFO, process=n) for n in range(10)),
        *(did("put", ["k", n], None, (0, 100), process=n) for n in range(10, 34)),
        did("get", "k", 77, (200, 300)),
    ]
    easy = [did("put", [f"e{n}", 1], None, (0, 1)) for n in range(98)]
    (quota,) = judge({}, [*hard, *easy]).quotas
    assert (quota.name, quota.needed, quota.got, quota.met) == ("keys-decided", 99, 98, False)


def test_what_settings_make_possible_has_names() -> None:
    assert allowed_for(acks="all", idempotent=True) == []
    assert allowed_for(acks="1", idempotent=False) == [
        "acked-by-leader-only", "duplicate", "nonmonotonic-send",
    ]  # fmt: skip
    assert allowed_for(acks="all", idempotent=True, repeats=True) == ["repeated-by-client"]
    assert "unclean-election" in allowed_for(acks="all", idempotent=True, unclean=True)


def test_a_verdict_is_plain_json_and_cbor() -> None:
    events = [*THREE, unsent(5, Kind.INFO), poll((0, 0)), read((0, 0), (2, 2))]
    header = {"quotas": {"acks": 1}, "allowed": ["int-poll-skip"]}
    plain = judge(header, events).as_plain()
    assert json.loads(json.dumps(plain)) == plain
    assert cbor2.loads(cbor2.dumps(plain)) == plain
    assert plain["anomalies"] == {"lost-write": 1}
    assert plain["allowed"] == {"int-poll-skip": 1}
    assert plain["cases"]["lost-write"][0]["where"] == "t-0"
    assert plain["quotas"][0] == {"name": "acks", "needed": 1, "got": 3, "met": True}


def test_a_history_is_in_the_order_of_time() -> None:
    events = list(correct_history(2, 500))
    assert all(one.time_ns < other.time_ns for one, other in pairwise(events))
