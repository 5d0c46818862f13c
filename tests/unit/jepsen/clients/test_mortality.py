"""At which moments producers die: each comes once before one comes again."""

from random import Random

from quorate.jepsen.clients.mortality import DELAYS_S, LIVES_S, MOMENTS, OF_OFFSETS, Dooms


def test_each_moment_comes_once_before_one_comes_again() -> None:
    dooms = Dooms(MOMENTS, Random(1))
    rounds = [sorted(dooms.draw().moment for _ in MOMENTS) for _ in range(3)]
    assert rounds == [sorted(MOMENTS)] * 3


def test_a_producer_lives_for_a_while_unless_its_moment_comes_only_once() -> None:
    dooms = Dooms(MOMENTS, Random(1))
    for doom in [dooms.draw() for _ in MOMENTS]:
        once = doom.step.endswith("open")
        assert doom.lives_s == 0 if once else LIVES_S[0] <= doom.lives_s <= LIVES_S[1]


def test_death_comes_later_than_the_step_where_something_is_under_way_then() -> None:
    dooms = Dooms(MOMENTS, Random(1))
    for doom in [dooms.draw() for _ in MOMENTS]:
        is_late = doom.moment.startswith(("during-", "while-"))
        assert 0 < doom.delay_s < max(DELAYS_S) if is_late else doom.delay_s == 0


def test_moments_around_offsets_are_known_for_those_who_send_none() -> None:
    assert {"before-offsets", "during-offsets", "after-offsets"} == OF_OFFSETS
