"""Brokers that do not wait for metadata any more are looked for."""

from quorate.quorum.control.presence import (
    ABSENT_MS,
    FIRST_MS,
    LOOKED_FOR_MS,
    LOOKS_MAX,
    Presence,
)


def test_a_broker_that_waits_is_there_and_one_that_stopped_is_looked_for() -> None:
    presence = Presence()
    presence.begin(1)
    assert presence.is_waiting(1)
    assert presence.absent(99_999) == []
    presence.end(1, 1000)
    assert not presence.is_waiting(1)
    assert presence.absent(1000 + ABSENT_MS - 1) == []
    assert presence.absent(1000 + ABSENT_MS) == [1]


def test_a_broker_that_goes_on_waiting_soon_is_not_looked_for() -> None:
    presence = Presence()
    presence.begin(1)
    presence.end(1, 1000)
    presence.begin(1)
    assert presence.absent(9999) == []


def test_a_broker_is_there_while_any_of_its_requests_waits() -> None:
    presence = Presence()
    presence.begin(1)
    presence.begin(1)
    presence.end(1, 1000)
    assert presence.is_waiting(1)
    assert presence.absent(9999) == []
    presence.end(1, 2000)
    assert presence.absent(9999) == [1]


def test_an_absent_broker_is_looked_for_again_and_again_until_it_is_forgotten() -> None:
    presence = Presence()
    presence.begin(1)
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


def test_a_new_controller_gives_brokers_time_to_find_it() -> None:
    presence = Presence()
    presence.begin(2)
    presence.end(2, 0)
    presence.begin(3)
    presence.expect([1, 3], 5000)
    assert presence.absent(5000 + FIRST_MS - 1) == []
    assert presence.absent(5000 + FIRST_MS) == [1]
