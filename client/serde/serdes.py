"""Bytes, text, JSON and CBOR; and what a serde of one's own must be able to do.

Nulls never come here: a key or value of None is null in the record, whatever the serde.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from types import NoneType
from typing import Any, Final, Protocol, TypeVar, cast

import cbor2

from quorate.errors import QuorateError

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)

DEPTH_MAX: Final = 256
"""How deep CBOR may nest; JSON has Python's own limit."""


_FLAT: Final = frozenset({str, int, float, bool, bytes, bytearray, memoryview, NoneType, range})
"""Some types, the commonest among them, that nest nothing."""

_NESTING: Final = (Sequence, Mapping, AbstractSet, cbor2.CBORTag)
"""What cbor2 writes with what is in it."""


class SerdeError(QuorateError):
    """A value cannot be written as bytes, or bytes are no such value; ``__cause__`` may say more.

    Attributes:
        topic: The topic that it was for, or came from.
    """

    def __init__(self, message: str, topic: str = "") -> None:  # so that it can be copied
        super().__init__(message)
        self.topic = topic


class Serializer(Protocol[T_contra]):
    """Turns values into bytes."""

    def serialize(self, topic: str, value: T_contra, /) -> bytes:
        """Return the bytes of a value that is not None.

        Raises:
            SerdeError: It has none.
        """
        ...


class Deserializer(Protocol[T_co]):
    """Turns bytes into values."""

    def deserialize(self, topic: str, data: bytes, /) -> T_co:
        """Return what bytes stand for.

        Raises:
            SerdeError: Nothing.
        """
        ...


class Serde(Serializer[T], Deserializer[T], Protocol[T]):
    """Both: what most serdes are."""


class BytesSerde:
    """Bytes as they are."""

    def serialize(self, topic: str, value: bytes, /) -> bytes:
        """Return the value."""
        if not isinstance(value, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_kind(topic, value, "bytes")
        return value

    def deserialize(self, topic: str, data: bytes, /) -> bytes:
        """Return the bytes."""
        del topic
        return data


class StrSerde:
    """Text, in UTF-8 unless told otherwise."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def serialize(self, topic: str, value: str, /) -> bytes:
        """Return the text's bytes."""
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_kind(topic, value, "str")
        try:
            return value.encode(self._encoding)
        except UnicodeEncodeError as error:
            message = f"text for topic {topic!r} is not writable as {self._encoding}: {error}"
            raise SerdeError(message, topic=topic) from error

    def deserialize(self, topic: str, data: bytes, /) -> str:
        """Return the text."""
        try:
            return data.decode(self._encoding)
        except UnicodeDecodeError as error:
            message = f"bytes of topic {topic!r} are no {self._encoding}: {error}"
            raise SerdeError(message, topic=topic) from error


class JsonSerde:
    """What JSON can say, without spaces and in UTF-8; NaN and infinities are refused.

    Beware that a value of None is a null record, and not the JSON ``null``.
    """

    def serialize(self, topic: str, value: Any, /) -> bytes:
        """Return a value as JSON."""
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            return text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            message = f"a value for topic {topic!r} has no JSON: {error}"
            raise SerdeError(message, topic=topic) from error

    def deserialize(self, topic: str, data: bytes, /) -> Any:
        """Return what JSON says."""
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            message = f"bytes of topic {topic!r} are no JSON: {error}"
            raise SerdeError(message, topic=topic) from error


class CborSerde:
    """What CBOR can say (RFC 8949): as JSON, and bytes, times, decimals and more; smaller.

    Nothing is called or imported by what is read, and depth is limited.
    """

    def serialize(self, topic: str, value: Any, /) -> bytes:
        """Return a value as CBOR."""
        if _nests_deeper_than(DEPTH_MAX, value):  # a few thousand levels end cbor2's process
            message = f"a value for topic {topic!r} nests more than {DEPTH_MAX} levels deep"
            raise SerdeError(message, topic=topic)
        try:
            return cbor2.dumps(value)
        except (cbor2.CBORError, TypeError, ValueError, RecursionError) as error:
            message = f"a value for topic {topic!r} has no CBOR: {error}"
            raise SerdeError(message, topic=topic) from error

    def deserialize(self, topic: str, data: bytes, /) -> Any:
        """Return what CBOR says; there must be nothing behind it."""
        stream = io.BytesIO(data)
        try:
            value: Any = cbor2.CBORDecoder(stream, max_depth=DEPTH_MAX).decode()
        except (cbor2.CBORError, TypeError, ValueError, OverflowError, RecursionError) as error:
            message = f"bytes of topic {topic!r} are no CBOR: {error}"
            raise SerdeError(message, topic=topic) from error
        if stream.tell() != len(data):
            raise SerdeError(f"bytes of topic {topic!r} go on behind their CBOR", topic=topic)
        return value


def _nests_deeper_than(depth_max: int, value: object) -> bool:
    """Whether a value has more levels than that, as CBOR counts them."""
    level = [value]
    for _ in range(depth_max):
        level = [inner for each in level for inner in _inside(each) if type(inner) not in _FLAT]
        if not level:
            return False
        if len(level) > 1:  # once each: a value may be in itself, and more than once
            level = list({id(each): each for each in level}.values())
    return any(isinstance(each, _NESTING) for each in level)


def _inside(value: object) -> Iterable[object]:
    """Return what is in a value."""
    if isinstance(value, list | tuple):
        return cast("Iterable[object]", value)
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return chain(mapping, mapping.values())
    if isinstance(value, cbor2.CBORTag):
        return (value.value,)
    if isinstance(value, AbstractSet):
        return (list(cast("AbstractSet[object]", value)),)  # a list with a tag before it
    return cast("Iterable[object]", value) if isinstance(value, Sequence) else ()


def wrong_kind(topic: str, value: object, wanted: str) -> SerdeError:
    """Return the error for a value of another type."""
    kind = type(value).__name__
    return SerdeError(f"a value for topic {topic!r} is {kind}, not {wanted}", topic=topic)
