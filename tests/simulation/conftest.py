"""Seeds of the simulations: other ones each time, and said at the end."""

import os
from random import SystemRandom

import pytest

FIRST_SEED = int(os.environ.get("QUORUM_FIRST_SEED") or SystemRandom().randrange(10**9))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(
        f"simulations: seeds from {FIRST_SEED} on (again with QUORUM_FIRST_SEED={FIRST_SEED})"
    )
