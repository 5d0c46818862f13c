"""Answers about many things that come one by one, for one response."""

from collections.abc import Callable
from typing import Generic, TypeVar

from quorate.promise import Promise, now_or_later

T = TypeVar("T")
R = TypeVar("R")


class Gathering(Generic[T]):
    """As many answers as were asked for, in the order of the questions; each is given once."""

    __slots__ = ("_answers", "_open", "_promise")

    def __init__(self, count: int) -> None:
        self._answers: list[T | None] = [None] * count
        self._open = count
        self._promise: Promise[list[T]] = Promise()
        if not count:
            self._promise.resolve([])

    def put(self, place: int, answer: T) -> None:
        """Fill a place."""
        assert self._answers[place] is None, "one answer to one question"
        self._answers[place] = answer
        self._open -= 1
        if not self._open:
            self._promise.resolve([answer for answer in self._answers if answer is not None])

    def response(self, make: Callable[[list[T]], R]) -> R | Promise[R]:
        """Return the response of all answers, at once if they are there."""
        promise: Promise[R] = Promise()
        self._promise.when_resolved(lambda answers: promise.resolve(make(answers)))
        return now_or_later(promise)
