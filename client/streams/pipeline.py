"""What becomes of the records of a stream, as its user says it: a value, made step by step.

Names are those of Kafka Streams' DSL (``KStream``, ``TimeWindows``, ``EmitStrategy``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast

from quorate.client.serde.choosing import (
    Deserializing,
    FromBytes,
    K,
    ToBytes,
    V,
    from_bytes,
    to_bytes,
)
from quorate.client.streams.serdes import LongSerde
from quorate.client.streams.store import Aggregation
from quorate.dataclass import dataclass

if TYPE_CHECKING:
    from quorate.client.serde.choosing import Serializing
    from quorate.client.serde.serdes import Serde
    from quorate.client.streams.windows import TimeWindows, Window

K2 = TypeVar("K2")
V2 = TypeVar("V2")
A = TypeVar("A")

Step: TypeAlias = Callable[[Any, Any], Iterable[tuple[Any, Any]]]
"""From a key and a value to what comes out of them."""

Emit: TypeAlias = Literal["on_window_update", "on_window_close"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where records come from, and how they are read; None leaves bytes."""

    topics: tuple[str, ...]
    read_key: FromBytes | None
    read_value: FromBytes | None


@dataclass(frozen=True, slots=True)
class Sink:
    """Where records go to, and how they are written."""

    topic: str
    write_key: ToBytes
    write_value: ToBytes


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All that is to be done: for :func:`quorate.streams.run`.

    Attributes:
        source: Where records come from.
        before: The steps before they are grouped; all, if they are not.
        aggregation: What they add up to, if they do.
        after: The steps behind that.
        sink: Where what comes out goes to.
    """

    source: Source
    before: tuple[Step, ...]
    aggregation: Aggregation | None
    after: tuple[Step, ...]
    sink: Sink


def stream(
    *topics: str,
    key: Deserializing[K] | None = None,
    value: Deserializing[V] | None = None,
) -> Stream[K, V]:
    """Begin with the records of topics.

    Records whose value is null are left out. Without a key, the key is None.

    Args:
        *topics: Where from; to be grouped, all need the same number of partitions.
        key: What keys are: a serde, or a function from bytes. None leaves them bytes.
        value: What values are.

    Raises:
        ValueError: No topic is named.
        TypeError: A deserializer is none.
    """
    if not topics:
        raise ValueError("a stream needs a topic to read")
    return Stream(Source(topics, from_bytes("key", key), from_bytes("value", value)))


class Stream(Generic[K, V]):
    """Records on their way; every method returns another stream, and changes none.

    Functions must not wait, and depend on nothing but what they are given: after a crash they are
    called again for the same records.
    """

    def __init__(
        self,
        source: Source,
        before: tuple[Step, ...] = (),
        aggregation: Aggregation | None = None,
        after: tuple[Step, ...] = (),
        *,
        has_other_keys: bool = False,
    ) -> None:
        self._source = source
        self._before = before
        self._aggregation = aggregation
        self._after = after
        self._has_other_keys = has_other_keys

    def filter(self, keep: Callable[[K, V], bool]) -> Stream[K, V]:
        """Leave out the records for which the function returns False."""
        return self._then(lambda key, value: [(key, value)] if keep(key, value) else [])

    def map_values(self, change: Callable[[V], V2]) -> Stream[K, V2]:
        """Give records another value."""
        return cast("Stream[K, V2]", self._then(lambda key, value: [(key, change(value))]))

    def flat_map_values(self, change: Callable[[V], Iterable[V2]]) -> Stream[K, V2]:
        """Make any number of records out of each, with its key."""
        return cast(
            "Stream[K, V2]",
            self._then(lambda key, value: ((key, each) for each in change(value))),
        )

    def map(self, change: Callable[[K, V], tuple[K2, V2]]) -> Stream[K2, V2]:
        """Give records another key and another value."""
        step = self._then(lambda key, value: [change(key, value)], has_other_keys=True)
        return cast("Stream[K2, V2]", step)

    def flat_map(self, change: Callable[[K, V], Iterable[tuple[K2, V2]]]) -> Stream[K2, V2]:
        """Make any number of records out of each."""
        return cast("Stream[K2, V2]", self._then(change, has_other_keys=True))

    def _then(self, step: Step, *, has_other_keys: bool = False) -> Stream[K, V]:
        before, after = self._before, self._after
        return Stream(
            self._source,
            before if self._aggregation else (*before, step),
            self._aggregation,
            (*after, step) if self._aggregation else after,
            has_other_keys=self._has_other_keys or has_other_keys,
        )

    def group_by_key(self) -> Grouped[K, V]:
        """Take the records of a key together; those without a key are left out.

        Raises:
            ValueError: The keys are not those of the topic any more, so that records of one key may
                be in several partitions: write them to another topic, and group them from there.
        """
        if self._has_other_keys or self._aggregation is not None:
            raise ValueError(
                "keys were changed, so that records of one key may be in several partitions: write"
                " them to another topic, and group the records of that"
            )
        return Grouped(self._source, self._before)

    def to(
        self,
        topic: str,
        *,
        key: Serializing[K] | None = None,
        value: Serializing[V] | None = None,
    ) -> Pipeline:
        """End in a topic, which must exist.

        Windows as keys (with a :class:`WindowedSerde`) go to the partition of the key in them.

        Args:
            topic: Where to.
            key: How keys are written: a serde, or a function to bytes. None takes bytes.
            value: How values are written. A value of None is null.

        Raises:
            TypeError: A serializer is none.
        """
        sink = Sink(topic, to_bytes("key", key), to_bytes("value", value))
        return Pipeline(self._source, self._before, self._aggregation, self._after, sink)


class Grouped(Generic[K, V]):
    """Records of a stream by their key."""

    def __init__(self, source: Source, before: tuple[Step, ...]) -> None:
        self._source = source
        self._before = before

    def windowed_by(
        self, windows: TimeWindows, *, emit: Emit = "on_window_update"
    ) -> Windowed[K, V]:
        """Take the records of a key in a window of time together, by the times of the records.

        Args:
            windows: Which windows.
            emit: ``on_window_update``: a window tells its value whenever it has changed, once a
                commit. ``on_window_close``: once, when it is closed. Time is that of records: with
                none that comes later, a window stays open.

        Raises:
            ValueError: There is no such way to emit.
        """
        if emit not in {"on_window_update", "on_window_close"}:
            raise ValueError(f"there is no emit {emit!r}: on_window_update or on_window_close")
        return Windowed(self._source, self._before, windows, on_close=emit == "on_window_close")


class Windowed(Generic[K, V]):
    """Records of a stream by their key and window."""

    def __init__(
        self, source: Source, before: tuple[Step, ...], windows: TimeWindows, *, on_close: bool
    ) -> None:
        self._source = source
        self._before = before
        self._windows = windows
        self._on_close = on_close

    def count(self) -> Stream[Window[K], int]:
        """Count them."""
        return self.aggregate(_zero, lambda _key, _value, count: count + 1, value=LongSerde())

    def aggregate(
        self,
        initial: Callable[[], A],
        fold: Callable[[K, V, A], A],
        *,
        value: Serde[A],
    ) -> Stream[Window[K], A]:
        """Add them up.

        Args:
            initial: Returns the value of no records, a new one each time.
            fold: From a key, a value and what there was before to what there is now. None removes
                the window, as in Kafka Streams: it tells None, and its next record begins with
                ``initial``.
            value: How results are written to the changelog.

        Raises:
            TypeError: It is no serde.
        """
        write, read = to_bytes("value", value), from_bytes("value", value)
        if read is None or not hasattr(value, "deserialize"):
            raise TypeError(f"aggregate takes a serde, not {value!r}: results are read again")
        aggregation = Aggregation(
            self._windows,
            self._on_close,
            initial,
            fold,
            lambda total: write("", total) or b"",
            lambda data: read("", data),
        )
        return Stream(self._source, self._before, aggregation, has_other_keys=True)


def _zero() -> int:
    return 0


def run_steps(steps: tuple[Step, ...], key: object, value: object) -> Iterable[tuple[Any, Any]]:
    """Give what comes out of a record, in order."""
    if not steps:
        yield key, value
        return
    for next_key, next_value in steps[0](key, value):
        yield from run_steps(steps[1:], next_key, next_value)
