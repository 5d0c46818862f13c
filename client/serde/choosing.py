"""What a client makes of keys and values: a serde, a function, or bytes as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from quorate.client.serde.serdes import Deserializer, SerdeError, Serializer
from quorate.records.record import Record

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import TypeVar  # type checkers have it: one that knows defaults

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

T = TypeVar("T")

Serializing: TypeAlias = Serializer[T] | Callable[[T], bytes]
"""A serde, or a function from values to bytes."""

Deserializing: TypeAlias = Deserializer[T] | Callable[[bytes], T]
"""A serde, or a function from bytes to values."""

ToBytes: TypeAlias = Callable[[str, Any], bytes | None]
"""From a topic's name and a key or value (which may be None) to what a record holds."""

FromBytes: TypeAlias = Callable[[str, bytes], Any]
"""From a topic's name and what a record holds to a key or value."""


def to_bytes(what: str, given: Serializing[Any] | None) -> ToBytes:
    """Return what writes keys or values; ``what`` names them in errors.

    Raises:
        TypeError: Neither a serde nor a function was given.
    """
    if given is None:
        return lambda _, value: as_bytes(what, value)
    write: Callable[[str, Any], object]
    if _has(what, given, "serialize"):
        write = cast("Serializer[Any]", given).serialize
    else:
        function = cast("Callable[[Any], bytes]", given)
        write = lambda _, value: function(value)  # noqa: E731 - the other branch has a method
    return lambda topic, value: None if value is None else as_bytes(what, write(topic, value))


def from_bytes(what: str, given: Deserializing[Any] | None) -> FromBytes | None:
    """Return what reads keys or values; None, if they stay bytes.

    Raises:
        TypeError: Neither a serde nor a function was given.
    """
    if given is None:
        return None
    if _has(what, given, "deserialize"):
        return cast("Deserializer[Any]", given).deserialize
    function = cast("Callable[[bytes], Any]", given)

    def read(topic: str, data: bytes) -> Any:
        try:
            return function(data)
        except Exception as error:  # a function of the user's raises what it likes
            raise SerdeError(f"{error!r} in topic {topic!r}", topic=topic) from error

    return read


def _has(what: str, given: object, method: str) -> bool:
    """Return whether it is a serde; else it is a function."""
    is_serde = hasattr(given, method)
    if is_serde and isinstance(given, type):
        raise TypeError(f"{what}_{method}r is a class: try {given.__name__}()")
    if not is_serde and not callable(given):
        raise TypeError(f"{what}_{method}r takes a serde or a function, not {given!r}")
    return is_serde


def as_bytes(what: str, value: object) -> bytes | None:
    """Return bytes for anything that is a buffer; strings must be encoded by who knows how.

    Raises:
        TypeError: It is something else.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(cast("bytearray", value))
    kind = type(value).__name__
    hint = f"; try {what}.encode() or {what}_serializer" if isinstance(value, str) else ""
    raise TypeError(f"a record's {what} must be bytes or None, not {kind}{hint}")


_new_tuple = cast("Callable[..., object]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]


class TypedRecord(Record[K, V]):
    """A record whose key and value are read when they are asked for, and once.

    So one that cannot be read stands in nobody's way: who asks for it gets the error. As a tuple,
    it has the bytes.
    """

    def __new__(
        cls, record: Record, key: FromBytes | None = None, value: FromBytes | None = None
    ) -> Self:
        """Return the record, with what reads its key and its value."""
        made = cast("Self", _new_tuple(cls, record))
        made._readers = (key, value)  # noqa: SLF001 - its own
        made._read = {}  # noqa: SLF001
        return made

    _readers: tuple[FromBytes | None, FromBytes | None]
    _read: dict[str, object]

    @property
    def record(self) -> Record:
        """The record as it is in the log, with bytes."""
        return Record._make(cast("tuple[Any, ...]", self))

    @property
    def key(self) -> K | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The key; None if the record has none.

        Raises:
            SerdeError: It cannot be read.
        """
        return cast("K | None", self._once("key", self[3], self._readers[0]))

    @property
    def value(self) -> V | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The value; None if it is null, which deletes the key from a compacted topic.

        Raises:
            SerdeError: It cannot be read.
        """
        return cast("V | None", self._once("value", self[4], self._readers[1]))

    def _once(self, what: str, data: object, reader: FromBytes | None) -> object:
        if reader is None or data is None:
            return data
        if what not in self._read:
            try:
                self._read[what] = reader(self.topic, cast("bytes", data))
            except SerdeError as error:
                place = f"{self.topic_partition} at offset {self.offset}"
                raise SerdeError(f"{what} of {place}: {error}", topic=self.topic) from error
        return self._read[what]
