"""The replicated state machine of the simulation: registers, and a hash over all applied."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from quorate.control.codec import dump_cbor, load_cbor
from quorate.jepsen.linearizability import Value

PUT, CAS = "put", "cas"
HASH_BYTES = 8


@dataclass(frozen=True, slots=True)
class Command:
    """What a client wants; ``number`` is unique in a run, ``padding_bytes`` make it larger."""

    number: int
    kind: str
    key: str
    expected: Value
    value: Value
    padding_bytes: int

    def encode(self) -> bytes:
        fields = [self.number, self.kind, self.key, self.expected, self.value]
        return dump_cbor([*fields, bytes(self.padding_bytes)])


def decode_command(data: bytes) -> Command:
    number, kind, key, expected, value, padding = load_cbor(data)
    return Command(number, kind, key, expected, value, len(padding))


@dataclass(frozen=True, slots=True)
class Answer:
    """Where a command ended up, and whether its condition held."""

    index: int
    number: int
    done: bool


class Registers:
    """Owns the registers of one process; its dumps carry ``ballast_bytes`` to make them larger."""

    def __init__(
        self,
        applied: Callable[[int, int, bytes], None],
        loaded: Callable[[int, bytes], None],
        ballast_bytes: int,
    ) -> None:
        self._applied = applied
        self._loaded = loaded
        self._ballast_bytes = ballast_bytes
        self.values: dict[str, Value] = {}
        self.index = 0
        self.state_hash = bytes(HASH_BYTES)

    def apply(self, index: int, term: int, command: bytes) -> Answer:
        del term
        number, kind, key, expected, value, _ = load_cbor(command)
        done = kind == PUT or self.values.get(key) == expected
        if done:
            self.values[key] = value
        self.index = index
        identity = self.state_hash + index.to_bytes(8, "big") + command
        self.state_hash = blake2b(identity, digest_size=HASH_BYTES).digest()
        self._applied(index, number, self.state_hash)
        return Answer(index, number, done)

    def freeze(self) -> Callable[[], bytes]:
        content = [self.index, self.state_hash, sorted(self.values.items())]
        return lambda: dump_cbor([*content, bytes(self._ballast_bytes)])

    def prepare(self, data: bytes) -> Callable[[], None]:
        return lambda: self.load(data)

    def load(self, data: bytes) -> None:
        self.index, self.state_hash, values, _ = load_cbor(data)
        self.values = dict(values)
        self._loaded(self.index, self.state_hash)
