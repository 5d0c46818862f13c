"""What replicas of a compacted log agree on: the latest value of each key.

Brokers compact on their own, so the bytes of replicas differ, and so does which replaced records
are gone already.
"""

import hashlib
import zlib
from collections.abc import Iterable
from typing import Final

from quorate.model import TopicPartition
from quorate.records.batch import HEADER_BYTES, parse_header
from quorate.records.record import Record, read_records

BATCH_BYTES_MAX: Final = 1 << 30
TOMBSTONE: Final = -1
_KEY_DIGEST_BYTES: Final = 16
_NOWHERE: Final = TopicPartition("", -1)


class LatestValues:
    """Reads the batches of one replica, piece after piece, and remembers each key's last record.

    Of a key it keeps a digest, the offset, and a checksum of the value and headers.
    """

    def __init__(self, begin: int, end: int) -> None:
        self.position = begin
        self.by_key: dict[bytes, tuple[int, int]] = {}
        self._end = end

    @property
    def is_done(self) -> bool:
        """Whether all was read."""
        return self.position >= self._end

    def add(self, data: bytes) -> bool:
        """Take a piece that begins with the batch that has the position; whether it brought any.

        Raises:
            CorruptRecordError: a batch holds no records.
        """
        at, before = 0, self.position
        while len(data) - at >= HEADER_BYTES and not self.is_done:
            header = parse_header(data, at)
            end = at + header.size_bytes
            if header.size_bytes < HEADER_BYTES or end > len(data):
                break
            if not header.is_control:
                batch = data[at:end]
                records = read_records(batch, header, _NOWHERE, bytes_max=BATCH_BYTES_MAX)
                for record in records:
                    if record.offset < self._end and record.key is not None:
                        self._note(record.key, record)
            self.position = max(self.position, header.next_offset)
            at = end
        return self.position > before

    def _note(self, key: bytes, record: Record) -> None:
        digest = hashlib.blake2b(key, digest_size=_KEY_DIGEST_BYTES).digest()
        value = record.value
        self.by_key[digest] = (record.offset, TOMBSTONE if value is None else zlib.crc32(value))


def agree(replicas: Iterable[LatestValues], end: int) -> bool:
    """Whether replicas have the same latest values, of keys that were not written since ``end``.

    Up to there, all have everything. A key whose last record is a tombstone has no value, as has
    one of which nothing is left.
    """
    known = list(replicas)
    newer = {
        key for replica in known for key, (offset, _) in replica.by_key.items() if offset >= end
    }
    values = [
        {
            key: latest
            for key, latest in replica.by_key.items()
            if key not in newer and latest[1] != TOMBSTONE
        }
        for replica in known
    ]
    return all(each == values[0] for each in values)
