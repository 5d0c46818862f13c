"""A copier comes past what nobody is given: markers alone make no transaction, and stop nobody."""

from collections.abc import Generator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quorate.jepsen.clients import committed
from quorate.jepsen.clients.committed_reading import Chunk
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder
from quorate.jepsen.workloads import transacting
from quorate.jepsen.workloads.transacting import Copier, Place
from quorate.model import TopicPartition

FROM = TopicPartition("t", 0)
TO = TopicPartition("copied", 0)
CHUNKS = {3: Chunk([], [], 4, 9), 4: Chunk([5, 6], [50, 60], 9, 9), 7: Chunk([], [], 7, 9)}


@pytest.fixture
def copier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Copier]:
    def fetched(*_: Any, **__: Any) -> dict[TopicPartition, committed.Committed]:
        return {FROM: committed.Committed(3)}

    def read(_raw: object, _where: TopicPartition, place: int) -> Chunk:
        return CHUNKS[place]

    monkeypatch.setattr(committed, "fetch", fetched)
    monkeypatch.setattr(transacting, "read_chunk", read)
    recorder = Recorder(tmp_path / "history.cbor", {})

    def never(_transactional_id: str) -> Any:
        raise AssertionError("nobody sends anything")

    place = Place(recorder, "127.0.0.1:1", never)
    yield Copier(place, "id", Random(0), 0.0, "group", {FROM: TO})
    recorder.close()


def test_a_copier_goes_on_behind_markers_and_commits_no_offset_for_them(copier: Copier) -> None:
    assert copier.draft() is None  # a segment that ends with a marker is read up to there
    draft = copier.draft()
    assert draft is not None
    assert dict(draft.offsets) == {FROM: 7}
    assert [(where, note[2]) for where, note in draft.writes] == [(TO, 50), (TO, 60)]


def test_what_is_not_yet_committed_is_looked_for_again_at_the_same_place(copier: Copier) -> None:
    copier.draft()
    draft = copier.draft()
    assert draft is not None
    copier.ended(draft, Kind.OK)
    assert copier.draft() is None
    assert copier.draft() is None
