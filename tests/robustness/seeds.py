"""Valid requests of every API and version that is served: what fuzzing starts from."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from quorate.broker.handlers.table import HANDLERS
from quorate.jepsen.clients.wire import make_batch
from quorate.protocol.apis import APIS, Api, ApiKey
from quorate.protocol.fields import FIXED, NO_VERSIONS, Field, layout_of
from quorate.protocol.frames import encode_request
from quorate.records.batch import HEADER_BYTES
from quorate.records.checksum import crc32c
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER, ProducerStamp

STRAYS: Final = ("fuzz-2", "nobody", "", "a" * 249, "..", "é")
NAMES: Final = ("fuzz",) * 20 + STRAYS
TRANSACTIONAL_ID: Final = "t"
PARTITIONS: Final = 3
NOW_MS: Final = 1_700_000_000_000
LISTS_MAX: Final = 3
CRC_AT: Final = 17
CRC_COVERS_FROM: Final = 21

Served = tuple[Api, int]

SERVED: Final[tuple[Served, ...]] = tuple(
    (APIS[key], version)
    for key in sorted(HANDLERS)
    for version in range(APIS[key].min_version, APIS[key].max_version + 1)
)
"""Every API and version that the broker serves."""


class Seeds:
    """Makes valid requests, and remembers the checksums of all valid batches in them."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._names: tuple[str, ...] = NAMES
        self.topic_ids: list[bytes] = [bytes(16)]
        self.batch_sums: set[int] = set()

    def request(self) -> tuple[int, bytes]:
        """Return an API key and a whole frame; half of all frames are about records."""
        rng = self._rng
        if rng.random() < 0.5:
            api = APIS[rng.choice((ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.FETCH))]
            version = rng.randint(api.min_version, api.max_version)
        else:
            api, version = rng.choice(SERVED)
        # Mutations delete the topic often enough.
        self._names = STRAYS if api.key == ApiKey.DELETE_TOPICS else NAMES
        body = self._instance(api.request)
        correlation_id = rng.randrange(1 << 31)
        return api.key, encode_request(api, version, correlation_id, "fuzz", body)

    def batch(self) -> bytes:
        """Return a record batch: mostly valid, sometimes wrong with a right checksum."""
        rng = self._rng
        values = [rng.randbytes(rng.randrange(60)) for _ in range(rng.randint(1, 5))]
        stamp = NO_PRODUCER
        if rng.random() < 0.2:
            stamp = ProducerStamp(rng.randrange(5), rng.randrange(2), rng.randrange(20))
        codec = rng.choice(list(Codec))
        batch = make_batch(values, stamp=stamp, codec=codec, now_ms=NOW_MS + rng.randrange(10**9))
        if rng.random() < 0.1:
            batch = self._lie(batch)
        elif rng.random() < 0.1:
            batch += self.batch()
        self._remember(batch)
        return batch

    def _lie(self, batch: bytes) -> bytes:
        """Change something behind the checksum, and make the checksum fit."""
        changed = bytearray(batch)
        at = self._rng.randrange(CRC_COVERS_FROM, min(len(changed), HEADER_BYTES + 8))
        changed[at] = self._rng.randrange(256)
        changed[CRC_AT:CRC_COVERS_FROM] = crc32c(changed[CRC_COVERS_FROM:]).to_bytes(4, "big")
        return bytes(changed)

    def _remember(self, batch: bytes) -> None:
        self.batch_sums.add(int.from_bytes(batch[CRC_AT:CRC_COVERS_FROM], "big"))

    def _instance(self, cls: type[Any]) -> Any:
        return cls(**{field.name: self._value(field) for field in layout_of(cls).fields})

    def _value(self, field: Field) -> Any:
        if field.is_array:
            count = self._rng.choice((0, 1, 1, 1, 1, 1, 1, 2, LISTS_MAX))
            return [self._element(field) for _ in range(count)]
        return self._element(field)

    def _element(self, field: Field) -> Any:
        if field.struct is not None:
            return self._instance(field.struct)
        hint = _HINTS.get(field.name)
        if hint is not None:
            value = hint(self._rng)
            return TRANSACTIONAL_ID if value is None and field.nullable == NO_VERSIONS else value
        return self._of_kind(field.kind)

    def _of_kind(self, kind: str) -> Any:
        match kind:
            case "string":
                return self._rng.choice(self._names)
            case "records":
                return memoryview(self.batch())
            case "bytes":
                return self._rng.randbytes(self._rng.randrange(40))
            case "uuid":
                return self._rng.choice(self.topic_ids)
            case _:
                bits = 8 * FIXED[kind].size_bytes - 1
                return self._rng.randrange(min(8, 1 << bits))


def _small(*choices: Any) -> Callable[[Random], Any]:
    return lambda rng: rng.choice(choices)


_HINTS: Final[dict[str, Callable[[Random], Any]]] = {
    "acks": _small(-1, -1, -1, 0, 1, 1),
    "transactional_id": _small(*[None] * 20, TRANSACTIONAL_ID),
    "index": _small(*range(PARTITIONS), *range(PARTITIONS + 1)),
    "partition": _small(*range(PARTITIONS), *range(PARTITIONS + 1)),
    "partition_index": _small(*range(PARTITIONS), *range(PARTITIONS + 1)),
    "partition_indexes": _small(*range(PARTITIONS), *range(PARTITIONS + 1)),
    "timeout_ms": _small(0, 10, 1000),
    "max_wait_ms": _small(0, 0, 5, 50),
    "min_bytes": _small(0, 1, 1000),
    "max_bytes": _small(0, 1, 1000, 1 << 20),
    "partition_max_bytes": _small(0, 1, 1000, 1 << 20),
    "session_id": _small(0, 0, 0, 7),
    "session_epoch": _small(-1, -1, 0, 3),
    "current_leader_epoch": _small(-1, -1, 0, 9),
    "replica_id": _small(-1, -1, -1, 1),
    "isolation_level": _small(0, 1),
    "timestamp": _small(-1, -2, -3, 0, NOW_MS),
    "num_partitions": _small(1, 1, -1, 0),
    "replication_factor": _small(1, 1, -1, 2),
    "validate_only": _small(True, True, False),
    "resource_type": _small(2, 2, 4, 8, 99),
    "resource_name": _small("fuzz", "fuzz", "nobody", "1", ""),
    "config_operation": _small(0, 1, 2, 3, 9),
}
"""Values that lead past the first check, by field name."""
