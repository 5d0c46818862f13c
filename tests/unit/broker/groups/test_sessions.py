"""Sessions end when members are silent; heartbeats cost next to nothing."""

from quorate.broker.groups.sessions import LOOK_PAUSE_MS, Sessions
from quorate.broker.replication.deadlines import Deadlines


class Room:
    """Sessions, and whom they have told of."""

    def __init__(self) -> None:
        self.deadlines = Deadlines()
        self.expired: list[tuple[int, list[str]]] = []
        self.sessions = Sessions(
            self.deadlines, lambda who: self.expired.append((self.deadlines.now_ms, who))
        )

    def pass_ms(self, ms: int) -> None:
        end_ms = self.deadlines.now_ms + ms
        while (next_ms := self.deadlines.next_ms()) is not None and next_ms <= end_ms:
            self.deadlines.now_ms = next_ms
            self.deadlines.fire()
        self.deadlines.now_ms = end_ms


def test_a_session_ends_when_its_time_has_come() -> None:
    room = Room()
    room.sessions.heard("a", 1_000)
    room.pass_ms(999)
    assert room.expired == []
    room.pass_ms(1)
    assert room.expired == [(1_000, ["a"])]
    assert "a" not in room.sessions
    assert len(room.deadlines) == 0


def test_a_thousand_signs_of_life_move_no_deadline() -> None:
    room = Room()
    for ms in range(1_000):
        room.deadlines.now_ms = ms
        room.sessions.heard("a", 1_000)
    assert (len(room.deadlines), room.deadlines.next_ms()) == (1, 1_000)
    room.pass_ms(2_000)
    assert room.expired == [(1_999, ["a"])]


def test_a_shorter_session_is_looked_at_in_time() -> None:
    room = Room()
    room.sessions.heard("a", 10_000)
    room.sessions.heard("b", 1_000)
    assert len(room.deadlines) == 1
    room.pass_ms(10_000)
    assert room.expired == [(1_000, ["b"]), (10_000, ["a"])]


def test_those_who_fall_silent_together_are_told_of_together() -> None:
    room = Room()
    for number in range(100):
        room.sessions.heard(str(number), 1_000 + number)
    room.pass_ms(5_000)
    assert [ms for ms, _ in room.expired] == [1_000, 1_000 + LOOK_PAUSE_MS]
    assert sum(len(who) for _, who in room.expired) == 100


def test_who_is_forgotten_is_not_told_of() -> None:
    room = Room()
    room.sessions.heard("a", 1_000)
    room.sessions.heard("b", 1_000)
    room.sessions.forget("a")
    room.sessions.forget("nobody")
    room.pass_ms(1_000)
    assert room.expired == [(1_000, ["b"])]
    room.sessions.heard("c", 1_000)
    room.sessions.stop()
    assert len(room.deadlines) == 0
