"""The proof of the harness: what became of the runs with a mutant, and of those without it (pure).

A mutant is killed by a run that finds one of its anomalies; a run that is red for another reason,
or that knows nothing, is no kill.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from quorate.dataclass import dataclass
from quorate.jepsen.mutants.mutant import Mutant

KILLED_MIN: Final = 0.9
"""In so many of the seeds, at least, a mutant must be killed."""

VALID: Final = 0
INVALID: Final = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """One run, with the bug or without.

    Attributes:
        exit_code: of ``quorate verify run``.
        anomalies: how often each was found.
        seconds: how long it took in all, the cluster's start and the verdict included.
    """

    seed: int
    planted: bool
    exit_code: int
    anomalies: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Score:
    """What became of one mutant."""

    mutant: Mutant
    trials: tuple[Trial, ...]

    @property
    def planted(self) -> list[Trial]:
        """The runs with the bug."""
        return [trial for trial in self.trials if trial.planted]

    @property
    def kills(self) -> list[Trial]:
        """Those that found it."""
        return [trial for trial in self.planted if is_killed(self.mutant, trial)]

    @property
    def clean(self) -> list[Trial]:
        """The runs without the bug."""
        return [trial for trial in self.trials if not trial.planted]

    @property
    def green(self) -> list[Trial]:
        """Those that found nothing, and have shown enough to say so."""
        return [trial for trial in self.clean if trial.exit_code == VALID]

    @property
    def is_killed(self) -> bool:
        """Whether enough runs found the bug."""
        return len(self.kills) >= KILLED_MIN * len(self.planted) > 0

    @property
    def is_proven(self) -> bool:
        """Whether enough runs found the bug, and all without it are green."""
        return self.is_killed and len(self.green) == len(self.clean)

    @property
    def seconds(self) -> float | None:
        """How long it took to find the bug, in the median."""
        return median(trial.seconds for trial in self.kills) if self.kills else None

    @property
    def found(self) -> list[str]:
        """Return what was found in runs with the bug, the anomalies that must be found first."""
        counts = Counter(name for trial in self.planted for name in trial.anomalies)
        order = {
            name: (name not in self.mutant.anomalies, -count) for name, count in counts.items()
        }
        return sorted(counts, key=lambda name: (*order[name], name))


def is_killed(mutant: Mutant, trial: Trial) -> bool:
    """Whether a run with a bug found it, and not only something."""
    return trial.exit_code == INVALID and not mutant.anomalies.isdisjoint(trial.anomalies)


def command_of(mutant: Mutant, *, seed: int, planted: bool, directory: str) -> list[str]:
    """Return the words of ``quorate`` for one run."""
    proof = mutant.proof
    words = ["verify", "run", *proof.workloads, "--time", str(proof.seconds)]
    words += ["--faults", ",".join(proof.faults), "--schedule", "single", "--seed", str(seed)]
    words += ["--controllers", str(proof.controllers), "--rate", str(proof.rate_per_s)]
    words += ["--dir", directory, *proof.options]
    return [*words, "--inject-bug", mutant.name] if planted else words


def summary(scores: Sequence[Score]) -> str:
    """Return a line about all of them."""
    killed = sum(score.is_killed for score in scores)
    seconds = [score.seconds for score in scores if score.seconds is not None]
    often = f"; found after {median(seconds):.0f} s in the median" if seconds else ""
    clean = [trial for score in scores for trial in score.clean]
    green = sum(len(score.green) for score in scores)
    beside = f"; {green} of {len(clean)} runs without a bug are green" if clean else ""
    return f"{killed} of {len(scores)} mutants are killed{often}{beside}"
