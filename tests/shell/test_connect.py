"""Files that are rotated and cut off, databases that others write, connectors that fail."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from quorate.client import connecting
from quorate.client.connect.config import Common, ConnectConfig, FileSource, SqliteSink
from quorate.client.connecting import Status, run_connectors
from quorate.client.connector import ConnectorError
from quorate.client.errors import ProducerFencedError
from quorate.client.following_files import FollowedFile
from quorate.client.sqlite_sink import SinkDatabase
from quorate.errors import NetworkError
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trio.testing import MockClock

    from quorate.client.connect.lines import Position

COMMON = Common("c", 3, 100)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.log"


def source(path: Path, **changes: Any) -> FileSource:
    whole = FileSource(COMMON, str(path), "t", None, False, 200, 100, 100, 1_000)
    return replace(whole, **changes)


class Reader:
    """Reads as the connector does, and can be started again from where it was."""

    def __init__(self, given: FileSource) -> None:
        self.source = given
        self.now_s = 0.0
        self.file = FollowedFile(given, lambda: self.now_s)
        self.position: Position | None = None
        self.notices: list[str] = []

    def lines(self, *, looks: int = 8, is_last: bool = False) -> list[bytes]:
        found: list[bytes] = []
        for _ in range(looks):
            piece = self.file.read(self.position, is_last=is_last)
            found += piece.lines
            self.position = piece.position
            if piece.notice:
                self.notices.append(piece.notice)
            if piece.is_end:
                self.now_s += self.source.poll_interval_ms / 1_000
        return found

    def start_again(self) -> None:
        self.file.__exit__()
        self.file = FollowedFile(self.source, lambda: self.now_s)


@pytest.fixture
def reader(path: Path) -> Iterator[Reader]:
    made = Reader(source(path))
    yield made
    made.file.__exit__()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_come_when_they_have_an_end(path: Path, reader: Reader) -> None:
    assert reader.lines() == []
    assert set(reader.notices) == {f"{path} is not there yet"}
    append(path, "one\ntw")
    assert reader.lines() == [b"one"]
    append(path, "o\n")
    assert reader.lines() == [b"two"]


def test_the_last_line_needs_no_end_if_nothing_will_come(path: Path, reader: Reader) -> None:
    append(path, "one\ntwo")
    assert reader.lines(is_last=True) == [b"one", b"two"]
    assert reader.file.read(reader.position, is_last=True).is_last


def test_a_large_file_comes_in_pieces(path: Path, reader: Reader) -> None:
    append(path, "x" * 9 + "\n")
    path.write_text(path.read_text() * 100)
    assert len(reader.lines(looks=5)) < 60
    reader.start_again()
    assert len(reader.lines(looks=50)) > 40


def test_it_may_begin_at_the_end(path: Path) -> None:
    append(path, "old\n")
    late = Reader(source(path, start_at_end=True))
    assert late.lines() == []
    append(path, "new\n")
    assert late.lines() == [b"new"]
    late.file.__exit__()


@pytest.mark.parametrize("again", [False, True], ids=["running", "started again"])
def test_a_file_that_is_renamed_is_read_to_its_end_and_then_the_new_one(
    path: Path, reader: Reader, *, again: bool
) -> None:
    append(path, "one\n")
    assert reader.lines() == [b"one"]
    old = path.with_name("a.log.1")
    path.rename(old)
    append(old, "two\nthree, without an end")
    if again:
        reader.start_again()
    assert reader.lines(looks=2)[:1] == [b"two"]
    append(path, "four\n")
    assert reader.lines(looks=20) == [b"three, without an end", b"four"]
    assert reader.notices == []


def test_files_that_were_renamed_while_nobody_looked_are_all_read(
    path: Path, reader: Reader
) -> None:
    append(path, "one\n")
    assert reader.lines() == [b"one"]
    reader.start_again()
    for number, text in enumerate(("two", "three"), 1):
        append(path, f"{text}\n")
        os.utime(path, (number, number))
        path.rename(path.with_name(f"a.log.{3 - number}"))
    append(path, "four\n")
    assert reader.lines(looks=30) == [b"two", b"three", b"four"]


def test_an_old_file_still_grows_for_a_while(path: Path, reader: Reader) -> None:
    append(path, "one\n")
    assert reader.lines() == [b"one"]
    old = path.with_name("a.log.1")
    path.rename(old)
    append(path, "three\n")
    assert reader.lines(looks=2) == []
    append(old, "two\n")
    assert reader.lines(looks=20) == [b"two", b"three"]


@pytest.mark.parametrize("poll_interval_ms", [1, 999, 1_000, 5_000])
def test_however_rarely_it_looks_an_old_file_is_looked_at_again_before_it_is_left(
    path: Path, poll_interval_ms: int
) -> None:
    rare = Reader(source(path, poll_interval_ms=poll_interval_ms))
    append(path, "one\n")
    assert rare.lines() == [b"one"]
    old = path.with_name("a.log.1")
    path.rename(old)
    append(path, "three\n")
    assert rare.lines(looks=1) == []
    append(old, "two\n")
    assert rare.lines(looks=3_000) == [b"two", b"three"]
    rare.file.__exit__()


def test_a_line_that_comes_just_before_a_file_is_renamed_is_not_left_behind(
    path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"one\n")
    assert reader.lines(looks=3) == [b"one"]
    pread = os.pread

    def overtaken(descriptor: int, size: int, offset: int) -> bytes:
        read = pread(descriptor, size, offset)
        if offset:
            monkeypatch.undo()
            with path.open("ab") as file:
                file.write(b"two\n")
            path.rename(f"{path}.1")
            path.write_bytes(b"three\n")
        return read

    monkeypatch.setattr(os, "pread", overtaken)
    assert reader.lines(is_last=True) == [b"two", b"three"]


def test_what_is_no_regular_file_is_refused_at_once(path: Path, reader: Reader) -> None:
    os.mkfifo(path)
    with pytest.raises(ConnectorError, match="is no regular file"):
        reader.lines()
    path.unlink()
    path.mkdir()
    with pytest.raises(ConnectorError, match="is no regular file"):
        reader.lines()


@pytest.mark.parametrize("again", [False, True], ids=["running", "started again"])
def test_a_file_that_is_cut_off_is_read_from_its_beginning(
    path: Path, reader: Reader, *, again: bool
) -> None:
    append(path, "one\n")
    assert reader.lines() == [b"one"]
    path.write_text("2\n")
    if again:
        reader.start_again()
    assert reader.lines() == [b"2"]
    path.write_text("much longer than it was\n")
    assert reader.lines() == [b"much longer than it was"]
    assert len(reader.notices) == 2
    assert "was cut off" in reader.notices[0]


def test_a_file_that_is_gone_is_told(path: Path, reader: Reader) -> None:
    append(path, "one\n")
    reader.lines()
    reader.start_again()
    path.rename(path.with_name("elsewhere"))
    append(path, "two\n")
    assert reader.lines() == [b"two"]
    assert "perhaps with lines behind byte 4" in reader.notices[0]
    path.rename(path.with_name("there"))
    reader.start_again()
    assert reader.lines() == []


def test_a_file_that_is_not_there_when_it_starts_again_is_read_from_its_beginning(
    path: Path,
) -> None:
    late = Reader(source(path, start_at_end=True))
    append(path, "old\n")
    late.lines()
    append(path, "one\n")
    assert late.lines() == [b"one"]
    path.unlink()
    late.start_again()
    assert late.lines() == []
    append(path, "two\n")
    assert late.lines() == [b"two"]
    late.file.__exit__()


def test_an_old_file_is_found_beside_one_that_is_just_removed(
    path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(path, "one\n")
    assert reader.lines() == [b"one"]
    reader.start_again()
    append(path, "two\n")
    path.rename(path.with_name("a.log.1"))
    append(path, "three\n")
    removed = path.with_name("a.log.7")
    append(removed, "zero\n")

    def remove(folder: Path) -> Any:
        with scandir(folder) as entries:
            found = list(entries)
        removed.unlink(missing_ok=True)
        return nullcontext(found)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", remove)
    assert reader.lines(looks=20) == [b"two", b"three"]
    assert reader.notices == []


# SQLite

P0 = TopicPartition("t", 0)


def sink(tmp_path: Path) -> SqliteSink:
    return SqliteSink(COMMON, ("t",), str(tmp_path / "a.db"), "rows", (), False, 10)


def row(offset: int) -> tuple[Any, ...]:
    return ("t", 0, offset, 1, None, "v")


def test_rows_and_offsets_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    with closing(SinkDatabase(sink(tmp_path))) as database:
        assert database.prepare() == {}
        database.write([row(0)], {}, {P0: 1})
        with pytest.raises(sqlite3.Error):
            database.write([row(1), ("t",)], {P0: 1}, {P0: 3})
        assert database.prepare() == {P0: 1}
        database.write([row(1)], {P0: 1}, {P0: 2})
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        assert connection.execute('SELECT "offset" FROM rows').fetchall() == [(0,), (1,)]


def test_of_two_runners_of_one_connector_one_hears_of_the_other(tmp_path: Path) -> None:
    with (
        closing(SinkDatabase(sink(tmp_path))) as first,
        closing(SinkDatabase(sink(tmp_path))) as second,
    ):
        assert first.prepare() == second.prepare() == {}
        first.write([row(0)], {}, {P0: 1})
        with pytest.raises(ConnectorError, match="another runner writes"):
            second.write([row(0)], {}, {P0: 1})
        first.write([row(1)], {P0: 1}, {P0: 2})
        with pytest.raises(ConnectorError, match="another runner writes"):
            second.write([row(7)], {P0: 1}, {P0: 8})
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        assert connection.execute('SELECT "offset" FROM rows').fetchall() == [(0,), (1,)]


def test_a_table_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE rows (Topic, partition, offset, value)")
    with (
        closing(SinkDatabase(sink(tmp_path))) as database,
        pytest.raises(ConnectorError, match="has no column key, timestamp_ms"),
    ):
        database.prepare()


def test_a_table_without_the_key_of_rows_is_refused_at_once(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE rows (topic, partition, offset, timestamp_ms, key, value)")
    with (
        closing(SinkDatabase(sink(tmp_path))) as database,
        pytest.raises(ConnectorError, match=r"needs PRIMARY KEY \(topic, partition, offset\)"),
    ):
        database.prepare()


def test_a_table_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    reserved = replace(sink(tmp_path), table="sqlite_rows")
    with (
        closing(SinkDatabase(reserved)) as database,
        pytest.raises(ConnectorError, match="cannot be made: object name reserved"),
    ):
        database.prepare()


def test_a_database_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    nowhere = replace(sink(tmp_path), database=str(tmp_path / "none" / "a.db"))
    with pytest.raises(sqlite3.OperationalError, match=r"none/a\.db: unable to open"):
        SinkDatabase(nowhere)


def test_another_topic_of_the_same_name_is_refused(tmp_path: Path) -> None:
    with closing(SinkDatabase(sink(tmp_path))) as database:
        database.prepare()
        database.know_topic("t", "aa")
        database.know_topic("t", "aa")
        with pytest.raises(ConnectorError, match="'t' was deleted and created again"):
            database.know_topic("t", "bb")


# Connectors that fail


async def supervised(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *errors: Exception | None
) -> tuple[Status, list[str]]:
    """Run a connector that fails in these ways, and then is done."""
    left = list(errors)

    async def carry(_: object, context: Any) -> None:
        await trio.lowlevel.checkpoint()
        error = left.pop(0) if left else None
        if error is not None:
            raise error
        context.counted.records += 1

    monkeypatch.setattr(connecting, "run_sqlite_sink", carry)
    statuses: list[Status] = []
    told: list[str] = []
    config = ConnectConfig(None, "o", (sink(tmp_path),))
    await run_connectors(
        config, "h:1", {}, once=True, tell=lambda _, text: told.append(text), statuses=statuses
    )
    return statuses[0], told


async def test_what_may_pass_is_tried_again_with_longer_and_longer_pauses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, autojump_clock: MockClock
) -> None:
    slow = ProducerFencedError("a pause")
    slow.took_too_long = True
    passing = [NetworkError("gone"), OSError("gone"), slow]
    status, told = await supervised(monkeypatch, tmp_path, *passing)
    assert (status.state, status.records, status.restarts) == ("done", 1, 3)
    assert [text.partition(":")[0] for text in told] == [
        f"starts again in {pause} ms" for pause in (100, 200, 400)
    ]


async def test_a_locked_database_may_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, autojump_clock: MockClock
) -> None:
    status, _ = await supervised(monkeypatch, tmp_path, sqlite3.OperationalError("locked"))
    assert (status.state, status.restarts) == ("done", 1)


async def test_it_is_not_tried_for_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, autojump_clock: MockClock
) -> None:
    status, _ = await supervised(monkeypatch, tmp_path, *[NetworkError("gone")] * 4)
    assert (status.state, status.restarts) == ("failed", 3)
    assert status.error.startswith("gone")


@pytest.mark.parametrize(
    "error",
    [ConnectorError("no"), ProducerFencedError("no"), sqlite3.DatabaseError("no")],
    ids=lambda error: type(error).__name__,
)
async def test_what_does_not_pass_fails_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    status, told = await supervised(monkeypatch, tmp_path, error)
    assert (status.state, status.restarts, len(told)) == ("failed", 0, 1)
    assert told[0].startswith("failed: no")


async def test_a_cancelled_connector_was_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def carry(_: object, __: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(connecting, "run_file_source", carry)
    statuses: list[Status] = []
    config = ConnectConfig(None, "o", (source(tmp_path / "a"),))
    with trio.move_on_after(1):
        await run_connectors(
            config, "h:1", {}, once=False, tell=lambda _, __: None, statuses=statuses
        )
    assert statuses[0].state == "stopped"
