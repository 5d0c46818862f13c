"""Loading: a partition read from its beginning, a little at a time, and replayed into a machine."""

import logging
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from quorate.broker.log.cold import ColdError, read_slice
from quorate.broker.replication.leader import LeaderReplica
from quorate.broker.shards.effects import Machine
from quorate.errors import CorruptRecordError, KafkaError, OffsetOutOfRangeError, StorageError
from quorate.records.batch import BatchHeader, parse_header
from quorate.records.record import read_records
from quorate.records.slices import FileSlice

logger = logging.getLogger(__name__)

CHUNK_BYTES: Final = 64 * 1024
"""How much is replayed before others get a turn: some 5 ms."""

BATCH_BYTES_MAX: Final = 64 << 20
"""How much a compressed batch may become: more than any coordinator ever wrote."""

MARKER_COMMITS: Final = 1
_MARKER_KEY: Final = Struct(">hh")
"""The version and the type of a transaction's end."""

Aside = Callable[[Callable[[], None], Callable[[], None]], None]


class Loader:
    """Replays a partition up to its end, in turns of the loop, with the disk read elsewhere.

    ``then`` is called once, with None at the end, or with why it could not be read; not at all
    after :meth:`stop`.
    """

    __slots__ = ("_aside", "_machine", "_offset", "_replica", "_then")

    def __init__(
        self,
        replica: LeaderReplica,
        machine: Machine,
        aside: Aside,
        then: Callable[[KafkaError | None], None],
    ) -> None:
        self._replica = replica
        self._machine = machine
        self._aside = aside
        self._then: Callable[[KafkaError | None], None] | None = then
        self._offset = replica.log.log_start_offset

    def stop(self) -> None:
        """Read no further."""
        self._then = None

    def start(self) -> None:
        """Begin to read."""
        self._next(may_wait=False)

    def _end(self, error: KafkaError | None) -> None:
        then, self._then = self._then, None
        assert then is not None, "it ends once"
        then(error)

    def _next(self, *, may_wait: bool) -> None:
        if self._then is None:
            return
        try:
            piece = self._find(may_wait=may_wait)
        except ColdError as error:
            self._aside(error.cold.run, lambda: self._next(may_wait=True))
        except (KafkaError, OSError) as error:
            self._end(_unreadable(error))
        else:
            if piece is not None:
                self._read(piece)
            elif self._offset >= self._replica.log.log_end_offset:
                self._end(None)
            else:
                self._end(CorruptRecordError(f"nothing is to be read from {self._offset} on"))

    def _find(self, *, may_wait: bool) -> FileSlice | None:
        log = self._replica.log

        def find() -> FileSlice | None:
            return log.read(
                self._offset,
                max_bytes=CHUNK_BYTES,
                limit_offset=log.log_end_offset,
                at_least_one=True,
                may_wait=may_wait,
            )

        try:
            return find()
        except OffsetOutOfRangeError:
            # What was there at first is deleted by now.
            self._offset = log.log_start_offset
            return find()

    def _read(self, piece: FileSlice) -> None:
        read: list[bytes | OSError] = []

        def run() -> None:
            try:
                read.append(read_slice(piece))
            except OSError as error:
                read.append(error)

        def then() -> None:
            (data,) = read
            if self._then is None:
                return
            try:
                self._replay(data)
            except (KafkaError, OSError) as error:
                self._end(_unreadable(error))
            else:
                self._next(may_wait=False)

        self._aside(run, then)

    def _replay(self, data: bytes | OSError) -> None:
        if isinstance(data, OSError):
            raise data
        begin = self._offset
        for header, batch in _batches(data):
            self._offset = header.next_offset
            self._replay_batch(header, batch)
        if self._offset == begin:
            raise CorruptRecordError("a log that is shorter than what it says")

    def _replay_batch(self, header: BatchHeader, batch: bytes) -> None:
        partition = self._replica.topic_partition
        machine = self._machine
        for record in read_records(batch, header, partition, bytes_max=BATCH_BYTES_MAX):
            key, value = record.key, record.value
            if key is None:
                logger.warning("%s: a record without a key is ignored", partition)
            elif header.is_control:
                _, kind = _MARKER_KEY.unpack_from(key)
                machine.end_transaction(header.producer_id, committed=kind == MARKER_COMMITS)
            elif header.is_transactional:
                machine.replay_pending(header.producer_id, key, value)
            else:
                machine.replay(key, value)


def _batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the batches; a last one that is cut off is left for the next time."""
    at = 0
    while at < len(data):
        header = parse_header(data, at)
        batch = data[at : at + header.size_bytes]
        if len(batch) < header.size_bytes:
            return
        yield header, batch
        at += header.size_bytes


def _unreadable(error: KafkaError | OSError) -> KafkaError:
    return error if isinstance(error, KafkaError) else StorageError(error.strerror)
