"""Windows of time, as Kafka Streams has them: aligned to 1970, by the times of records.

Source: ``org.apache.kafka.streams.kstream.TimeWindows``.
"""

from typing import Generic, TypeVar

from quorate.dataclass import dataclass

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Window(Generic[K]):
    """One key in one span of time: what a windowed aggregate is of.

    Attributes:
        key: The key.
        start_ms: The first millisecond that is in it, since 1970.
        end_ms: The first that is not.
    """

    key: K
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindows:
    """Spans of ``size_ms``, a new one every ``advance_ms``.

    Attributes:
        size_ms: How long a window is.
        grace_ms: How much later than the end of a window its records may come, by the times of
            records: a window is closed once there was one of its end plus this, or later.
        advance_ms: How much later the next window begins: less than the size for windows that
            overlap (hopping); by default the size (tumbling).
    """

    size_ms: int
    grace_ms: int
    advance_ms: int = 0

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            ValueError: A number is out of its range.
        """
        if self.size_ms < 1:
            raise ValueError(f"size_ms is {self.size_ms}, but must be at least 1")
        if self.grace_ms < 0:
            raise ValueError(f"grace_ms is {self.grace_ms}, but must be at least 0")
        if not 0 <= self.advance_ms <= self.size_ms:
            raise ValueError(
                f"advance_ms is {self.advance_ms}, but must be between 1 and size_ms, which is"
                f" {self.size_ms}: else there would be times in no window"
            )

    def starts(self, timestamp_ms: int) -> range:
        """Return the starts of the windows that a time is in; none begins before 1970."""
        advance_ms = self.advance_ms or self.size_ms
        first = max(0, timestamp_ms - self.size_ms + advance_ms) // advance_ms * advance_ms
        return range(first, timestamp_ms + 1, advance_ms)

    def is_open(self, start_ms: int, stream_time_ms: int) -> bool:
        """Whether a window still takes records when the latest one so far is of that time."""
        return start_ms + self.size_ms + self.grace_ms > stream_time_ms
