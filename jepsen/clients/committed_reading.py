"""Reads what transactions have committed, by the aborted ones that brokers name."""

import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.rereading import (
    AGAIN_S,
    COMMITTED,
    RECORDS_BYTES_MAX,
    UnreadableError,
    fetch,
    list_offset,
)
from quorate.jepsen.clients.values import decode
from quorate.jepsen.clients.wire import (
    EARLIEST,
    LATEST,
    ClosedError,
    StoredBatch,
    WrongLogError,
    split_batches,
)
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe
from quorate.model import TopicPartition
from quorate.protocol.messages.data import AbortedTransaction, PartitionData
from quorate.records.control import read_end_marker
from quorate.records.record import read_records

LOST_PLACE: Final = -1
NOT_NOW: Final = (NotNowError, ClosedError, WrongLogError)


class Chunk(NamedTuple):
    """What is committed from some offset on.

    ``following`` is where to read on, ``last_stable`` where what is decided ends.
    """

    offsets: list[int]
    values: list[int]
    following: int
    last_stable: int


def read_chunk(raw: Raw, where: TopicPartition, place: int) -> Chunk:
    """Read from an offset on, what is committed only.

    Raises:
        NotNowError, ClosedError, WrongLogError: not now, or what came is damaged.
    """
    answer = fetch(raw, where, place, isolation=COMMITTED)
    chunk = Chunk([], [], place, answer.last_stable_offset)
    for batch in committed_batches(where, answer):
        chunk = chunk._replace(following=max(place, batch.header.next_offset))
        if batch.data:
            for record in read_records(
                batch.data, batch.header, where, bytes_max=RECORDS_BYTES_MAX
            ):
                if record.offset >= place:
                    chunk.offsets.append(record.offset)
                    chunk.values.append(decode(record.value))
    return chunk


def committed_batches(where: TopicPartition, answer: PartitionData) -> Iterator[StoredBatch]:
    """Yield the batches of an answer; without data those that no consumer is given."""
    aborted = _by_first(answer.aborted_transactions or ())
    undone: set[int] = set()
    for batch in split_batches(where, bytes(cast("bytes", answer.records or b""))):
        header = batch.header
        while aborted and aborted[-1].first_offset <= header.last_offset:
            undone.add(aborted.pop().producer_id)
        if header.is_control:
            marker = read_end_marker(batch.data, header)
            if marker is not None and not marker.committed:
                undone.discard(header.producer_id)
            yield StoredBatch(header, b"")
        elif header.is_transactional and header.producer_id in undone:
            yield StoredBatch(header, b"")
        else:
            yield batch


def _by_first(aborted: Sequence[AbortedTransaction]) -> list[AbortedTransaction]:
    """Return them so that the one that began first is the last."""
    return sorted(aborted, key=lambda each: each.first_offset, reverse=True)


def has_more(raw: Raw, where: TopicPartition, place: int) -> bool:
    """Return whether something is committed from an offset on.

    Raises:
        NotNowError, ClosedError, WrongLogError: not now, or what came is damaged.
    """
    end = list_offset(raw, where, LATEST, isolation=COMMITTED)
    while place < end:
        chunk = read_chunk(raw, where, place)
        if chunk.offsets:
            return True
        if chunk.following == place:
            raise NotNowError(f"nothing at {place} of {end} now")
        place = chunk.following
    return False


def undecided(raw: Raw, partitions: Sequence[TopicPartition]) -> list[str]:
    """Say of which partitions not all is decided, or not known to be."""
    found: list[str] = []
    for where in partitions:
        try:
            stable = list_offset(raw, where, LATEST, isolation=COMMITTED)
            end = list_offset(raw, where, LATEST)
        except NOT_NOW as error:
            raw.forget(where.topic)
            found.append(f"{where}: {error}")
        else:
            if stable != end:
                found.append(f"{where}: the last stable offset is {stable}, the end {end}")
    return found


def read_committed(raw: Raw, where: TopicPartition, seconds_max: float) -> dict[int, int]:
    """Return the values of a partition by offset, up to the last stable offset of now.

    Raises:
        UnreadableError: not in this time.
    """
    deadline_s = time.monotonic() + seconds_max
    found: dict[int, int] = {}
    place = end = LOST_PLACE
    while end < 0 or place < end:
        try:
            if end < 0:
                end = list_offset(raw, where, LATEST, isolation=COMMITTED)
                place = list_offset(raw, where, EARLIEST)
                continue
            chunk = read_chunk(raw, where, place)
            if chunk.following == place:
                raise NotNowError(f"nothing at {place} of {end} now")
        except NOT_NOW as error:
            raw.forget(where.topic)
            if time.monotonic() > deadline_s:
                raise UnreadableError(f"{where} cannot be read to {end}: {error}") from error
            time.sleep(AGAIN_S)
        else:
            place = chunk.following
            found.update(zip(chunk.offsets, chunk.values, strict=True))
    return found


def read_back(
    recorder: Recorder, bootstrap: str, partitions: Sequence[TopicPartition], seconds_max: float
) -> list[str]:
    """Write down what is committed in the end as ``read``, and ``read-end``; return what failed."""
    scribe = Scribe(recorder)
    errors: list[str] = []
    with Raw(bootstrap) as raw:
        for where in partitions:
            open_ = bool(undecided(raw, [where]))
            scribe.begin("read", None)
            try:
                found = read_committed(raw, where, seconds_max)
            except UnreadableError as error:
                scribe.end(Kind.FAIL, "read", str(error))
                errors.append(str(error))
                continue
            scribe.end(Kind.OK, "read", [[str(where), list(found), list(found.values())]])
            if not open_:
                scribe.tell("read-end", [str(where)])
    return errors
