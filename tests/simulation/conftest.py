"""Who runs the seeds of simulations."""

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context

import pytest


@pytest.fixture(scope="session")
def workers() -> Iterator[Executor]:
    """Give processes that run seeds, as many at once as there are cores."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        yield pool
