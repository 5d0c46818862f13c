"""The operations that prove an anomaly."""

from quorate.jepsen.checkers.anomalies import Anomalies
from quorate.jepsen.history import Event, Kind, operations
from quorate.jepsen.report.evidence import (
    REGISTER_OPERATIONS_MAX,
    SIGHTINGS_MAX,
    Evidence,
    collect,
)
from quorate.jepsen.report.evidence_pictures import (
    offset_map,
    proofs_table,
    register_chart,
)
from quorate.jepsen.report.wording import operation_text
from tests.unit.jepsen.report.pages import tree


def both(at: int, process: int, name: str, asked: object, told: object) -> list[Event]:
    return [
        Event(at, process, Kind.INVOKE, name, asked),
        Event(at + 5, process, Kind.OK, name, told),
    ]


def evidence(found: Anomalies, *events: Event) -> Evidence:
    (one,) = collect(found, operations(events))
    return one


def lost(offset: int) -> Anomalies:
    found = Anomalies()
    found.add(
        "lost-write", "t-0: 7 is gone", where="t-0", offsets=(offset,), processes=(5,), at_ns=(15,)
    )
    return found


def test_the_operations_that_the_checker_named_are_proofs() -> None:
    one = evidence(
        lost(1),
        *both(0, 5, "send", ["t-0", 6], 0),
        *both(10, 5, "send", ["t-0", 7], 1),
        *both(20, 6, "send", ["t-1", 8], 1),
    )
    assert [operation.asked for operation in one.proofs] == [["t-0", 7]]
    assert [e.text for e in tree(proofs_table(one.proofs, 0)).iter("td")][3] == "send 7 to t-0: 1"


def test_who_saw_the_same_at_the_offsets_is_one_row() -> None:
    one = evidence(
        lost(1),
        *both(0, 5, "send", ["t-0", 6], 0),
        *both(10, 5, "send", ["t-0", 7], [1, 101, 3]),
        *both(20, 8, "poll", 1, [["t-0", [0, 1], [6, 7]], ["t-1", [1], [99]]]),
        *both(30, 9, "poll", 1, [["t-0", [0, 1], [6, 7]]]),
        *both(40, 10, "read", 0, [["t-0", [0, 2], [6, 8]]]),
        *both(50, 11, "read", 0, [["t-0", [700], [9]]]),
    )
    assert [(s.how, s.values, s.processes, s.times) for s in one.sightings] == [
        ("acknowledged", {0: 6, 1: 7}, [5], 2),
        ("poll", {0: 6, 1: 7}, [8, 9], 2),
        ("read", {0: 6, 2: 8}, [10], 1),
    ]
    drawn = tree(offset_map(one))
    classes = [e.get("class") for e in drawn.iter("rect")]
    assert classes.count("cell missing") == 1
    assert classes.count("bad-column") == 1
    assert "poll by 8, 9, 2 times" in [e.text for e in drawn.iter("text")]


def test_two_values_of_an_offset_are_marked() -> None:
    one = evidence(
        lost(1),
        *both(0, 8, "poll", 1, [["t-0", [1], [6]]]),
        *both(9, 9, "poll", 1, [["t-0", [1], [7]]]),
    )
    classes = [e.get("class") for e in tree(offset_map(one)).iter("rect")]
    assert classes.count("cell differs") == 2


def test_of_very_many_sightings_those_of_the_wrong_offset_are_kept() -> None:
    polls = [both(i * 10, 100 + i, "poll", i, [["t-0", [2], [i]]]) for i in range(50)]
    wrong = both(9_000, 99, "poll", 1, [["t-0", [1], [7]]])
    one = evidence(lost(1), *(e for poll in polls for e in poll), *wrong)
    assert len(one.sightings) == SIGHTINGS_MAX
    assert one.sightings[-1].values == {1: 7}


def test_a_register_is_drawn_around_what_is_wrong() -> None:
    found = Anomalies()
    found.add(
        "nonlinearizable-register",
        "k: no order explains it",
        where="k",
        processes=(400,),
        at_ns=(4_005,),
    )
    puts = [e for i in range(500) for e in both(i * 10, i, "put", ["k", f"v{i}"], None)]
    one = evidence(found, *puts, *both(5_000, 900, "get", "other", "x"))
    assert len(one.register) == REGISTER_OPERATIONS_MAX
    assert [o.process for o in one.proofs] == [400]
    drawn = tree(register_chart(one))
    assert [e.get("class") for e in drawn.iter("rect")].count("bar ok proof") == 1
    assert any(e.text == "wrote v400" for e in drawn.iter("text"))


def test_operations_are_told_in_words() -> None:
    said = [
        operation_text(operation)
        for operation in operations(
            [
                *both(0, 1, "get", "k", "a"),
                *both(10, 1, "cas", ["k", "a", "b"], False),
                *both(20, 1, "create", ["t", 3], b"\x01\x02\x03\x04\x05"),
                *both(30, 1, "commit", ["g", [["t-0", 5]]], None),
                Event(40, 1, Kind.INVOKE, "get", "k"),
            ]
        )
    ]
    assert said == [
        "read a", "a to b (not so)", "create 01020304", "g commits t-0 5", "read",
    ]  # fmt: skip


def test_where_nothing_was_found_nothing_is_drawn() -> None:
    one = evidence(lost(1), *both(0, 5, "send", ["t-9", 6], 0))
    assert offset_map(one) == register_chart(one) == proofs_table(one.proofs, 0) == ""
