"""`python -m quorate.tools.bench`: the command line, from a checkout of the repository."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from quorate.tools.bench import command, command_line

    command_line.run(command.main)
