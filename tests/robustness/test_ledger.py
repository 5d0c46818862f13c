"""The checks of what producers were told and consumers shown see what they are there to see."""

import pytest

from quorate.jepsen.clients.wire import Content, plain_batch, split_batches
from quorate.model import TopicPartition
from tests.robustness.ledger import Ledger, digest

WHERE = TopicPartition("t", 0)
A, B, C, D = (f"{name}".encode() for name in "abcd")


def content(*values: bytes) -> Content:
    batches = split_batches(WHERE, plain_batch(*values)) if values else ()
    return Content(0, len(values), list(batches))


def ledger(*acked: bytes) -> Ledger:
    """One producer has sent a, b and c, and another d; the first so many were acknowledged."""
    made = Ledger([WHERE])
    for value in (A, B, C):
        made.send("p", WHERE, [digest(value)])
    made.send("q", WHERE, [digest(D)])
    for offset, value in enumerate(acked):
        made.ack(WHERE, offset, (digest(value),))
    return made


def problems(made: Ledger, *values: bytes) -> list[str]:
    made.problems.clear()
    made.compare(WHERE, content(*values))
    return made.problems


@pytest.mark.parametrize("values", [(A, B), (A, B, C), (A, B, D), (A, B, D, C)])
def test_a_log_that_has_what_was_acknowledged_and_perhaps_more_is_fine(
    values: tuple[bytes, ...],
) -> None:
    assert problems(ledger(A, B), *values) == []


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ((A,), "1 acknowledged records are lost or changed"),
        ((A, C), "1 acknowledged records are lost or changed"),
        ((A, B, b"x"), "1 records were never sent"),
        ((A, B, C, C), "1 records are there twice"),
    ],
)
def test_what_is_lost_or_not_sent_or_there_twice_is_seen(
    values: tuple[bytes, ...], problem: str
) -> None:
    assert any(problem in each for each in problems(ledger(A, B), *values))


def test_records_of_one_producer_that_change_places_are_seen() -> None:
    assert problems(ledger(), A, D, B) == []
    (problem,) = problems(ledger(), B, A)
    assert "1 records stand behind later ones of their producer" in problem
    again = ledger()
    again.send("p", WHERE, [digest(A)])  # nobody heard of it: that is no later record
    assert problems(again, A, B, C) == []


def test_what_was_shown_and_is_gone_later_is_seen_though_nobody_was_told_of_it() -> None:
    made = ledger(A)
    assert problems(made, A, B, C) == []
    assert problems(made, A, B, C, D) == []
    (problem,) = problems(made, A, B, C)
    assert "1 records that were shown are lost or changed" in problem
    (problem,) = problems(ledger_that_showed(A, B), A, D)
    assert "1 records that were shown are lost or changed" in problem


def ledger_that_showed(*values: bytes) -> Ledger:
    made = ledger(A)
    assert problems(made, *values) == []
    return made
