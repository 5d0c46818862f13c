"""The log: one history by hand for each anomaly, and one that almost shows it."""

# ruff: noqa: E501 - tables: a history is a line

from quorate.jepsen.history import Kind
from tests.unit.jepsen.golden.making import (
    FINAL,
    LAST,
    Golden,
    P,
    did,
    ends,
    poll,
    read,
    replica,
    sent,
    unsent,
)

THREE = [sent(value, value, (2 * value, 2 * value + 1)) for value in range(3)]
ALL_THREE = read((0, 0), (1, 1), (2, 2))
TWICE = read((0, 0), (1, 1), (2, 2), (3, 1))
BOTH = (0, 3, 0, b"a", [7, 0])
NOTHING = did("read", None, [[P, [], []]], FINAL, process=LAST)
EMPTY = replica(1)
WEAK = {"acks": "1"}

CASES = [
    Golden("lost-write", [*THREE, read((0, 0), (2, 2))], [*THREE, ALL_THREE]),
    Golden("lost-write", [sent(0, None), NOTHING], [sent(0, None), read((0, 0))]),
    # Somebody saw it before it went.
    Golden(
        "lost-write",
        [*THREE, poll((0, 0), (1, 1)), read((0, 0), (2, 2))],
        [*THREE, poll((0, 0), (1, 1)), ALL_THREE],
    ),
    # The log ends before it: it is not only not read yet.
    Golden(
        "lost-write",
        [*THREE, read((0, 0), (1, 1)), replica(1, (0, 2, 0, b"a"))],
        [*THREE, ALL_THREE, replica(1, (0, 3, 0, b"a"))],
    ),
    Golden(
        "lost-write",
        [*THREE, read((0, 0), (1, 1)), ends(1, 2, 0, (95, 96))],
        [ends(1, 2, 0, (3, 4)), *THREE, ALL_THREE],
    ),
    # Another stands where it was acknowledged.
    Golden(
        "lost-write",
        [*THREE, unsent(9, Kind.INFO), read((0, 0), (1, 9), (2, 2))],
        [*THREE, unsent(9, Kind.INFO), read((0, 0), (1, 1), (2, 2), (3, 9))],
    ),
    Golden(
        "acked-by-leader-only",
        [*THREE, unsent(9, Kind.INFO), read((0, 0), (1, 9), (2, 2))],
        [*THREE, unsent(9, Kind.INFO), ALL_THREE],
        WEAK,
    ),
    # Of one of its own accord, among others.
    Golden(
        "acked-by-leader-only",
        [*THREE[:2], sent(2, 2, (4, 5), 1, 7, 0, "1"), sent(3, 3, (6, 7)), read((0, 0), (1, 1), (3, 3))],
        [*THREE[:2], sent(2, 2, (4, 5), 1, 7, 0, "0"), sent(3, 3, (6, 7)), read((0, 0), (1, 1), (3, 3))],
    ),
    # All of it.
    Golden("lost-write", [*THREE, NOTHING, EMPTY], [*THREE, ALL_THREE, replica(1, BOTH)]),
    Golden(
        "dirty-read",
        [unsent(0, Kind.INFO), poll((0, 0)), NOTHING, EMPTY],
        [unsent(0, Kind.INFO), NOTHING, EMPTY],
    ),
    # Nobody was told where it is, and not all was read: it may be in the rest.
    Golden(
        "unseen",
        [sent(0, 0), sent(1, None, (2, 3)), read((0, 0)), replica(1, BOTH)],
        [sent(0, 0), sent(1, None, (2, 3)), read((0, 0), (2, 1)), replica(1, BOTH)],
    ),
    # Whether it was sent at all is not known.
    Golden("unseen", [*THREE, read((0, 0), (1, 1))], [*THREE, unsent(3, Kind.INFO), ALL_THREE]),
    Golden(
        "inconsistent-offsets",
        [*THREE, unsent(9, Kind.INFO), poll((1, 9)), ALL_THREE],
        [*THREE, poll((1, 1)), ALL_THREE],
    ),
    Golden(
        "duplicate",
        [*THREE, read((0, 0), (1, 1), (2, 2), (3, 1))],
        [*THREE, unsent(3, Kind.INFO), read((0, 0), (1, 1), (2, 2), (3, 3))],
    ),
    # Which another producer has written, or another epoch of it: no broker can know that.
    Golden(
        "repeated-by-client",
        [*THREE, TWICE, replica(1, BOTH, (3, 4, 0, b"b", [7, 1]))],
        [*THREE, ALL_THREE, replica(1, BOTH, (3, 4, 0, b"b", [7, 1]))],
    ),
    Golden(
        "duplicate",
        [*THREE, TWICE, replica(1, BOTH, (3, 4, 0, b"b", [7, 0]))],
        [*THREE, ALL_THREE, replica(1, BOTH, (3, 4, 0, b"b", [7, 0]))],
    ),
    Golden(
        "phantom",
        [*THREE, read((0, 0), (1, 1), (2, 2), (3, 3))],
        [*THREE, unsent(3, Kind.INFO), read((0, 0), (1, 1), (2, 2), (3, 3))],
    ),
    Golden(
        "aborted-read",
        [unsent(0, Kind.FAIL), read((0, 0))],
        [unsent(0, Kind.INFO), read((0, 0))],
    ),
    Golden(
        "aborted-read",
        [poll((0, 0)), unsent(0, Kind.FAIL, (0, 9)), read((0, 0))],
        [poll((0, 0)), unsent(0, Kind.INFO, (0, 9)), read((0, 0))],
    ),
    Golden(
        "future-read",
        [poll((0, 0), span=(2, 3)), sent(0, 0, (4, 5)), read((0, 0))],
        [poll((0, 0), span=(2, 4)), sent(0, 0, (3, 5)), read((0, 0))],
    ),
    # What a consumer was given is not there any more.
    Golden(
        "dirty-read",
        [*THREE[::2], unsent(1, Kind.INFO), poll((0, 0), (1, 1)), read((0, 0), (2, 2))],
        [*THREE[::2], unsent(1, Kind.INFO), poll((0, 0)), read((0, 0), (2, 2))],
    ),
    Golden(
        "dirty-read",
        [*THREE, unsent(9, Kind.INFO), poll((0, 0), (1, 9)), ALL_THREE],
        [*THREE, unsent(9, Kind.INFO), poll((0, 0), (1, 1)), ALL_THREE],
    ),
    Golden(
        "dirty-read",
        [*THREE, unsent(3, Kind.INFO), poll((3, 3)), ALL_THREE, replica(1, (0, 3, 0, b"a"))],
        [*THREE, unsent(3, Kind.INFO), poll((2, 2)), ALL_THREE, replica(1, (0, 3, 0, b"a"))],
    ),
    # The answer itself says that it was not committed.
    Golden(
        "dirty-read",
        [*THREE, did("poll", 0, [[P, [0, 1], [0, 1], 1]], (2, 3), process=2), ALL_THREE],
        [*THREE, did("poll", 0, [[P, [0, 1], [0, 1], 2]], (2, 3), process=2), ALL_THREE],
    ),
    Golden(
        "nonmonotonic-send",
        [sent(0, 1, (0, 5)), sent(1, 0, (1, 6)), read((0, 1), (1, 0))],
        [sent(0, 1, (0, 5)), sent(1, 0, (1, 6), process=3), read((0, 1), (1, 0))],
    ),
    # Many of one producer at once, each by a process of its own.
    Golden(
        "nonmonotonic-send",
        [sent(0, 1, (0, 5), 1, 7, 0), sent(1, 0, (0, 5), 2, 7, 1), read((0, 1), (1, 0))],
        [sent(0, 1, (0, 5), 1, 7, 1), sent(1, 0, (0, 5), 2, 7, 0), read((0, 1), (1, 0))],
    ),
    # One of which nobody heard.
    Golden(
        "nonmonotonic-send",
        [sent(0, 0, (0, 5), 1, 7, 1), did("send", [P, 1, 7, 0], None, kind=Kind.INFO), read((0, 0), (1, 1))],
        [sent(0, 0, (0, 5), 1, 7, 1), did("send", [P, 1, 8, 0], None, kind=Kind.INFO), read((0, 0), (1, 1))],
    ),
    Golden(
        "realtime-order",
        [sent(0, 1, (0, 5)), sent(1, 0, (6, 7), process=3), read((0, 1), (1, 0))],
        [sent(0, 1, (0, 5)), sent(1, 0, (5, 7), process=3), read((0, 1), (1, 0))],
    ),
    # One that was acknowledged without an offset is where it was read.
    Golden(
        "realtime-order",
        [sent(0, 1, (0, 5)), sent(1, None, (6, 7), process=3), read((0, 1), (1, 0))],
        [sent(0, 1, (0, 5)), sent(1, None, (5, 7), process=3), read((0, 1), (1, 0))],
    ),
    Golden(
        "nonmonotonic-send",
        [sent(0, None, (0, 5), 1, 7, 0), sent(1, 0, (0, 5), 2, 7, 1), read((0, 1), (1, 0))],
        [sent(0, None, (0, 5), 1, 7, 1), sent(1, 0, (0, 5), 2, 7, 0), read((0, 1), (1, 0))],
    ),
    Golden(
        "nonmonotonic-poll",
        [*THREE, poll((1, 1)), poll((1, 1)), ALL_THREE],
        [*THREE, poll((1, 1)), poll((1, 1), asked=1), poll((0, 0), process=3), ALL_THREE],
    ),
    Golden(
        "nonmonotonic-poll",
        [*THREE, poll((1, 1), asked=[4, "g", 1, "a"]), poll((1, 1), asked=[4, "g", 1, "a"]), ALL_THREE],
        [*THREE, poll((1, 1), asked=[4, "g", 1, "a"]), poll((1, 1), asked=[5, "g", 1, "a"]), ALL_THREE],
    ),
    Golden(
        "poll-skip",
        [*THREE, poll((0, 0)), poll((2, 2)), ALL_THREE],
        [*THREE, poll((0, 0)), poll((2, 2), asked=1), ALL_THREE],
    ),
    # The offset of a transaction's end is no record.
    Golden(
        "poll-skip",
        [*THREE, poll((0, 0)), poll((2, 2)), ALL_THREE],
        [sent(0, 0), sent(2, 2, (2, 3)), poll((0, 0)), poll((2, 2)), read((0, 0), (2, 2))],
    ),
    Golden(
        "int-nonmonotonic-poll",
        [*THREE, poll((1, 1), (0, 0)), ALL_THREE],
        [*THREE, poll((0, 0), (1, 1)), ALL_THREE],
    ),
    Golden(
        "int-poll-skip",
        [*THREE, poll((0, 0), (2, 2)), ALL_THREE],
        [sent(0, 0), sent(2, 2, (2, 3)), poll((0, 0), (2, 2)), read((0, 0), (2, 2))],
    ),
]  # fmt: skip
