"""Runs seeds of simulated brokers by the thousand, or one of them with all that happens in it.

    python -m tests.simulation.replication.campaign --count 3000 --jobs 2
    python -m tests.simulation.replication.campaign --seed 4711

A seed is everything: what it finds, it finds again.
"""

import sys
from typing import Final

from tests.simulation.campaign import Simulation, main
from tests.simulation.replication.run import run
from tests.simulation.replication.scenario import SHAPES, draw, shape_of
from tests.simulation.report import PLAIN, Look, Report

SHOWN: Final = (
    ("crashes", ("crash",)),
    ("controlled shutdowns", ("stopped",)),
    ("records acknowledged", ("acknowledged",)),
    ("changes of metadata", ("record",)),
)


def run_seed(seed: int) -> Report:
    """Run a seed as it comes."""
    return look_at_seed(seed, PLAIN)


def look_at_seed(seed: int, look: Look) -> Report:
    """Run a seed, and look how it goes."""
    return run(seed, draw(seed), look)


BROKERS: Final = Simulation(__doc__, run_seed, look_at_seed, shape_of, SHAPES, SHOWN)

if __name__ == "__main__":
    sys.exit(main(BROKERS))
