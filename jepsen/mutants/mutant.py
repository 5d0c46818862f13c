"""What a mutant is: a bug, what it breaks, and the run that must find it."""

from collections.abc import Callable
from typing import Final

from quorate.dataclass import dataclass
from quorate.jepsen.mutants.patching import Patches

PROPERTIES: Final = {
    "D1": "an acknowledged record is never lost",
    "D3": "an offset has one record, on all replicas and for ever",
    "D4": "a record is there once",
    "D7": "a batch is there as a whole or not at all",
    "D8": "a record is what was sent",
    "D9": "what a consumer was given stays so, and nothing is given before it is committed",
    "D11": "an acknowledged record was held by min.insync.replicas",
    "D15": "records that are synced before they are acknowledged survive any power cut",
    "E1": "one leader appends in an epoch",
    "E2": "leader epochs never go back along a log",
    "E3": "what a deposed leader acknowledges is kept",
    "E4": "nobody is served in an epoch that is over",
    "E5": "no later leader has cut off what was committed",
    "Q1": "what a leader calls committed is on every member of the ISR that controllers know",
    "Q3": "the high watermark goes by the ISR that is in force or may be",
    "Q4": "who joins the ISR has all that may be committed, in its present registration",
    "Q6": "nobody leads who was not in sync, while unclean elections are off",
    "I1": "an idempotent producer's records are there once, in order",
    "I5": "an idempotent producer that left no gap is never told of one",
    "O1": "committed offsets are linearizable",
    "O2": "committed offsets do not go back by themselves",
    "C2": "who is no member any more commits nothing",
    "C3": "no commit passes a record that nobody was given",
    "T1": "a transaction is there as a whole or not at all",
    "T2": "nobody is shown what is not decided",
    "T4": "what comes late changes no other transaction",
    "T5": "who was fenced writes and ends nothing any more",
    "T6": "what is consumed and produced in transactions is there once",
    "T9": "each transaction is decided in its time",
    "M1": "topics are linearizable",
    "M2": "configurations are linearizable",
    "M4": "what controllers decided stays decided",
}
"""What does not hold any more where a bug is planted."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The run of ``quorate verify run`` that shows a mutant, and stays green without it.

    Attributes:
        workloads: what is done meanwhile.
        faults: what ``--faults`` is told.
        seconds: how long; scenarios that are directed take their own time.
        options: further words of the command line.
        controllers: how many; one, where they have no part in it.
        rate_per_s: how much clients do; no more than what shows it, for the sake of time.
    """

    workloads: tuple[str, ...]
    faults: tuple[str, ...]
    seconds: int
    options: tuple[str, ...] = ()
    controllers: int = 1
    rate_per_s: int = 200


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug that can be planted in a process.

    Attributes:
        name: of ``--inject-bug``.
        breaks: a sentence: what goes wrong.
        properties: which of :data:`PROPERTIES` do not hold any more.
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
