"""The history that many threads write at once."""

from pathlib import Path

from quorate.jepsen.history import Kind
from quorate.jepsen.reading import HistoryFile
from quorate.jepsen.recorder import FIRST_CLIENT, Call, Recorder, Scribe


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
