"""Runs seeds of simulated brokers by the thousand whose topic is made anew; or one of them.

    python -m tests.simulation.replication.recreating_campaign --count 1000 --jobs 2
    python -m tests.simulation.replication.recreating_campaign --seed 4711

The worlds are those of the plain campaign, but the topic is deleted and made again, under the same
name and another id, whatever else happens.
"""

import sys
from dataclasses import replace
from typing import Final

from tests.simulation.campaign import Simulation, main
from tests.simulation.replication.campaign import SHOWN
from tests.simulation.replication.run import run
from tests.simulation.replication.scenario import SHAPES, draw, shape_of
from tests.simulation.report import PLAIN, Look, Report


def run_seed(seed: int) -> Report:
    """Run a seed as it comes."""
    return look_at_seed(seed, PLAIN)


def look_at_seed(seed: int, look: Look) -> Report:
    """Run a seed, and look how it goes."""
    return run(seed, replace(draw(seed), recreated=True), look)


RECREATIONS: Final = Simulation(
    __doc__,
    run_seed,
    look_at_seed,
    shape_of,
    SHAPES,
    (*SHOWN, ("deletions and creations", ("recreator",))),
)

if __name__ == "__main__":
    sys.exit(main(RECREATIONS))
