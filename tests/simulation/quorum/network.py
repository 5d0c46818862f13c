"""The network between controllers: slow, lossy, and cut in all ways that networks are.

In one of two moods for a whole run: like TCP (frames of a connection keep their order, a cut resets
it and what was under way is gone), or meaner than any TCP (frames overtake each other and arrive
twice).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from quorate.quorum.raft.voters import ReplicaKey
from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace

FIFO_GAP_S = 1e-6


class Link(NamedTuple):
    """One direction between two hosts."""

    source: int
    target: int


class Frame(NamedTuple):
    source: ReplicaKey
    target: ReplicaKey
    data: bytes


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is; probabilities are per frame."""

    delay_min_s: float
    delay_max_s: float
    loss: float = 0.0
    duplicates: float = 0.0
    spikes: float = 0.0
    spike_s: float = 3.0


FINE = Weather(delay_min_s=0.0002, delay_max_s=0.002)


class Network:
    """Owns the frames under way, and which directions are cut."""

    def __init__(
        self,
        timeline: Timeline,
        rng: Random,
        trace: Trace,
        receive: Callable[[Frame], None],
        *,
        fifo: bool,
    ) -> None:
        self._timeline = timeline
        self._rng = rng
        self._trace = trace
        self._receive = receive
        self.fifo = fifo
        self.weather = FINE
        self._cut = set[Link]()
        self._detours_s = dict[Link, float]()
        self._resets = defaultdict[Link, int](int)
        self._last_s = defaultdict[Link, float](float)
        self.when_reset: Callable[[Link], None] = lambda _: None

    def passes(self, link: Link) -> bool:
        return link not in self._cut

    def cut(self, links: Iterable[Link]) -> None:
        """Let nothing through any more in these directions."""
        for link in links:
            if link not in self._cut:
                self._cut.add(link)
                if self.fifo:
                    self.reset(link)
                    self.when_reset(link)

    def heal(self) -> None:
        self._cut.clear()
        self._detours_s.clear()

    def slow(self, link: Link, detour_s: float) -> None:
        """Let everything in this direction take so much longer."""
        self._detours_s[link] = detour_s

    def reset(self, link: Link) -> None:
        """End a connection: what is under way on it is gone, the next one starts afresh."""
        self._resets[link] += 1
        self._last_s.pop(link, None)

    def send(self, frame: Frame) -> None:
        link = Link(frame.source.node_id, frame.target.node_id)
        rng, weather = self._rng, self.weather
        if link in self._cut or rng.random() < weather.loss:
            return
        twice = not self.fifo and rng.random() < weather.duplicates
        for _ in range(2 if twice else 1):
            delay_s = rng.uniform(weather.delay_min_s, weather.delay_max_s)
            delay_s += self._detours_s.get(link, 0.0)
            if rng.random() < weather.spikes:
                delay_s += rng.uniform(0, weather.spike_s)
            self._plan(link, frame, self._timeline.now_s + delay_s)

    def _plan(self, link: Link, frame: Frame, arrives_s: float) -> None:
        if self.fifo:
            arrives_s = max(arrives_s, self._last_s[link] + FIFO_GAP_S)
            self._last_s[link] = arrives_s
        resets = self._resets[link]
        self._timeline.at(arrives_s, lambda: self._arrive(link, frame, resets))

    def _arrive(self, link: Link, frame: Frame, resets: int) -> None:
        if resets == self._resets[link]:
            self._trace.frame(f"{link.source} {link.target}", frame.data)
            self._receive(frame)
