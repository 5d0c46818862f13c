"""What the pages have somebody type (pure).

Commands stand in fenced blocks: of ``bash``, which are nothing else and can be pasted whole; or of
``console``, behind a prompt, ``$``, or ``c1$`` for a shell on another host. Behind two spaces and
``#`` comes what a reader is told about one.
"""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [
    ROOT / "README.md",
    ROOT / "jepsen" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PROMPT: Final = re.compile(r"[\w-]*\$ (.*)")
REMARK: Final = re.compile(r"\s{2,}#.*$")
FENCE: Final = re.compile(r"```(\w*)")
BARE: Final = re.compile(r"\s*(quorate|make|pip|python3?|source|\.) [-\w./]+")
SHELLS: Final = {"", "console", "sh", "shell", "text"}


def _blocks(text: str) -> list[tuple[str, list[str]]]:
    """Return the blocks of a page, each with its language; those that are indented are ""."""
    found: list[tuple[str, list[str]]] = []
    language: str | None = None
    for line in text.splitlines():
        if fence := FENCE.match(line):
            language = fence[1] if language is None else None
            found.append((fence[1], []))
        elif language is not None:
            found[-1][1].append(line)
        elif line.startswith("    "):
            found.append(("", [line]))
    return found


def commands_of(text: str) -> list[str]:
    """Return what a page has somebody type, in its order, without the remarks."""
    typed: list[str] = []
    for language, block in _blocks(text):
        if language == "bash":
            typed += [line for line in block if line and not line.startswith("#")]
        else:
            typed += [prompted[1] for line in block if (prompted := PROMPT.match(line))]
    return [REMARK.sub("", line).rstrip() for line in typed]


def without_prompt(text: str) -> list[str]:
    """Return lines of blocks that look like commands, and no test would know of."""
    lines = [line for language, block in _blocks(text) if language in SHELLS for line in block]
    return [line for line in lines if BARE.match(line)]


def name_of(page: Path) -> str:
    """Return what a page is called here: its path from the top."""
    return page.relative_to(ROOT).as_posix()


TYPED: Final = {
    name_of(page): commands for page in PAGES if (commands := commands_of(page.read_text()))
}
"""The commands of each page that has any."""
