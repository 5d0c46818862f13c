"""Record batches for tests of the log, and logs on a simulated disk."""

from collections.abc import Iterable, Sequence
from random import Random

from quorate.broker.log.cold import CachedFile
from quorate.broker.log.log import Log
from quorate.broker.log.store import LogStore, open_store
from quorate.broker.log.times import TimestampOffset
from quorate.model import TopicPartition
from quorate.records.batch import BatchHeader, behind_room, parse_header, seal_batch
from quorate.records.compression import Codec, compress
from quorate.records.record import NO_PRODUCER, ProducerStamp, zigzag
from quorate.records.slices import FileSlice
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk, SimFile

PARTITION = TopicPartition("appLogs", 0)
TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000


def make_batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamps_ms: Sequence[int] | None = None,
    offset_deltas: Sequence[int] | None = None,
    producer: ProducerStamp = NO_PRODUCER,
    codec: int = 0,
    attributes: int = 0,
) -> memoryview:
    """Return a batch as a client sends it, in a buffer that can be patched."""
    stamps = timestamps_ms or [NOW_MS] * len(values)
    records = b"".join(
        _record(delta, stamp - stamps[0], key, value)
        for delta, stamp, key, value in zip(
            offset_deltas or range(len(values)),
            stamps,
            keys or [None] * len(values),
            values,
            strict=True,
        )
    )
    sealed = seal_batch(
        behind_room(compress(Codec(codec), records)),
        attributes=attributes | codec,
        record_count=len(values),
        base_timestamp_ms=stamps[0],
        max_timestamp_ms=max(stamps),
        producer=producer,
    )
    return memoryview(sealed)


def join(batches: Iterable[memoryview]) -> memoryview:
    return memoryview(bytearray(b"".join(batches)))


def _record(delta: int, timestamp_delta_ms: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"".join(
        (b"\0", zigzag(timestamp_delta_ms), zigzag(delta), _sized(key), _sized(value), b"\0")
    )
    return zigzag(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return b"\x01" if data is None else zigzag(len(data)) + data


def new_disk(seed: int = 0) -> SimDisk:
    disk = SimDisk(Random(seed))
    disk.make_directory("/data")
    disk.sync_directory("/")
    return disk


def open_data(disk: SimDisk) -> LogStore:
    return open_store(disk, "/data", cluster_id="cluster", node_id=1, now_ms=NOW_MS)


def new_log(disk: SimDisk | None = None, config: TopicConfig | None = None) -> Log:
    """Return an empty log in a new store."""
    return open_data(disk or new_disk()).create(
        PARTITION, TOPIC_ID, config or TopicConfig(), now_ms=NOW_MS
    )


def append(log: Log, *values: bytes, timestamp_ms: int = NOW_MS, leader_epoch: int = 0) -> int:
    """Append one batch; return its base offset."""
    batch = make_batch(values, timestamps_ms=[timestamp_ms] * len(values))
    return log.append(batch, leader_epoch=leader_epoch, now_ms=NOW_MS).base_offset


def flush(log: Log) -> None:
    started = log.start_flush()
    started.run()
    log.finish_flush(started)


def find_time(log: Log, timestamp_ms: int | None) -> TimestampOffset | None:
    """Look a time up, here and now; None stands for the newest record's."""
    lookup = log.start_time_lookup(timestamp_ms)
    lookup.run()
    return lookup.result()


def bytes_of(taken: FileSlice) -> bytes:
    assert isinstance(taken.owner, SimFile | CachedFile)
    return taken.owner.read_at(taken.size_bytes, taken.position)


def headers_of(data: bytes) -> list[BatchHeader]:
    """Return the headers of whole batches that fill the data exactly."""
    headers: list[BatchHeader] = []
    position = 0
    while position < len(data):
        headers.append(parse_header(data, position))
        position += headers[-1].size_bytes
    assert position == len(data)
    return headers


def read_all(log: Log) -> dict[int, bytes]:
    """Return all batches of a log by base offset, read as a consumer reads them."""
    batches: dict[int, bytes] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        taken = log.read(
            offset, max_bytes=1 << 20, limit_offset=log.log_end_offset, at_least_one=True
        )
        assert taken is not None
        data = bytes_of(taken)
        position = 0
        for header in headers_of(data):
            batches[header.base_offset] = data[position : position + header.size_bytes]
            position += header.size_bytes
            offset = header.next_offset
    return batches
