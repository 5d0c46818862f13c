"""The pages lead where they say, and their commands are such as there are."""

import re
import shlex
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from quorate.tools.arguments import NOUNS, VERBS
from quorate.tools.cli import COMMANDS as COMMAND_NAMES
from quorate.tools.cli import KAFKA_TOOLS, app
from tests.pasted import GIVEN, INSTEAD, NOT_RUN, WAYS
from tests.typed import PAGES, ROOT, TYPED, name_of, without_prompt
from tests.unit.tools.test_examples import understood

LINK = re.compile(r"\]\(([^)\s]+)\)")
KAFKA_TOOL = re.compile(r"quorate kafka-")
QUOTED = re.compile(r"`quorate ([a-z][-a-z ]*[a-z])(?=[ `])")
COMMANDS = [
    (page, line)
    for page, lines in TYPED.items()
    for line in lines
    if re.search(r"(^|[ |(])quorate ", line)
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
    words = words_of(line)
    if KAFKA_TOOL.search(line) or words == ["--help"]:
        return
    assert understood(words), f"{page}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_command_stands_behind_a_prompt_where_a_test_finds_it(page: Path) -> None:
    found = without_prompt(page.read_text())
    assert found == [], "write commands in a block, ```bash; or ```console, each behind '$ '"


def test_what_is_said_about_commands_is_about_some_that_there_are() -> None:
    typed = {line for lines in TYPED.values() for line in lines}
    about = {*NOT_RUN, *WAYS}
    assert about - typed == set(), "tests/pasted.py has rows whose command no page has any more"
    assert set(NOT_RUN) & set(WAYS) == set()
    assert set(GIVEN) - set(TYPED) == set()
    assert [words for words in INSTEAD if not any(words in line for line in typed)] == []
    assert [line for line, reason in NOT_RUN.items() if not reason] == []


def is_a_command(words: list[str]) -> bool:
    """Tell whether words begin with a command, or name a group of them."""
    noun = NOUNS.get(words[0], words[0])
    if noun not in COMMAND_NAMES:
        return noun in KAFKA_TOOLS
    top: Any = typer.main.get_command(app)
    inner = getattr(top.get_command(None, noun), "commands", None)
    return inner is None or len(words) == 1 or VERBS.get(words[1], words[1]) in inner


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_command_within_a_sentence_is_one_that_there_is(page: Path) -> None:
    quoted = [words.split() for words in QUOTED.findall(page.read_text())]
    assert [words for words in quoted if not is_a_command(words)] == []


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
