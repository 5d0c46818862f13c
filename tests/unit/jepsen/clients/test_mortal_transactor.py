"""Producers in processes of their own, which die when they are told to, and by nothing else."""

import os
import signal
from collections.abc import Generator

import pytest

from quorate.jepsen.clients.mortal_process import Birth
from quorate.jepsen.clients.mortal_transactor import (
    Breeder,
    BrokenProcessError,
    MortalTransactor,
)
from quorate.jepsen.clients.mortality import NEVER, Doom
from quorate.jepsen.clients.transacting import SpoiledError
from quorate.jepsen.history import Kind

NOBODY = "127.0.0.1:1"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def breeder() -> Generator[Breeder]:
    made = Breeder()
    yield made
    made.close()


def test_a_producer_that_dies_at_its_moment_says_so_and_is_of_no_more_use(breeder: Breeder) -> None:
    died: list[tuple[str, str]] = []
    doom = Doom("before-init", 0.0, 0.0)
    birth = Birth("own", NOBODY, "t", doom)
    producer = MortalTransactor(breeder, birth, lambda d, asked: died.append((d.moment, asked)))
    with pytest.raises(SpoiledError, match="before-init"):
        producer.open()
    assert died == [("before-init", "open")]
    with pytest.raises(SpoiledError, match="has ended"):
        producer.write([])
    assert producer.commit() is Kind.INFO
    assert not producer.abort()
    producer.close()


def test_a_producer_that_ends_otherwise_is_an_error_of_the_client(breeder: Breeder) -> None:
    birth = Birth("own", NOBODY, "t", NEVER)
    producer = MortalTransactor(breeder, birth, lambda _, asked: pytest.fail(asked))
    os.kill(producer.pid, signal.SIGKILL)
    with pytest.raises(BrokenProcessError, match="by itself"):
        producer.open()


def test_what_a_client_does_not_know_as_an_error_is_told(breeder: Breeder) -> None:
    birth = Birth("own", NOBODY, "t", NEVER)
    producer = MortalTransactor(breeder, birth, lambda _, asked: pytest.fail(asked))
    with pytest.raises(BrokenProcessError, match="AssertionError"):
        producer.write([])  # it was never opened
