"""Consumer groups: one history by hand for each anomaly, and one that almost shows it."""

# ruff: noqa: E501 - tables: a history is a line

from quorate.jepsen.history import Kind
from tests.unit.jepsen.golden.making import (
    Golden,
    P,
    Q,
    assign,
    commit,
    committed,
    did,
    given,
    noted,
)

TEN = given(*range(10))
A, B = [1, "g", 1, "a"], [1, "g", 1, "b"]
LATER_B = [2, "g", 2, "b"]

SENT = [
    did("send", [partition, 1000 * (partition == Q) + offset], None, kind=Kind.INFO)
    for partition in (P, Q)
    for offset in range(10)
]
"""What members are given."""

_CASES = [
    Golden(
        "double-assignment",
        [assign(1, "a", P, Q), assign(1, "b", Q)],
        [assign(1, "a", P, Q), assign(1, "a", P), assign(2, "b", Q)],
    ),
    Golden(
        "double-processing",
        [given(0, 1, asked=A), given(1, 2, asked=B, process=2)],
        [given(0, 1, asked=A), given(1, 2, asked=LATER_B, process=2), given(2, 3, asked=A)],
    ),
    Golden(
        "double-processing",
        [given(0, 1, asked=A), given(2, asked=A), given(2, asked=B, process=2)],
        [given(0, 1, asked=A), given(2, asked=A), given(3, asked=B, process=2)],
    ),
    Golden(
        "generation-regression",
        [assign(2, "a", P), assign(1, "a", P)],
        [assign(2, "a", P), assign(1, "b", Q, process=2), assign(2, "a", P), assign(3, "a", P)],
    ),
    # One client, with one member after the other.
    Golden(
        "generation-regression",
        [assign(2, "a", P), assign(1, "b", P)],
        [assign(2, "a", P), assign(3, "b", P)],
    ),
    Golden(
        "zombie-commit",
        [TEN, assign(2, "b", P, span=(4, 5)), commit(5, (6, 7), Kind.OK, "a", 1)],
        [TEN, assign(2, "b", P, span=(4, 6)), commit(5, (6, 7), Kind.OK, "a", 1)],
    ),
    Golden(
        "zombie-commit",
        [TEN, assign(2, "b", P, span=(4, 5)), commit(5, (6, 7), Kind.OK, "a", 1)],
        [TEN, assign(2, "b", P, span=(4, 5)), commit(5, (6, 7), Kind.FAIL, "a", 1)],
    ),
    # A still newer one was told while it was under way.
    Golden(
        "zombie-commit",
        [TEN, assign(2, "b", P, span=(4, 5)), assign(3, "c", P, span=(5, 7), process=3), commit(5, (6, 8), Kind.OK, "a", 1)],
        [TEN, assign(2, "b", P, span=(4, 7)), assign(3, "c", P, span=(5, 7), process=3), commit(5, (6, 8), Kind.OK, "a", 1)],
    ),
    Golden(
        "skipped-record",
        [given(0, 1), given(3, process=2), commit(4, (4, 5))],
        [given(0, 1), given(3, process=2), given(2, 3, process=3), commit(4, (4, 5))],
    ),
    # It may be carried out yet.
    Golden(
        "skipped-record",
        [given(0), commit(2, (4, 5), Kind.INFO)],
        [given(0), commit(2, (4, 5), Kind.FAIL)],
    ),
    # Others of that group were given it, not those of another one.
    Golden(
        "skipped-record",
        [given(0, asked=A), given(0, 1, asked=[1, "h", 1, "c"], process=2), commit(2, (4, 5))],
        [given(0, asked=A), given(1, asked=B, process=2), commit(2, (4, 5))],
    ),
    # A group that is to begin elsewhere is not given what is before.
    Golden(
        "skipped-record",
        [noted("reset", 5, "r", (0, 1)), given(5), commit(7, (4, 5))],
        [noted("reset", 5, "r", (0, 1)), given(5), commit(6, (4, 5))],
    ),
    Golden(
        "commit-regression",
        [TEN, commit(5, (0, 1)), commit(4, (2, 3))],
        [TEN, commit(5, (0, 2)), commit(4, (2, 3))],
    ),
    Golden(
        "commit-regression",
        [TEN, commit(5, (0, 1)), commit(4, (2, 3))],
        [TEN, commit(5, (0, 1), Kind.INFO), commit(4, (2, 3)), commit(5, (4, 5))],
    ),
    # A reset may go back, and what is under way meanwhile shows nothing.
    Golden(
        "commit-regression",
        [TEN, noted("reset", 0, "r", (0, 1)), commit(5, (2, 3)), commit(4, (4, 5))],
        [TEN, commit(5, (0, 1)), noted("reset", 0, "r", (2, 5)), commit(4, (4, 6)), commit(1, (6, 7))],
    ),
    Golden(
        "stale-committed-offset",
        [TEN, commit(5, (0, 1)), committed(4, (2, 3))],
        [TEN, commit(5, (0, 2)), committed(4, (2, 3)), committed(5, (4, 5))],
    ),
    Golden(
        "stale-committed-offset",
        [TEN, commit(5, (0, 1)), committed(-1, (2, 3))],
        [TEN, committed(-1, (0, 1)), commit(5, (2, 3))],
    ),
    Golden(
        "stale-committed-offset",
        [TEN, commit(5, (0, 1), Kind.INFO), committed(5, (2, 3)), committed(4, (4, 5))],
        [TEN, commit(5, (0, 1), Kind.INFO), committed(4, (2, 3)), committed(5, (4, 5))],
    ),
    Golden(
        "phantom-commit",
        [TEN, commit(5, (0, 1)), committed(6, (2, 3))],
        [TEN, commit(5, (0, 1)), commit(6, (2, 9), Kind.INFO), committed(6, (3, 4))],
    ),
    # Two commits of one offset, and the first is told after the second.
    Golden(
        "nonlinearizable-commit",
        [TEN, noted("commit", 5, "x", (0, 1)), noted("commit", 5, "y", (2, 3)), committed(5, (4, 5), "x")],
        [TEN, noted("commit", 5, "x", (0, 1)), noted("commit", 5, "y", (2, 5)), committed(5, (4, 5), "x")],
    ),
    Golden(
        "nonlinearizable-commit",
        [TEN, noted("commit", 5, "x", (0, 1)), did("reset", ["g", [[P, 3, "r"]]], None, (2, 3)), committed(5, (4, 5), "x")],
        [TEN, noted("commit", 5, "x", (0, 1)), did("reset", ["g", [[P, 3, "r"]]], None, (2, 3)), committed(3, (4, 5), "r")],
    ),
]  # fmt: skip

CASES = [
    Golden(case.name, [*SENT, *case.wrong], [*SENT, *case.right], case.header) for case in _CASES
]
