"""A thread of the harness that dies is told of, whichever it was."""

import threading
from pathlib import Path
from random import Random
from typing import cast

import pytest

from quorate.jepsen.clients.own import OwnReader
from quorate.jepsen.mourning import dead_threads_told
from quorate.jepsen.recorder import Recorder


def die() -> None:
    raise AssertionError("a bug of ours")


def test_a_thread_that_dies_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    usual: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", usual.append)
    told: list[str] = []
    with dead_threads_told(told.append):
        for work in (die, lambda: None):
            thread = threading.Thread(target=work, name="a producer")
            thread.start()
            thread.join()
    assert told == ["a producer died of AssertionError('a bug of ours')"]
    assert len(usual) == 1
    assert threading.excepthook == usual.append


def test_a_reader_of_ours_that_cannot_go_on_says_so(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.cbor", {})
    before = set(threading.enumerate())
    reader = OwnReader(recorder, cast("str", 7), "t", [0], Random(1))  # which is no address
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    reader.stop()
    recorder.close()
    assert len(reader.errors) == 1
