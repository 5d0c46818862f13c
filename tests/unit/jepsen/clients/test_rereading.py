"""Only what is read in the end is a final read: of other reads less is asked."""

from pathlib import Path

import pytest

from quorate.jepsen.clients.rereading import UnreadableError, read_all
from quorate.jepsen.history import HistoryReader
from quorate.jepsen.recorder import Recorder
from quorate.model import TopicPartition

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("finally_", "asked"),
    [(True, [("read", None), ("read", None)]), (False, [("poll", 0), ("poll", 1)])],
)
def test_who_reads_while_it_goes_on_polls_and_begins_anew_after_each_failure(
    tmp_path: Path, asked: list[tuple[str, object]], *, finally_: bool
) -> None:
    path = tmp_path / "history.cbor"
    recorder = Recorder(path, {})
    with pytest.raises(UnreadableError):
        read_all(recorder, NOBODY, [TopicPartition("t", 0)], 0.5, finally_=finally_)
    recorder.close()
    with path.open("rb") as file:
        events = list(HistoryReader(file))
    assert [(event.name, event.value) for event in events[::2]][:2] == asked
