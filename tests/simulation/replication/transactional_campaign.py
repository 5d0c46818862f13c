"""Runs seeds of simulated brokers by the thousand, with transactions; or one of them.

    python -m tests.simulation.replication.transactional_campaign --count 1000 --jobs 2
    python -m tests.simulation.replication.transactional_campaign --seed 4711

The worlds are those of the plain campaign, for a shorter time; other things happen in them, because
there are more who take part.
"""

import sys
from dataclasses import replace
from typing import Final

from tests.simulation.campaign import Simulation, main
from tests.simulation.replication.campaign import SHOWN
from tests.simulation.replication.run import run
from tests.simulation.replication.scenario import SHAPES, draw, shape_of
from tests.simulation.report import PLAIN, Look, Report

CHAOS_S: Final = 5.0


def run_seed(seed: int) -> Report:
    """Run a seed as it comes."""
    return look_at_seed(seed, PLAIN)


def look_at_seed(seed: int, look: Look) -> Report:
    """Run a seed, and look how it goes."""
    return run(seed, replace(draw(seed), transactors=1, chaos_s=CHAOS_S), look)


TRANSACTIONS: Final = Simulation(
    __doc__,
    run_seed,
    look_at_seed,
    shape_of,
    SHAPES,
    (
        *SHOWN,
        ("batches shown as committed", ("committed batches",)),
        ("batches told to be aborted", ("aborted batches",)),
    ),
)

if __name__ == "__main__":
    sys.exit(main(TRANSACTIONS))
