"""Request times as samples: sums since the start, quantiles of about the last minute."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from quorate.broker.request_times import BOUNDS_S, ApiTimes
from quorate.tools.metrics.specs import Sample

TOTAL: Final = "kafka_network_requestmetrics_totaltimems"
LOCAL: Final = "kafka_network_requestmetrics_localtimems"
REMOTE: Final = "kafka_network_requestmetrics_remotetimems"
QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""As the rules of the JMX exporter write them."""

WINDOW_MS: Final = 60_000
STEP_MS: Final = 10_000
"""What was counted is remembered so often, at most: several may ask, as often as they like."""


def quantile_s(counts: Sequence[int], quantile: float) -> float:
    """Return what so much of all took at most, by even shares between two bounds.

    Args:
        counts: by :data:`BOUNDS_S`; not all of them 0.
        quantile: 0 to 1.
    """
    wanted = quantile * sum(counts)
    below = 0
    for place, count in enumerate(counts):
        if count and below + count >= wanted:
            low_s = BOUNDS_S[place - 1] if place else 0.0
            high_s = BOUNDS_S[min(place, len(BOUNDS_S) - 1)]
            return low_s + (high_s - low_s) * (wanted - below) / count
        below += count
    return BOUNDS_S[-1]


class TimeSamples:
    """Tells request times; remembers what they were about a minute ago."""

    def __init__(self) -> None:
        self._before: deque[tuple[int, Mapping[str, Sequence[int]]]] = deque()

    def samples(self, apis: Mapping[str, ApiTimes], now_ms: int) -> Iterator[Sample]:
        """Yield the times of requests by Kafka's names of them."""
        counted = {name: list(times.counts) for name, times in apis.items()}
        before = self._turn_over(counted, now_ms)
        for name, times in apis.items():
            counts = counted[name]
            recent = _difference(counts, before.get(name))
            if any(recent):
                for quantile in QUANTILES:
                    value_ms = 1000 * quantile_s(recent, float(quantile))
                    yield Sample(TOTAL, value_ms, (name, quantile))
            for metric, sum_s in (
                (TOTAL, times.total_s),
                (LOCAL, times.local_s),
                (REMOTE, times.remote_s),
            ):
                yield Sample(metric, sum(counts), (name,), "_count")
                yield Sample(metric, 1000 * sum_s, (name,), "_sum")

    def _turn_over(
        self, counted: Mapping[str, Sequence[int]], now_ms: int
    ) -> Mapping[str, Sequence[int]]:
        """Return what was counted a minute ago, or as long as we know; remember what is now."""
        before = self._before
        if not before:
            before.append((now_ms, {}))
        elif now_ms - before[-1][0] >= STEP_MS:
            before.append((now_ms, counted))
        while len(before) > 1 and now_ms - before[1][0] >= WINDOW_MS:
            before.popleft()
        return before[0][1]


def _difference(counts: Sequence[int], before: Sequence[int] | None) -> Sequence[int]:
    return counts if before is None else [a - b for a, b in zip(counts, before, strict=True)]
