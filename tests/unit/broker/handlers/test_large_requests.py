"""Large requests to controllers begin in their turn, and whoever is forgotten holds up nobody."""

import weakref

from quorate.broker.handlers.large_requests import (
    IN_WORK_BYTES_MAX,
    LargeRequest,
    LargeRequests,
    new_lines,
)
from quorate.protocol.apis import ApiKey

HALF = IN_WORK_BYTES_MAX // 2


class Big:
    """What a request is made of."""

    size_bytes = 2


class Line:
    """Adds requests, and notes which have begun."""

    def __init__(self) -> None:
        self.requests = LargeRequests()
        self.begun: list[str] = []

    def add(self, name: str, size_bytes: int) -> LargeRequest:
        request = LargeRequest(size_bytes, lambda: self.begun.append(name))
        self.requests.add(request)
        return request

    def add_short(self, size_bytes: int) -> None:
        """Add a request that ends as soon as it begins."""
        request = LargeRequest(size_bytes, lambda: self.requests.ended(request))
        self.requests.add(request)


def test_requests_begin_in_the_order_in_which_they_came_while_few_bytes_are_in_work() -> None:
    line = Line()
    first, second = line.add("a", HALF), line.add("b", HALF)
    line.add("c", HALF)
    line.add("d", 1)
    assert line.begun == ["a", "b"]
    line.requests.ended(second)
    assert line.begun == ["a", "b", "c"]
    line.requests.ended(first)
    assert line.begun == ["a", "b", "c", "d"]


def test_a_request_that_is_larger_than_that_begins_alone() -> None:
    line = Line()
    small = line.add("small", 1)
    large = line.add("large", 2 * IN_WORK_BYTES_MAX)
    line.add("next", 1)
    assert line.begun == ["small"]
    line.requests.ended(small)
    assert line.begun == ["small", "large"]
    line.requests.ended(large)
    assert line.begun == ["small", "large", "next"]


def test_who_is_forgotten_before_its_turn_takes_none() -> None:
    line = Line()
    first = line.add("a", IN_WORK_BYTES_MAX)
    line.add("b", IN_WORK_BYTES_MAX).forget()
    line.add("c", IN_WORK_BYTES_MAX)
    line.requests.ended(first)
    assert line.begun == ["a", "c"]


def test_any_number_may_end_as_soon_as_they_begin() -> None:
    line = Line()
    first = line.add("a", IN_WORK_BYTES_MAX)
    for _ in range(5000):
        line.add_short(IN_WORK_BYTES_MAX)
    line.add("last", IN_WORK_BYTES_MAX)
    line.requests.ended(first)
    assert line.begun == ["a", "last"]


def test_what_all_clients_ask_for_waits_for_nothing_else() -> None:
    lines = new_lines()
    assert lines[ApiKey.CREATE_TOPICS] is lines[ApiKey.FIND_COORDINATOR]
    assert lines[ApiKey.CREATE_TOPICS] is not lines[ApiKey.METADATA]
    assert not {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.JOIN_GROUP} & lines.keys()


def test_what_has_begun_is_held_by_nobody() -> None:
    """The collector of a broker seldom looks for what holds itself."""

    def add() -> "weakref.ref[Big]":
        def begin() -> None:
            assert (request.size_bytes, big.size_bytes) == (1, 2)

        big, request = Big(), LargeRequest(1, begin)
        requests.add(request)
        return weakref.ref(big)

    requests = LargeRequests()
    assert add()() is None
