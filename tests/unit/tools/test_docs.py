"""The pages lead where they say, and their commands are such as there are."""

import re
import shlex
from itertools import dropwhile, takewhile
from pathlib import Path

import pytest

from tests.unit.tools.test_examples import understood

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "jepsen" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(?:console|sh|text)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
KAFKA_TOOL = re.compile(r"quorate kafka-")


def commands_of(page: Path) -> list[str]:
    """Return the lines of a page's blocks that begin with a prompt and call quorate."""
    lines = [line for block in BLOCK.findall(page.read_text()) for line in block.splitlines()]
    typed = [line.partition("$ ")[2] for line in lines if re.match(r"[\w-]*\$ ", line)]
    return [line for line in typed if re.search(r"(^|[ |(])quorate ", line)]


COMMANDS = [
    (page.relative_to(ROOT).as_posix(), line) for page in PAGES for line in commands_of(page)
]


def words_of(line: str) -> list[str]:
    """Return the words behind the first quorate of a line, up to what the shell makes of it."""
    words = shlex.shlex(line, posix=True, punctuation_chars="|<>;&()")
    words.whitespace_split = True
    words.commenters = "#"
    said = dropwhile(lambda word: word != "quorate", words)
    ends = {"|", "<", ">", ">>", ")", ";", "&"}
    return list(takewhile(lambda word: word not in ends, said))[1:]


def test_there_are_commands_on_the_pages() -> None:
    assert len(COMMANDS) >= 90


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_of_a_page_is_one_that_there_is(page: str, line: str) -> None:
    words = words_of(line.replace("<the voter's>", "ID").replace(" ...", ""))
    if KAFKA_TOOL.search(line) or words == ["--help"]:
        return
    assert understood(words), f"{page}: {line}"


def test_every_page_has_its_place_in_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in PAGES if "docs" in page.parts]
    assert [page for page in pages if f": {page}" not in site] == []


@pytest.mark.parametrize("page", [page.relative_to(ROOT).as_posix() for page in PAGES])
def test_what_a_page_links_to_is_there(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in LINK.findall(re.sub(r"`[^`]*`", "", text)):
        path, _, _ = target.partition("#")
        if path and "://" not in path:
            assert ((ROOT / page).parent / path).exists(), f"{page} links to {target}"
