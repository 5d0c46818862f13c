"""RequestTimes: how long requests take, by API; told by the turns of the loop.

What came in one turn is answered at its end, so the turn's two times tell how long each of its
requests took. A request by itself costs a counter, and no look at the clock.
"""

from bisect import bisect_left
from collections.abc import Mapping
from math import inf
from typing import Final

from quorate.protocol.apis import APIS, ApiKey

BOUNDS_S: Final = (
    *(5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2),
    *(0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
)
"""How durations are told apart: up to the first of them, up to the second, ..., longer."""

NOT_YET: Final = -1.0
"""In place of a time: the answer is not known yet."""

FETCH_BY_CONSUMERS: Final = "FetchConsumer"
FETCH_BY_FOLLOWERS: Final = "FetchFollower"
"""As Kafka tells them apart (``RequestMetrics``), because a follower's fetch waits for records."""


class ApiTimes:
    """How long the requests of one API took.

    ``counts`` says how many took up to each of :data:`BOUNDS_S`, from the turn of the loop in which
    they came to the end of that in which they were answered; ``total_s`` is all of that together.
    ``local_s`` is what they were worked on: of a turn each of its requests has an equal share.
    ``remote_s`` is from turn to turn, for those that waited.

    Turns that are alike are added up: ``run`` is how many requests they had, whose time lay between
    ``run_low_s`` and ``run_high_s``; they are counted when another one is not like them.
    """

    __slots__ = ("counts", "local_s", "remote_s", "run", "run_high_s", "run_low_s", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = self.local_s = self.remote_s = 0.0
        self.run = 0
        self.run_low_s = self.run_high_s = 0.0

    def begin_run(self, took_s: float) -> None:
        """Count in the requests of turns that were alike; the next are like one that took that."""
        if self.run:
            self.counts[bisect_left(BOUNDS_S, self.run_high_s)] += self.run
            self.run = 0
        place = bisect_left(BOUNDS_S, took_s)
        self.run_low_s = BOUNDS_S[place - 1] if place else -1.0
        self.run_high_s = BOUNDS_S[place] if place < len(BOUNDS_S) else inf

    def took(self, took_s: float, requests: int) -> None:
        """Count in a turn that had nothing but so many of these requests."""
        if not self.run_low_s < took_s <= self.run_high_s:
            self.begin_run(took_s)
        self.run += requests
        self.total_s += took_s * requests
        self.local_s += took_s

    def merge(self, other: "ApiTimes") -> None:
        """Count in what was counted elsewhere."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.total_s += other.total_s
        self.local_s += other.local_s
        self.remote_s += other.remote_s


class RequestTimes:
    """Counts requests and how long they took; who runs the turns says when they begin and end.

    State of a turn: ``short``, the Produce requests that took the short way and are answered at
    once; ``others``, all that were answered otherwise, with the time of the turn in which they
    came, and those that wait for their answer from now on, with :data:`NOT_YET`.
    """

    __slots__ = ("_apis", "_fetch_by_followers", "began_s", "others", "produce", "short")

    def __init__(self) -> None:
        self.began_s = 0.0
        """When the turn began."""
        self.short = 0
        self.others: list[tuple[ApiTimes, float]] = []
        self._apis: dict[int, ApiTimes] = {}
        self._fetch_by_followers = ApiTimes()
        self.produce = self.of(ApiKey.PRODUCE)

    def of(self, api_key: int, *, by_follower: bool = False) -> ApiTimes:
        """Return where the requests of an API are counted."""
        if by_follower:
            return self._fetch_by_followers
        return self._apis.setdefault(api_key, ApiTimes())

    def end_short_turn(self, now_s: float) -> None:
        """Count in a turn that had nothing but Produce requests of the short way."""
        requests, self.short = self.short, 0
        self.produce.took(now_s - self.began_s, requests)

    def end_turn(self, now_s: float) -> None:
        """Count in any other turn, with its :attr:`others`."""
        began_s, others, short = self.began_s, self.others, self.short
        if len(others) == 1 and not short:
            api, since_s = others.pop()
            if since_s == began_s:
                api.took(now_s - began_s, 1)
                return
            others.append((api, since_s))
        share_s = (now_s - began_s) / (short + len(others))
        for api, since_s in others:
            api.local_s += share_s
            if since_s != NOT_YET:
                took_s = now_s - since_s
                api.counts[bisect_left(BOUNDS_S, took_s)] += 1
                api.total_s += took_s
                api.remote_s += began_s - since_s
        others.clear()
        if short:
            self.end_short_turn(now_s)
            self.produce.local_s -= now_s - began_s - share_s * short

    def by_name(self) -> Mapping[str, ApiTimes]:
        """Return what was counted so far, by Kafka's names of requests."""
        apis = {**self._apis, ApiKey.FETCH: self.of(ApiKey.FETCH)}
        for times in (*apis.values(), self._fetch_by_followers):
            times.begin_run(times.run_high_s)
        found = {APIS[key].name: times for key, times in apis.items()}
        fetch = APIS[ApiKey.FETCH].name
        found[FETCH_BY_CONSUMERS] = found[fetch]
        found[FETCH_BY_FOLLOWERS] = self._fetch_by_followers
        found[fetch] = ApiTimes()
        found[fetch].merge(found[FETCH_BY_CONSUMERS])
        found[fetch].merge(found[FETCH_BY_FOLLOWERS])
        return {name: times for name, times in found.items() if any(times.counts)}
