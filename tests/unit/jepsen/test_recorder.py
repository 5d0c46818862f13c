"""The history that many threads write at once."""

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quorate.jepsen.history import Kind
from quorate.jepsen.reading import HistoryFile
from quorate.jepsen.recorder import FIRST_CLIENT, Call, HistoryEndedError, Recorder, Scribe


def recorded(tmp_path: Path) -> tuple[Recorder, Path]:
    path = tmp_path / "history.cbor"
    return Recorder(path, {"seed": 1}), path


def test_a_scribe_goes_on_as_somebody_else_after_an_unknown_end(tmp_path: Path) -> None:
    recorder, path = recorded(tmp_path)
    scribe = Scribe(recorder)
    scribe.begin("commit", 1)
    scribe.end(Kind.INFO, "commit")
    scribe.tell("phase", "end")
    recorder.close()
    first, second = HistoryFile(path).operations()
    assert (first.process, second.process) == (FIRST_CLIENT, FIRST_CLIENT + 1)


def test_a_call_has_the_number_of_one_that_has_ended_and_is_known(tmp_path: Path) -> None:
    recorder, path = recorded(tmp_path)
    done, lost = Call(recorder, "send", 1), Call(recorder, "send", 2)
    done.end(Kind.OK, 7)
    lost.end(Kind.INFO)
    Call(recorder, "send", 3).end(Kind.FAIL)
    Call(recorder, "send", 4).end(Kind.OK)
    recorder.close()
    numbers = {operation.asked: operation.process for operation in HistoryFile(path).operations()}
    assert numbers == {1: 3, 2: 4, 3: 3, 4: 3}


def test_parts_of_a_recorder_count_for_themselves_and_share_the_history(tmp_path: Path) -> None:
    recorder, path = recorded(tmp_path)
    one, other = recorder.part(), recorder.part()
    Call(one, "send", 1).end(Kind.OK)
    Call(other, "send", 2).end(Kind.OK)
    Call(other, "send", 3).end(Kind.OK)
    counts = [part.count("send", Kind.OK) for part in (recorder, one, other)]
    recorder.close()
    assert counts == [0, 1, 2]
    assert [operation.asked for operation in HistoryFile(path).operations()] == [1, 2, 3]


def test_what_ends_after_the_history_did_is_not_noted(tmp_path: Path) -> None:
    recorder, path = recorded(tmp_path)
    late = Call(recorder, "send", 1)
    recorder.close()
    late.end(Kind.OK)
    assert [operation.kind for operation in HistoryFile(path).operations()] == [Kind.INFO]


@contextmanager
def no_file_longer_than(size_bytes: int) -> Generator[None]:
    """What the system does then is what it does on a full disk: the first bytes are taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("left_bytes", range(4))
def test_a_history_that_cannot_be_written_ends_there_and_whoever_asks_is_told(
    tmp_path: Path, left_bytes: int
) -> None:
    recorder, path = recorded(tmp_path)
    call = Call(recorder, "send", 1)
    recorder.check()
    with no_file_longer_than(path.stat().st_size + left_bytes):
        call.end(Kind.OK)
        Call(recorder, "send", 2).end(Kind.OK)
    Call(recorder, "send", 3).end(Kind.OK)
    with pytest.raises(HistoryEndedError):
        recorder.check()
    recorder.close()
    assert recorder.count("send", Kind.OK) == 0
    (begun,) = HistoryFile(path).operations()
    assert (begun.asked, begun.kind) == (1, Kind.INFO)
