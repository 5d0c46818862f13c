"""The rule "100 % of what decides" is about the files that it should be about."""

from fnmatch import fnmatch

import pytest

from tests.deciding import ROOT, deciding_patterns, shell_patterns

PROJECT = (ROOT / "pyproject.toml").read_text()
PATTERNS = deciding_patterns(PROJECT)
SHELLS = shell_patterns(PROJECT)


def is_covered(path: str) -> bool:
    assert (ROOT / path).exists(), "the example is a file of ours"
    return path not in SHELLS and any(fnmatch(path, pattern) for pattern in PATTERNS)


@pytest.mark.parametrize(
    "path",
    [
        "broker/log/log.py",
        "broker/handlers/produce.py",
        "quorum/raft/rounds.py",
        "client/sending/batches.py",
        "client/spark/plan.py",
        "quorate/model.py",
        "quorate/protocol/apis.py",
        "quorate/protocol/messages/topics.py",
    ],
)
def test_what_decides_is_to_be_covered_completely(path: str) -> None:
    assert is_covered(path)


@pytest.mark.parametrize(
    "path",
    [
        "broker/server.py",
        "client/spark/reading.py",
        "quorum/raft_node.py",
        "quorate/net/reactor.py",
        "tools/node.py",
    ],
)
def test_shells_are_not(path: str) -> None:
    assert not is_covered(path)
