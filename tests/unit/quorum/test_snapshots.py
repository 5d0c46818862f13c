"""Snapshots: whole or refused."""

import zlib
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.control.codec import dump_cbor
from quorate.quorum.raft.journal_file import Entry, SnapshotEnd
from quorate.quorum.raft.simulated_storage import SimulatedStorage
from quorate.quorum.raft.snapshots import (
    FILE_NAME,
    Configuration,
    Snapshot,
    SnapshotDamagedError,
    SnapshotStore,
    decode_snapshot,
    encode_snapshot,
)
from tests.unit.quorum.cluster import voters

END = SnapshotEnd(Entry(b"\x00a", 6, 2), Entry(b"\x00b", 7, 3))
SNAPSHOT = Snapshot(END, Configuration(4, voters(1, 2)), b"state")


def test_a_snapshot_comes_back_as_it_went() -> None:
    assert decode_snapshot(encode_snapshot(SNAPSHOT)) == SNAPSHOT


@given(st.data())
def test_a_changed_or_missing_byte_is_refused(data: st.DataObject) -> None:
    content = bytearray(encode_snapshot(SNAPSHOT))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SnapshotDamagedError):
        decode_snapshot(bytes(content))
    with pytest.raises(SnapshotDamagedError):
        decode_snapshot(bytes(content[:place]))


@pytest.mark.parametrize(
    "body",
    [b"\xff", dump_cbor([1, [1], [1], b""]), dump_cbor([2]), dump_cbor([2, [1, 2], [1, 0], b""])],
)
def test_another_format_is_refused(body: bytes) -> None:
    with pytest.raises(SnapshotDamagedError):
        decode_snapshot(body + zlib.crc32(body).to_bytes(4, "little"))


def test_a_snapshot_counts_once_it_is_durable() -> None:
    storage = SimulatedStorage(Random(1))
    store = SnapshotStore(storage)
    assert store.start_flush() is None
    store.take(END, SNAPSHOT.configuration, lambda: b"state")
    work = store.start_flush()
    assert work is not None
    assert store.start_flush() is None
    assert store.busy
    assert store.durable is None
    work.run()
    store.finish_flush(work)
    assert not store.busy
    assert store.durable is not None
    assert store.durable.end == END
    assert store.start_flush() is None
    assert SnapshotStore(storage).found == SNAPSHOT
    assert store.read() == (store.durable, encode_snapshot(SNAPSHOT))
    storage.damage(FILE_NAME, 3, 0xEE)
    with pytest.raises(SnapshotDamagedError):
        SnapshotStore(storage)


def test_a_leaders_snapshot_takes_the_place_of_one_that_was_only_taken() -> None:
    storage = SimulatedStorage(Random(1))
    store = SnapshotStore(storage)
    store.take(END, SNAPSHOT.configuration, lambda: b"own")
    taken_over: list[bytes] = []

    def prepare(state: bytes) -> Callable[[], None]:
        return lambda: taken_over.append(state)

    flush = store.start_install(SNAPSHOT, encode_snapshot(SNAPSHOT), prepare)
    flush.run()
    store.finish_install(flush)
    flush.take_over()
    assert taken_over == [b"state"]
    assert store.start_flush() is None
    assert SnapshotStore(storage).found == SNAPSHOT


def test_a_state_is_made_bytes_of_once_however_often_there_is_no_space() -> None:
    frozen: list[bytes] = []

    def freeze() -> bytes:
        frozen.append(b"state")
        return b"state"

    store = SnapshotStore(SimulatedStorage(Random(1)))
    store.take(END, SNAPSHOT.configuration, freeze)
    work = store.start_flush()
    assert work is not None
    work.run()
    work.run()
    assert len(frozen) == 1


def test_a_snapshot_from_elsewhere_is_read_once_however_often_there_is_no_space() -> None:
    read: list[bytes] = []

    def prepare(state: bytes) -> Callable[[], None]:
        read.append(state)
        return lambda: None

    store = SnapshotStore(SimulatedStorage(Random(1)))
    work = store.start_install(SNAPSHOT, encode_snapshot(SNAPSHOT), prepare)
    work.run()
    work.run()
    assert read == [b"state"]
