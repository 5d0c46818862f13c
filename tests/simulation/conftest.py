"""Seeds of the simulations: other ones each time, and said at the end; and who runs them."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from random import SystemRandom

import pytest

FIRST_SEED = int(os.environ.get("QUORUM_FIRST_SEED") or SystemRandom().randrange(10**9))


@pytest.fixture(scope="session")
def workers() -> Iterator[Executor]:
    """Give processes that run seeds, as many at once as there are cores."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        yield pool


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(
        f"simulations: seeds from {FIRST_SEED} on (again with QUORUM_FIRST_SEED={FIRST_SEED})"
    )
