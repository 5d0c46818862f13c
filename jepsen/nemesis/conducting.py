"""Carries out a schedule: inflicts faults when they are due, heals them, writes both down."""

import heapq
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from quorate.jepsen.history import Kind
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import DiedError, Host, NeverCameUpError
from quorate.jepsen.nemesis.fault import Family, Fault, NotNowError, NotYetError
from quorate.jepsen.nemesis.schedules import SHORTEST_S, Step
from quorate.jepsen.recorder import NEMESIS, Recorder, Scribe

logger = logging.getLogger(__name__)

TICK_S: Final = 0.05
AGAIN_S: Final = 1.0
HEALED_S_MAX: Final = 40.0
"""All of it, once nothing else happens."""

Tell = Callable[[str], None]
"""Takes a line for people."""


class _Noted:
    """Takes a fault's note: the INVOKE in the history, once."""

    def __init__(self, scribe: Scribe, name: str) -> None:
        self._scribe = scribe
        self._name = name
        self.targets: list[str] | None = None

    def __call__(self, targets: Sequence[Host], **detail: Any) -> None:
        assert self.targets is None, "a fault is noted once"
        self.targets = [host.name for host in targets]
        value = {"fault": self._name, "targets": self.targets, "detail": detail}
        self._scribe.begin("fault", value)


class _Coming:
    """The steps to come; those that were not possible come again, until they should be over."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = iter(steps)
        self._next = next(self._steps, None)
        self._again: list[Step] = []

    def take(self, now_s: float) -> Step | None:
        """Return a step whose time has come, if there is one."""
        step = self._next
        if step is not None and step.at_s <= now_s:
            self._next = next(self._steps, None)
            return step
        if self._again and self._again[0].at_s <= now_s:
            return self._again.pop(0)
        return None

    def put_back(self, step: Step, now_s: float) -> None:
        """Let a step come again, later and for as much shorter."""
        later = replace(step, at_s=now_s + AGAIN_S, lasts_s=step.until_s - now_s - AGAIN_S)
        if later.lasts_s >= SHORTEST_S:
            self._again.append(later)


class Conductor:
    """Faults that are on, and when each is to be healed; for one thread.

    Invariant: of each name, such as ``kill:leader``, at most one is on.
    """

    def __init__(self, lab: Lab, recorder: Recorder, rng: Random, tell: Tell) -> None:
        self._lab = lab
        self._rng = rng
        self._tell = tell
        self._scribe = Scribe(recorder, NEMESIS)
        self._on: dict[str, Fault] = {}
        self._unseen: set[str] = set()
        self._due: list[tuple[float, str]] = []
        self.inflicted = 0
        self.verified = 0

    @property
    def scribe(self) -> Scribe:
        """Who writes down what the harness itself does."""
        return self._scribe

    def run(
        self,
        steps: Iterable[Step],
        families: Mapping[str, Family],
        seconds: float,
        tick: Callable[[], None],
    ) -> None:
        """Let the faults happen while so many seconds pass; ``tick`` is called all the time.

        Raises:
            DiedError: a node ended by itself.
        """
        begin_s = time.monotonic()
        coming = _Coming(steps)
        while (now_s := time.monotonic() - begin_s) < seconds:
            if self._due and self._due[0][0] <= now_s:
                name = heapq.heappop(self._due)[1]
                if not self._heal(name):
                    again_s = time.monotonic() - begin_s + AGAIN_S
                    heapq.heappush(self._due, (again_s, name))
            elif (step := coming.take(now_s)) is not None:
                name = f"{step.family}:{step.variant}"
                if name in self._on:
                    continue
                fault = families[step.family].variants[step.variant].make()
                is_on = self._inflict(name, fault)
                # From now on: a fault may take its time to come about.
                now_s = time.monotonic() - begin_s
                if is_on:
                    heapq.heappush(self._due, (now_s + step.lasts_s, name))
                else:
                    coming.put_back(step, now_s)
            else:
                tick()
                time.sleep(TICK_S)

    def heal_all(self) -> None:
        """Heal whatever is on, the last first; what others are in the way of, after them."""
        deadline_s = time.monotonic() + HEALED_S_MAX
        while self._on and time.monotonic() < deadline_s:
            done = [self._heal(name) for name in list(reversed(self._on))]
            if not any(done):
                time.sleep(TICK_S)
        for name in self._on:
            self._tell(f"{name} is not healed")
        self._due.clear()

    def _inflict(self, name: str, fault: Fault) -> bool:
        """Return whether it is on, and has to be healed."""
        note = _Noted(self._scribe, name)
        try:
            fault.inflict(self._lab, self._rng, note)
        except NotNowError as error:
            logger.info("%s: not now: %s", name, error)
            if note.targets is None:
                return False
            self._scribe.end(Kind.INFO, "fault", {"error": str(error)})
        except DiedError:
            if note.targets is not None:
                self._scribe.end(Kind.INFO, "fault", {"error": "a node ended by itself"})
            raise
        except (OSError, NeverCameUpError) as error:
            logger.warning("%s failed: %s", name, error)
            self._tell(f"{name} failed: {error}")
            if note.targets is None:
                return False
            self._scribe.end(Kind.INFO, "fault", {"error": str(error)})
        else:
            assert note.targets is not None, f"{name} happened without a note"
            self._note_success(name, note.targets, fault.verified())
        self._on[name] = fault
        return True

    def _note_success(self, name: str, targets: Sequence[str], verified: str) -> None:
        self._scribe.end(Kind.OK, "fault", {"verified": verified})
        self.inflicted += 1
        self.verified += bool(verified)
        if not verified:
            self._unseen.add(name)
        self._tell(f"{name:<22} {', '.join(targets)}  {verified or 'not seen to bite yet'}")

    def _heal(self, name: str) -> bool:
        """Return whether that is over, and not to be tried again."""
        fault = self._on[name]
        told = self._seen_late(name, fault)
        self._scribe.begin("heal", {"fault": name})
        try:
            fault.heal()
        except NotYetError as error:
            logger.info("%s: not healed yet: %s", name, error)
            if told:  # what was seen is told when it is healed
                self._unseen.add(name)
                self.verified -= bool(told["verified"])
            self._scribe.end(Kind.INFO, "heal", {"error": str(error)})
            return False
        except (OSError, NeverCameUpError) as error:
            logger.warning("%s: not healed: %s", name, error)
            self._tell(f"{name} is not healed: {error}")
            self._scribe.end(Kind.INFO, "heal", {"error": str(error)})
        else:
            self._scribe.end(Kind.OK, "heal", told)
        del self._on[name]
        return True

    def _seen_late(self, name: str, fault: Fault) -> dict[str, str]:
        """Look once more at a fault that has not been seen to bite, before it is healed."""
        if name not in self._unseen:
            return {}
        self._unseen.discard(name)
        verified = fault.verified()
        self.verified += bool(verified)
        self._tell(f"{name:<22} {verified or 'was not seen to bite'}")
        return {"verified": verified}
