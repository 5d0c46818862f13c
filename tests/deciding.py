"""What of the sources decides, as the import contract has it: that is to be covered completely.

Prints what ``coverage report --include`` takes: ``python -m tests.deciding``; with ``--omit``, what
that option takes.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTRACT = "Sub-packages decide, shells act"
CONNECTOR = "quorate.client.spark."
FOLDERS = ("quorum", "broker", "client", "tools", "jepsen")
"""Which coverage reports as they lie in the repository, not below quorate/."""


def deciding_patterns(project: str) -> list[str]:
    """Return patterns of the files that may not wait, given the text of pyproject.toml."""
    contracts = tomllib.loads(project)["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["name"].startswith(CONTRACT))
    return [pattern for module in contract["source_modules"] for pattern in _files_of(module)]


def shell_patterns(project: str) -> list[str]:
    """Return the files among these that wait all the same: the connector's, in Spark's process."""
    contracts = tomllib.loads(project)["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["name"].startswith(CONTRACT))
    modules = {each.partition(" -> ")[0] for each in contract["ignore_imports"]}
    return sorted(_files_of(module)[0] for module in modules if module.startswith(CONNECTOR))


def _files_of(module: str) -> tuple[str, str]:
    """Return where a module's file is, and the files of the package if it is one."""
    names = module.split(".")
    path = "/".join(names[1:] if names[1] in FOLDERS else names)
    return f"{path}.py", f"{path}/*"


def main() -> None:
    """Print the patterns of this repository."""
    patterns = shell_patterns if "--omit" in sys.argv else deciding_patterns
    sys.stdout.write(",".join(patterns((ROOT / "pyproject.toml").read_text())) + "\n")


if __name__ == "__main__":
    main()
