"""Our shims say what Kafka's own tools say: against their golden text, and against them anew."""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import closing
from tempfile import TemporaryFile

import pytest

from quorate.tools.cli import run_command
from tests.compat import shim_steps
from tests.compat.clients.agent import Java
from tests.compat.peers import nodes
from tests.compat.shim_steps import STEPS, Said, golden, run_all

pytestmark = [
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


def ours(tool: str, words: Sequence[str], stdin: str) -> Said:
    """Run a shim in a fork of this process, which need not import anything again."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        child = os.fork()
        if child == 0:
            for number, file in enumerate((given, out, err)):
                os.dup2(file.fileno(), number)
            sys.stdin = os.fdopen(0)
            sys.stdout, sys.stderr = (os.fdopen(number, "w") for number in (1, 2))
            code = 70
            try:
                code = run_command([tool, *words])
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return Said(os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode())


@pytest.fixture(scope="module")
def bootstrap() -> Generator[str]:
    with nodes.quorate(properties=shim_steps.UNVERIFIED) as node:
        yield node.bootstrap


def test_shims_print_kafkas_text(bootstrap: str) -> None:
    said = run_all(bootstrap, ours)
    for step, mine, theirs in zip(STEPS, said, golden(), strict=True):
        assert (mine.status, mine.out) == (theirs.status, theirs.out), (step, mine, theirs)
        if step.tool == "kafka-transactions" and "usage: " not in theirs.err:
            assert mine.err == theirs.err, step


@pytest.mark.client("Kafka's tools")
@pytest.mark.usefixtures("jvm")  # so that it is skipped where there is no Java
def test_the_golden_text_is_what_kafkas_tools_say() -> None:
    """In a JVM of its own: twenty of the tools leave a client that asks their node for ever."""
    java = Java()

    def theirs(tool: str, words: Sequence[str], stdin: str) -> Said:
        done = java.tool(shim_steps.MAINS[tool], *words, stdin=stdin)
        return Said(done.status, done.stdout, done.stderr)

    with closing(java), nodes.quorate(properties=shim_steps.UNVERIFIED) as node:
        said = run_all(node.bootstrap, theirs)
    for step, new, old in zip(STEPS, said, golden(), strict=True):
        assert (new.status, new.out) == (old.status, old.out), step
