"""Numbers over time in bounded memory: the longer a run lasts, the wider its buckets of time."""

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import field
from typing import Any, Final, Generic, TypeVar

from quorate.dataclass import dataclass

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

BUCKETS_MAX: Final = 480
"""About as many as a picture has columns that one can tell apart."""

FIRST_WIDTH_NS: Final = 20_000_000

BINS_PER_DOUBLING: Final = 14
"""Of latencies: neighbours differ by 5 to 7 %."""

SHORTEST_NS: Final = 10_000
"""What is quicker counts as that."""

_FRACTION_BITS: Final = 4


@dataclass(slots=True)
class Series(Generic[K, V]):
    """A value for each bucket and key; where buckets are joined, so are their values."""

    join: Callable[[V, V], V]
    cells: dict[tuple[int, K], V] = field(default_factory=dict[Any, Any])

    def halve(self) -> None:
        """Join each bucket with its neighbour; cells are in the order of time."""
        wider: dict[tuple[int, K], V] = {}
        for (bucket, key), value in self.cells.items():
            cell = (bucket >> 1, key)
            wider[cell] = self.join(wider[cell], value) if cell in wider else value
        self.cells = wider

    def put(self, bucket: int, key: K, value: V) -> None:
        """Join a value to what the bucket has."""
        cell = (bucket, key)
        self.cells[cell] = self.join(self.cells[cell], value) if cell in self.cells else value

    def column(self, key: K) -> dict[int, V]:
        """Return the value of each bucket that has one for a key, in the order of time."""
        return {bucket: self.cells[bucket, one] for bucket, one in sorted_cells(self) if one == key}

    def keys(self) -> set[K]:
        """Return all keys."""
        return {key for _, key in self.cells}


def sorted_cells(series: Series[K, V]) -> list[tuple[int, K]]:
    """Return the cells of a series in the order of time."""
    return sorted(series.cells, key=lambda cell: cell[0])


def _add(one: int, other: int) -> int:
    return one + other


def _newer(one: V, other: V) -> V:
    del one
    return other


@dataclass(slots=True)
class TimeGrid:
    """Buckets of time from the first event on; all series of one grid have the same.

    Invariant: no time that was asked for lies behind bucket BUCKETS_MAX - 1.
    """

    width_ns: int = FIRST_WIDTH_NS
    start_ns: int | None = None
    end_ns: int = 0
    series: list[Series[Any, Any]] = field(default_factory=list[Series[Any, Any]])

    def counts(self) -> Series[Any, int]:
        """Return a new series of counts."""
        return self._joined(_add)

    def highest(self) -> Series[Any, int]:
        """Return a new series of maxima."""
        return self._joined(max)

    def states(self) -> Series[Any, Any]:
        """Return a new series of what was so at the end of each bucket."""
        return self._joined(_newer)

    def _joined(self, join: Callable[[Any, Any], Any]) -> Series[Any, Any]:
        series = Series[Any, Any](join)
        self.series.append(series)
        return series

    def bucket(self, time_ns: int) -> int:
        """Return the bucket of a time; this may make all buckets wider."""
        if self.start_ns is None:
            self.start_ns = time_ns
        self.end_ns = max(self.end_ns, time_ns)
        bucket = max(0, time_ns - self.start_ns) // self.width_ns
        while bucket >= BUCKETS_MAX:
            bucket >>= 1
            self.width_ns *= 2
            for series in self.series:
                series.halve()
        return bucket

    @property
    def duration_ns(self) -> int:
        """How long it lasted, and not nothing."""
        return max(self.end_ns - (self.start_ns or 0), 1)


def latency_bin(latency_ns: int) -> int:
    """Return the bin of a latency; bin 0 is that of the shortest.

    Bins double in width with each power of two, and are equally wide between: quicker than a
    logarithm.
    """
    if latency_ns <= SHORTEST_NS:
        return 0
    ratio = (latency_ns << _FRACTION_BITS) // SHORTEST_NS
    power = ratio.bit_length() - 1
    part = (ratio - (1 << power)) * BINS_PER_DOUBLING >> power
    return (power - _FRACTION_BITS) * BINS_PER_DOUBLING + part


def bin_ns(number: float) -> float:
    """Return the latency where a bin begins."""
    power, part = divmod(number, BINS_PER_DOUBLING)
    return SHORTEST_NS * float(1 << int(power)) * (1 + part / BINS_PER_DOUBLING)


@dataclass(slots=True)
class Histogram:
    """Latencies of one kind of operation."""

    counts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    longest_ns: int = 0

    def add(self, latency_ns: int, number: int) -> None:
        """Count a latency whose bin is known."""
        self.counts[number] += 1
        self.longest_ns = max(self.longest_ns, latency_ns)

    def quantile_ns(self, share: float) -> float:
        """Return what this share of all did not exceed, to within half a bin; 0 of none."""
        left = share * sum(self.counts.values())
        for number in sorted(self.counts):
            left -= self.counts[number]
            if left <= 0:
                return min(bin_ns(number + 0.5), self.longest_ns)
        return 0.0
