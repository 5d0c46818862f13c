"""``python -m quorate.jepsen.mutants.launch NAME -- WORDS``: the quorate command with a bug.

Only the process itself has the bug, and the product knows nothing of it.
"""

import runpy
import sys
from collections.abc import Sequence
from typing import Final

from quorate.errors import QuorateError
from quorate.jepsen.mutants.patching import Patches
from quorate.jepsen.mutants.registry import MUTANTS

PROGRAM: Final = "quorate.tools.cli"
SEPARATOR: Final = "--"
USAGE: Final = "usage: python -m quorate.jepsen.mutants.launch NAME -- WORDS...\n"
EXIT_USAGE: Final = 2


class UnknownMutantError(QuorateError):
    """There is no mutant of that name."""


def arm(name: str, patches: Patches) -> None:
    """Plant a bug in this process.

    Raises:
        UnknownMutantError: there is none of that name.
        UnarmedError: what it would break is not there any more.
    """
    mutant = MUTANTS.get(name)
    if mutant is None:
        raise UnknownMutantError(f"no mutant is called {name!r}; there are {', '.join(MUTANTS)}")
    mutant.arm(patches)


def main(arguments: Sequence[str]) -> None:
    """Plant a bug, then be the quorate command."""
    if arguments[1:2] != [SEPARATOR]:
        sys.stderr.write(USAGE)
        sys.exit(EXIT_USAGE)
    arm(arguments[0], Patches())
    sys.argv[1:] = arguments[2:]
    runpy.run_module(PROGRAM, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
