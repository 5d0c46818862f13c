"""Numbers and windows as bytes, as Kafka's ``LongSerde`` and ``TimeWindowedSerde`` have them."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from quorate.client.serde.choosing import from_bytes, to_bytes
from quorate.client.serde.serdes import SerdeError, wrong_kind
from quorate.client.streams.windows import Window

if TYPE_CHECKING:
    from quorate.client.serde.serdes import Serde

K = TypeVar("K")

INT64: Final = Struct(">q")


class LongSerde:
    """Whole numbers in eight bytes, the highest first."""

    def serialize(self, topic: str, value: int, /) -> bytes:
        """Return a number's bytes."""
        if not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_kind(topic, value, "int")
        if not -(2**63) <= value < 2**63:
            raise SerdeError(f"{value} for topic {topic!r} is too large for 8 bytes", topic=topic)
        return INT64.pack(value)

    def deserialize(self, topic: str, data: bytes, /) -> int:
        """Return the number."""
        if len(data) != INT64.size:
            message = f"bytes of topic {topic!r} are no number: {len(data)} of them, not 8"
            raise SerdeError(message, topic=topic)
        return int(INT64.unpack(data)[0])


def base_key(data: bytes, start_ms: int) -> bytes | None:
    """Return the bytes of the key in a window that a :class:`WindowedSerde` wrote; None if not."""
    start = INT64.pack(start_ms)
    return data.removesuffix(start) if data.endswith(start) else None


class WindowedSerde(Generic[K]):
    """A key and the start of its window: the key's bytes, then the start as eight more."""

    def __init__(self, key: Serde[K], *, size_ms: int) -> None:
        """Keep how keys are written, and how long windows are: that is not written."""
        self._write = to_bytes("key", key)
        self._read = from_bytes("key", key)
        self._size_ms = size_ms

    def serialize(self, topic: str, value: Window[K], /) -> bytes:
        """Return a window's bytes."""
        if not isinstance(value, Window):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_kind(topic, value, "Window")
        return (self._write(topic, value.key) or b"") + INT64.pack(value.start_ms)

    def deserialize(self, topic: str, data: bytes, /) -> Window[K]:
        """Return the window."""
        if len(data) < INT64.size:
            message = f"bytes of topic {topic!r} are no window: {len(data)} of them, fewer than 8"
            raise SerdeError(message, topic=topic)
        assert self._read is not None
        key, start_ms = data[: -INT64.size], int(INT64.unpack(data[-INT64.size :])[0])
        return Window(cast("K", self._read(topic, key)), start_ms, start_ms + self._size_ms)
