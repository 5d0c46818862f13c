"""Brokers that do not wait for metadata any more are looked for."""

from quorate.quorum.control.presence import (
    ABSENT_MS,
    FIRST_MS,
    LOOKED_FOR_MS,
    LOOKS_MAX,
    Presence,
)


def seen() -> Presence:
    """A broker waited, and was found."""
    presence = Presence()
    presence.begin(1, 0)
    assert presence.absent(0) == [1]
    assert not presence.is_gone(1, refused=False)
    presence.looked(1, 0)
    return presence


def test_a_broker_that_waits_is_there_and_one_that_stopped_is_looked_for() -> None:
    presence = seen()
    assert presence.absent(99_999) == []
    presence.end(1, 1000)
    assert presence.absent(1000 + ABSENT_MS - 1) == []
    assert presence.absent(1000 + ABSENT_MS) == [1]
    assert not presence.is_gone(1, refused=False)
    assert presence.is_gone(1, refused=True)


def test_a_broker_that_goes_on_waiting_soon_is_not_looked_for() -> None:
    presence = seen()
    presence.end(1, 1000)
    presence.begin(1, 1001)
    assert presence.absent(9999) == []
    assert not presence.is_gone(1, refused=True), "it came while somebody looked"


def test_a_broker_is_there_while_any_of_its_requests_waits() -> None:
    presence = seen()
    presence.begin(1, 1)
    presence.end(1, 1000)
    assert presence.absent(9999) == []
    presence.end(1, 2000)
    assert presence.absent(9999) == [1]


def test_who_seems_to_be_gone_while_it_waits_is_not_judged_by_that_until_it_registers_again() -> (
    None
):
    presence = Presence()
    presence.begin(1, 0)
    assert presence.absent(0) == [1]
    assert not presence.is_gone(1, refused=True)
    presence.looked(1, 10)
    presence.end(1, 1000)
    assert presence.absent(99_999) == []
    assert not presence.is_gone(1, refused=True)
    presence.forget(1)
    presence.begin(1, 100_000)
    assert presence.absent(100_000) == [1]
    presence.end(1, 100_000)
    assert presence.is_gone(1, refused=True)


def test_whoever_was_away_when_it_was_looked_for_first_is_looked_for_when_it_waits_again() -> None:
    presence = Presence()
    presence.begin(1, 0)
    assert presence.absent(0) == [1]
    presence.end(1, 10)
    assert not presence.is_gone(1, refused=False)
    presence.looked(1, 20)
    presence.begin(1, 30)
    assert presence.absent(20 + LOOKED_FOR_MS) == [1]


def test_an_absent_broker_is_looked_for_again_and_again_until_it_is_forgotten() -> None:
    presence = seen()
    presence.end(1, 0)
    assert presence.absent(ABSENT_MS) == [1]
    assert presence.absent(99_998) == [], "one look at a time"
    presence.looked(1, 99_998)
    assert presence.absent(99_998 + LOOKED_FOR_MS - 1) == []
    assert presence.absent(99_998 + LOOKED_FOR_MS) == [1]
    presence.forget(1)
    presence.forget(1)
    presence.looked(1, 199_999)
    assert presence.absent(999_999) == []


def test_brokers_are_looked_for_in_turn_so_many_at_once() -> None:
    presence = Presence()
    presence.expect(range(2 * LOOKS_MAX), 0)
    assert presence.absent(FIRST_MS) == list(range(LOOKS_MAX))
    assert presence.absent(FIRST_MS) == []
    presence.looked(0, FIRST_MS)
    assert presence.absent(99_999) == [LOOKS_MAX], "who was not looked for yet comes first"
    presence.expect([7], 99_999)
    assert presence.absent(99_999 + FIRST_MS) == [7], "what the controller before did is over"


def test_a_new_controller_gives_brokers_time_to_find_it_and_looks_for_who_is_there() -> None:
    presence = Presence()
    presence.begin(2, 0)
    presence.end(2, 0)
    presence.begin(3, 0)
    presence.expect([1, 3], 5000)
    assert presence.absent(5000 + FIRST_MS - 1) == [3]
    assert presence.absent(5000 + FIRST_MS) == [1]
