"""Which process runs which tests, where several share the work (``pytest -n 2``, pytest-xdist).

Tests of a file stay together, for they share its fixtures; so do all that talk to the one node of
``tests/compat``, and all that use the one Spark session.  What takes longest comes first: no
process is to be left alone with it at the end.
"""

from typing import Any, Final

import pytest
from xdist.scheduler import (  # pyright: ignore[reportMissingTypeStubs] - there are none
    LoadScopeScheduling,
)

TOGETHER: Final = ("tests/compat/spark/", "tests/compat/")
"""Folders whose files share fixtures."""
LONGEST_FIRST: Final = (*TOGETHER, "tests/robustness/", "tests/simulation/", "tests/integration/")


class ByPlace(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Hands out files, and the folders whose files belong together."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return next((place for place in TOGETHER if file.startswith(place)), file)


def rank(nodeid: str) -> int:
    """Return how early a test is to begin; less is earlier."""
    return next(
        (rank for rank, place in enumerate(LONGEST_FIRST) if nodeid.startswith(place)),
        len(LONGEST_FIRST),
    )


def make_scheduler(config: pytest.Config, log: Any) -> ByPlace:
    """Return the scheduler, which keeps the order of collection."""
    config.option.loadscopereorder = False
    return ByPlace(config, log)
