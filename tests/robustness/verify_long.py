"""Runs of ``quorate verify`` one after the other for hours, each with other workloads and faults.

``python -m tests.robustness.verify_long --hours 4 --seed 1``

What a run is made of is drawn from its seed. The first one that is not valid ends it all, unless
``--go-on`` says otherwise; in the end all are summed up, as docs/verification.md wants it.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.robustness.node import ROOT, environment

SECONDS: Final = 60
RUN_S_MAX: Final = 400.0
CLUSTERS: Final = ((3, 3), (3, 3), (5, 3))
"""Brokers and controllers."""
WORKLOADS: Final = (
    ("append",),
    ("groups",),
    ("idempotent",),
    ("metadata",),
    ("append", "groups"),
    ("append", "groups", "metadata"),
)
FAULTS: Final = (
    "kill,pause,restart",
    "kill,pause,partition",
    "kill,pause,restart,partition,delay",
    "kill,power,disk",
    "kill,pause,clock,membership",
    "kill,pause,restart,partition,delay,power,disk,clock,membership",
)
CLIENTS: Final = ("own", "own", "librdkafka")


@dataclass(slots=True)
class Tally:
    """What all runs came to."""

    runs: Counter[str] = field(default_factory=Counter[str])
    operations: Counter[str] = field(default_factory=Counter[str])
    faults: int = 0
    acked: int = 0
    wrong: list[str] = field(default_factory=list[str])

    def add(self, name: str, verdict: dict[str, Any]) -> None:
        """Take over what a run found."""
        validity = str(verdict.get("validity", "no verdict"))
        self.runs[validity] += 1
        for kinds in verdict.get("by_operation", {}).values():
            self.operations.update(kinds)
        self.acked += verdict.get("by_operation", {}).get("send", {}).get("ok", 0)
        self.faults += verdict.get("faults_bit", 0)
        if validity != "valid":
            found = verdict.get("anomalies") or verdict.get("notes") or verdict.get("quotas")
            self.wrong.append(f"{name}: {validity}: {found}")

    def line(self) -> str:
        """Return it for a person."""
        runs = ", ".join(f"{count} {name}" for name, count in self.runs.items())
        done = ", ".join(f"{count:,} {name}" for name, count in sorted(self.operations.items()))
        return f"runs: {runs}; operations: {done}; {self.acked:,} records; {self.faults} faults bit"


def drawn(seed: int, seconds: int) -> list[str]:
    """Return the words of a run."""
    rng = Random(seed)
    brokers, controllers = rng.choice(CLUSTERS)
    words = [*rng.choice(WORKLOADS), "--time", str(seconds), "--seed", str(seed)]
    words += ["--faults", rng.choice(FAULTS), "--client", rng.choice(CLIENTS)]
    return [*words, "--brokers", str(brokers), "--controllers", str(controllers)]


def run_one(words: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run it, and return what it says as a document."""
    command = [sys.executable, "-m", "quorate.tools.cli", "--format", "json", "verify", "run"]
    done = subprocess.run(
        [*command, *words, "--dir", str(folder)],
        stdout=subprocess.PIPE,
        env=environment({}),
        cwd=ROOT,
        timeout=RUN_S_MAX,
        check=False,
    )
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"validity": f"exit code {done.returncode}"}
    return document


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="tests.robustness.verify_long", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--dir", type=Path, default=Path("quorate-verify"))
    parser.add_argument("--go-on", action="store_true")
    chosen = parser.parse_args()
    end_s = time.monotonic() + chosen.hours * 3600
    tally, seed = Tally(), chosen.seed
    while time.monotonic() < end_s and (chosen.go_on or not tally.wrong):
        words = drawn(seed, chosen.seconds)
        tally.add(" ".join(words), run_one(words, chosen.dir))
        print(tally.line(), flush=True)  # noqa: T201
        seed += 1
    for wrong in tally.wrong:
        print(wrong)  # noqa: T201
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
