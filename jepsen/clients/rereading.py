"""Reads partitions from their start to a stable end, through their leaders, as nobody before."""

import time
from collections.abc import Iterator, Sequence
from typing import Final, cast

from quorate.errors import ErrorCode, QuorateError, known_code
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.values import decode
from quorate.jepsen.clients.wire import (
    EARLIEST,
    FETCH_BYTES,
    FETCH_VERSION,
    LATEST,
    LIST_OFFSETS_VERSION,
    ClosedError,
    WrongLogError,
    split_batches,
)
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe
from quorate.model import TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionData,
)
from quorate.records.record import read_records

STABLE_S: Final = 1.0
"""A partition has come to its end if that has been the same for so long."""
AGAIN_S: Final = 0.1
RECORDS_BYTES_MAX: Final = 1 << 30
UNCOMMITTED, COMMITTED = 0, 1
"""Isolation levels, as the protocol has them."""

Read = tuple[list[int], list[int]]
"""Offsets and values."""


class UnreadableError(QuorateError):
    """A partition could not be read to its end in time; says why."""


def read_all(
    recorder: Recorder,
    bootstrap: str,
    partitions: Sequence[TopicPartition],
    seconds_max: float,
    *,
    finally_: bool = True,
) -> None:
    """Write all of these partitions down, as ``read``, or as ``poll`` if it is not in the end.

    Raises:
        UnreadableError: it was not possible in time; what was read is written down.
    """
    deadline_s = time.monotonic() + seconds_max
    diary = _Diary(recorder, is_final=finally_)
    with Raw(bootstrap) as raw:
        begun_s = time.monotonic()
        ends = {where: _read(raw, diary, where, -1, deadline_s) for where in partitions}
        time.sleep(max(0.0, begun_s + STABLE_S - time.monotonic()))
        while ends:  # what came meanwhile; nothing should
            ends = {
                where: end
                for where, before in ends.items()
                if (end := _read(raw, diary, where, before, deadline_s)) != before
            }


class _Diary:
    """Writes down what somebody reads; a poll is of another assignment after each failure.

    After that it may be shown by a broker that knows less than the one before.
    """

    def __init__(self, recorder: Recorder, *, is_final: bool) -> None:
        self._scribe = Scribe(recorder)
        self._name = "read" if is_final else "poll"
        self._assignment = None if is_final else 0

    def begin(self) -> None:
        """Note that something is to be read."""
        self._scribe.begin(self._name, self._assignment)

    def end(self, told: list[object]) -> None:
        """Note what was read."""
        self._scribe.end(Kind.OK, self._name, told)

    def fail(self, why: str) -> None:
        """Note that nothing was."""
        self._scribe.end(Kind.FAIL, self._name, why)
        if self._assignment is not None:
            self._assignment += 1


def _read(raw: Raw, diary: _Diary, where: TopicPartition, start: int, deadline_s: float) -> int:
    """Write down what there is from an offset on (-1: from the first); return the next one."""
    place = start
    end = -1
    while end < 0 or place < end:
        diary.begin()
        told: Read = ([], [])
        try:
            if place < 0:
                place = list_offset(raw, where, EARLIEST)
            if end < 0:
                end = list_offset(raw, where, LATEST)
            told, place, end = _fetch(raw, where, place, end)
        except (NotNowError, ClosedError, WrongLogError) as error:
            diary.fail(str(error))
            raw.forget(where.topic)
            if time.monotonic() > deadline_s:
                raise UnreadableError(f"{where} cannot be read to its end: {error}") from error
            time.sleep(AGAIN_S)
        else:
            diary.end([[str(where), *told]])
    return place


def _fetch(raw: Raw, where: TopicPartition, place: int, end: int) -> tuple[Read, int, int]:
    """Return records from an offset on, where they end, and the end of all."""
    if place >= end:
        return ([], []), place, end
    answer = fetch(raw, where, place)
    told: Read = ([], [])
    following = place
    for offset, value, batch_end in _records(where, answer):
        following = batch_end
        if place <= offset < end:
            told[0].append(offset)
            told[1].append(value)
    if following <= place:
        raise NotNowError(f"nothing at {place} of {end} now")
    return told, min(following, end), end


def fetch(
    raw: Raw, where: TopicPartition, place: int, *, isolation: int = UNCOMMITTED
) -> PartitionData:
    """Return what a leader has from an offset on.

    Raises:
        NotNowError: it does not lead, or has no such offset.
        ClosedError: it did not answer.
    """
    asked = FetchPartition(
        partition=where.partition, fetch_offset=place, partition_max_bytes=FETCH_BYTES
    )
    topic = FetchTopic(topic=where.topic, partitions=[asked])
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=isolation,
        topics=[topic],
    )
    answer = raw.ask(raw.leader(where), ApiKey.FETCH, FETCH_VERSION, request)
    found: PartitionData = answer.responses[0].partitions[0]
    if found.error_code != ErrorCode.NONE:
        raise NotNowError(f"{where} at {place}: {known_code(found.error_code).name}")
    return found


def _records(where: TopicPartition, answer: PartitionData) -> Iterator[tuple[int, int, int]]:
    """Yield offsets, values, and where the batch of each ends."""
    data = bytes(cast("bytes", answer.records or b""))
    for batch in split_batches(where, data):
        for record in read_records(batch.data, batch.header, where, bytes_max=RECORDS_BYTES_MAX):
            yield record.offset, decode(record.value), batch.header.next_offset


def list_offset(
    raw: Raw, where: TopicPartition, timestamp: int, *, isolation: int = UNCOMMITTED
) -> int:
    """Return what a leader says of its log: EARLIEST or LATEST, which COMMITTED is the LSO.

    Raises:
        NotNowError: it does not lead.
        ClosedError: it did not answer.
    """
    asked = ListOffsetsPartition(partition_index=where.partition, timestamp=timestamp)
    topic = ListOffsetsTopic(name=where.topic, partitions=[asked])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
    answer = raw.ask(raw.leader(where), ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
    found = answer.topics[0].partitions[0]
    if found.error_code != ErrorCode.NONE:
        raise NotNowError(f"{where}: {known_code(found.error_code).name}")
    return int(found.offset)
