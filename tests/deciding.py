"""What of the sources decides, as the import contract has it: that is to be covered completely.

Prints what ``coverage report --include`` takes: ``python -m tests.deciding``.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTRACT = "Sub-packages decide, shells act"
FOLDERS = ("quorum", "broker", "client", "tools", "jepsen")
"""Which coverage reports as they lie in the repository, not below quorate/."""


def deciding_patterns(project: str) -> list[str]:
    """Return patterns of the files that may not wait, given the text of pyproject.toml."""
    contracts = tomllib.loads(project)["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["name"].startswith(CONTRACT))
    return [pattern for module in contract["source_modules"] for pattern in _files_of(module)]


def _files_of(module: str) -> tuple[str, str]:
    """Return where a module's file is, and the files of the package if it is one."""
    names = module.split(".")
    path = "/".join(names[1:] if names[1] in FOLDERS else names)
    return f"{path}.py", f"{path}/*"


def main() -> None:
    """Print the patterns of this repository."""
    sys.stdout.write(",".join(deciding_patterns((ROOT / "pyproject.toml").read_text())) + "\n")


if __name__ == "__main__":
    main()
