"""What was measured and how it compares: samples, medians, ratios.  Nothing here measures."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from quorate.dataclass import dataclass

Better = Literal["more", "less"]

# More than this of a core taken by somebody else, and a sample says as much about them.
OTHERS_CORES_MAX = 0.15


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that a scenario is about: its key in samples, its name and unit for people."""

    key: str
    label: str
    unit: str
    better: Better


RECORDS_PER_S = Metric("records_per_s", "", "records/s", "more")
BYTES_PER_S = Metric("bytes_per_s", "", "B/s", "more")
REQUESTS_PER_S = Metric("requests_per_s", "", "requests/s", "more")
P50 = Metric("p50_ms", "p50", "ms", "less")
P99 = Metric("p99_ms", "p99", "ms", "less")
P999 = Metric("p999_ms", "p99.9", "ms", "less")


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: its figures by key, or why there are none."""

    figures: Mapping[str, float]
    failure: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """All samples of one scenario, by subject: brokers, or clients.  The first is compared.

    `client_cores` is where the load generator was kept; empty means any core.
    """

    name: str
    title: str
    metrics: tuple[Metric, ...]
    samples: Mapping[str, tuple[Sample, ...]]
    client_cores: str = ""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Who was measured."""
        return tuple(self.samples)

    def median(self, subject: str, key: str) -> float | None:
        """Return the median of a figure over the samples that have it."""
        return median_of(self.samples[subject], key)

    def ratio(self, metric: Metric, subject: str, other: str) -> float | None:
        """Return how many times better `subject` is than `other`; above 1 it is better."""
        return times_better(
            self.median(subject, metric.key), self.median(other, metric.key), metric.better
        )

    def failures(self, subject: str) -> tuple[str, ...]:
        """Return why samples failed, each reason once."""
        return tuple(dict.fromkeys(s.failure for s in self.samples[subject] if s.failure))

    def is_disturbed(self, subject: str) -> bool:
        """Return whether somebody else used much of the machine during the median sample."""
        others = self.median(subject, "others_cores")
        return others is not None and others > OTHERS_CORES_MAX


def median_of(samples: Sequence[Sample], key: str) -> float | None:
    """Return the median of a figure over the samples that have it, or None."""
    values = [sample.figures[key] for sample in samples if key in sample.figures]
    return statistics.median(values) if values else None


def spread_of(samples: Sequence[Sample], key: str) -> float | None:
    """Return (highest - lowest) / median of a figure: 0 is perfectly steady."""
    values = [sample.figures[key] for sample in samples if key in sample.figures]
    median = statistics.median(values) if values else 0
    return (max(values) - min(values)) / median if median else None


def times_better(ours: float | None, theirs: float | None, better: Better) -> float | None:
    """Return how many times better ours is; None where that cannot be said."""
    if ours is None or theirs is None:
        return None
    numerator, denominator = (ours, theirs) if better == "more" else (theirs, ours)
    return numerator / denominator if denominator > 0 else None


def with_cpu(
    figures: Mapping[str, float], *, broker_cpu_s: float, machine_cpu_s: float
) -> dict[str, float]:
    """Add what the broker used per second and per unit of work, and what others used meanwhile.

    `machine_cpu_s` is what all processes used in the same window.
    """
    seconds = figures["seconds"]
    client_cpu_s = figures.get("client_cpu_s", 0.0)
    added = {
        **figures,
        "broker_cores": broker_cpu_s / seconds,
        "client_cores": client_cpu_s / seconds,
        # The kernel counts the machine in ticks of 10 ms, so a quiet one can come out below zero.
        "others_cores": max(0.0, (machine_cpu_s - broker_cpu_s - client_cpu_s) / seconds),
    }
    for work in ("records", "requests"):
        if work in figures and broker_cpu_s > 0:
            added[f"{work}_per_broker_cpu_s"] = figures[work] / broker_cpu_s
    return added


def shown(value: float | None, unit: str) -> str:
    """Return a figure with three digits and a unit, as people write it: 2.51 M records/s."""
    if value is None:
        return "-"
    if unit == "B":
        return f"{value / 2**20:.1f} MiB"
    if unit.endswith("/s"):
        for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= factor:
                return f"{digits(value / factor)} {prefix}{' ' if len(unit) > 3 else ''}{unit}"
    return f"{digits(value)} {unit}".rstrip()


def digits(value: float) -> str:
    """Return a number with about three significant digits and without an exponent."""
    magnitude = abs(value)
    if magnitude >= 100:
        return f"{value:.0f}"
    if magnitude >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if magnitude >= 0.1 else f"{value:.3f}"
