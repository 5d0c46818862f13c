"""The network between processes: requests and answers that are late, lost, or arrive twice.

Meaner than connections are: nothing keeps its order, and a request may arrive long after whoever
asked has given up, or has been replaced by another process.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Protocol

from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace

Answered = Callable[[object], None]


class Link(NamedTuple):
    """One direction between two hosts."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is; probabilities are per message."""

    delay_min_s: float = 0.0002
    delay_max_s: float = 0.002
    loss: float = 0.0
    duplicates: float = 0.0
    spikes: float = 0.0
    spike_s: float = 2.0


FINE = Weather()
FIFO_GAP_S = 1e-6


class Process(Protocol):
    """One run of a program on a host."""

    alive: bool
    """Whether it has not ended."""
    paused_until_s: float
    """Until when it does nothing."""

    def serve(self, source: str, request: object, reply: Answered) -> None:
        """Take a request; ``reply`` may be called later, or never."""
        ...


class NoAnswerError(Exception):
    """Nobody answered in time, or nobody was there."""


class Network:
    """Owns which directions are cut, and the weather."""

    def __init__(
        self,
        timeline: Timeline,
        rng: Random,
        trace: Trace,
        process_on: Callable[[str], Process | None],
    ) -> None:
        self._timeline = timeline
        self._rng = rng
        self._trace = trace
        self._process_on = process_on
        self._cut = set[Link]()
        self._slow: dict[Link, float] = {}
        self.weather = FINE

    def cut(self, links: Iterable[Link]) -> None:
        """Let nothing through any more in these directions."""
        self._cut.update(links)

    def slow(self, links: Iterable[Link], extra_s: float) -> None:
        """Let everything take so much longer in these directions, whatever the weather."""
        self._slow.update(dict.fromkeys(links, extra_s))

    def heal(self) -> None:
        """Let everything through again, and at the pace of the weather."""
        self._cut.clear()
        self._slow.clear()

    def ask(
        self,
        source: tuple[str, Process],
        target: str,
        request: object,
        answered: Callable[[object], None],
        timeout_s: float,
    ) -> None:
        """Send a request; ``answered`` is called once: with the answer, or a NoAnswerError."""
        host, process = source
        open_ = [True]

        def finish(answer: object) -> None:
            if open_ and process.alive:
                open_.clear()
                self._trace.note("answer", f"{target} {host} {type(answer).__name__}")
                self.when_awake(process, lambda: answered(answer))

        self._timeline.after(timeout_s, lambda: finish(NoAnswerError("timeout")))
        self._carry(Link(host, target), lambda: self._arrive(Link(host, target), request, finish))

    def connect(self, source: tuple[str, Process], target: str) -> "Line":
        """Open a connection."""
        return Line(self, source, target)

    def _arrive(self, link: Link, request: object, finish: Answered) -> None:
        back = Link(link.target, link.source)

        def reply(answer: object) -> None:
            self._carry(back, lambda: finish(answer))

        if not self.serve_on(link, request, reply):
            reply(NoAnswerError("connection refused"))

    def when_awake(self, process: Process, action: Callable[[], None]) -> None:
        """Do something in a process: not while it is paused, nor after its end."""
        if not process.alive:
            return
        if self._timeline.now_s < process.paused_until_s:
            self._timeline.at(process.paused_until_s, lambda: self.when_awake(process, action))
        else:
            action()

    def serve_on(self, link: Link, request: object, reply: Answered) -> bool:
        """Hand a request to whoever runs there now; return whether somebody does."""
        process = self._process_on(link.target)
        if process is None:
            return False
        self._trace.note("request", f"{link.source} {link.target} {type(request).__name__}")
        self.when_awake(process, lambda: process.serve(link.source, request, reply))
        return True

    def deliver_on(self, line: "Line", link: Link, arrive: Callable[[], None]) -> None:
        """Carry something over a connection: in order, or it breaks."""
        rng, weather = self._rng, self.weather
        if link in self._cut or rng.random() < weather.loss / 4:
            line.broken = True
            return
        arrives_s = max(
            self._timeline.now_s + self._delay_s(link), line.last_s.get(link, 0.0) + FIFO_GAP_S
        )
        line.last_s[link] = arrives_s
        self._timeline.at(arrives_s, arrive)

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something later."""
        self._timeline.after(delay_s, action)

    def _carry(self, link: Link, arrive: Callable[[], None]) -> None:
        rng, weather = self._rng, self.weather
        if link in self._cut or rng.random() < weather.loss:
            return
        for _ in range(2 if rng.random() < weather.duplicates else 1):
            self._timeline.after(self._delay_s(link), arrive)

    def _delay_s(self, link: Link) -> float:
        rng, weather = self._rng, self.weather
        delay_s = rng.uniform(weather.delay_min_s, weather.delay_max_s)
        if rng.random() < weather.spikes:
            delay_s += rng.uniform(0, weather.spike_s)
        return delay_s + self._slow.get(link, 0.0)


class Line:
    """One connection: requests and answers keep their order; once something is lost, all is.

    What was sent before the other side gave up may still arrive: nobody takes that back.
    """

    def __init__(self, network: Network, source: tuple[str, Process], target: str) -> None:
        self._network = network
        self._host, self._process = source
        self._there = Link(self._host, target)
        self._back = Link(target, self._host)
        self.broken = False
        self.last_s: dict[Link, float] = {}

    def send(self, request: object, answered: Answered, timeout_s: float) -> None:
        """Send a request; ``answered`` is called once, with the answer or a NoAnswerError."""
        open_ = [True]

        def finish(answer: object) -> None:
            if open_ and self._process.alive:
                open_.clear()
                self._network.when_awake(self._process, lambda: answered(answer))

        def reply(answer: object) -> None:
            if not self.broken:
                self._network.deliver_on(self, self._back, lambda: finish(answer))

        def arrive() -> None:
            if not self._network.serve_on(self._there, request, reply):
                reply(NoAnswerError("connection reset"))
                self.broken = True

        self._network.after(timeout_s, lambda: finish(NoAnswerError("timeout")))
        if not self.broken:
            self._network.deliver_on(self, self._there, arrive)
