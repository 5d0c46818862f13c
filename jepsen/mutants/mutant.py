"""What a mutant is: a bug, what it breaks, and the run that must find it."""

from collections.abc import Callable
from dataclasses import dataclass

from quorate.jepsen.mutants.patching import Patches


@dataclass(frozen=True, slots=True)
class Proof:
    """The run of ``quorate verify run`` that shows a mutant, and stays green without it.

    Attributes:
        workloads: what is done meanwhile.
        faults: what ``--faults`` is told.
        seconds: how long; scenarios that are directed take their own time.
        options: further words of the command line.
    """

    workloads: tuple[str, ...]
    faults: tuple[str, ...]
    seconds: int
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug that can be planted in a process.

    Attributes:
        name: of ``--inject-bug``.
        breaks: a sentence: what goes wrong.
        properties: which properties of facts/jepsen.md, section 3, do not hold any more.
        anomalies: one of these must be found; anything else is no kill.
        proof: the run in which it shows.
        arm: plants it.

    Raises:
        UnarmedError: by ``arm``; what it would break is not there any more.
    """

    name: str
    breaks: str
    properties: tuple[str, ...]
    anomalies: frozenset[str]
    proof: Proof
    arm: Callable[[Patches], None]
