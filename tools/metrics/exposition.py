"""Samples as Prometheus reads them, with what the process itself uses beside them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from quorate.tools.metrics.specs import ALL, Kind, Sample, grouped

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

Family = CounterMetricFamily | GaugeMetricFamily | SummaryMetricFamily

FAMILIES: Final[Mapping[Kind, type[Family]]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "summary": SummaryMetricFamily,
}


class SampleCollector(Collector):
    """Has samples made whenever Prometheus asks; keeps nothing."""

    def __init__(self, read: Callable[[], Iterable[Sample]]) -> None:
        self._read = read

    def describe(self) -> Iterable[Family]:
        """Return nothing: names are checked by a test, not by reading all once more."""
        return ()

    def collect(self) -> Iterator[Family]:
        """Yield every metric that there are samples of."""
        for name, samples in grouped(self._read()):
            spec = ALL[name]
            family = FAMILIES[spec.kind](name, spec.meaning, labels=spec.labels)
            suffix = "_total" if spec.kind == "counter" else ""
            for sample in samples:
                labels = dict(zip(spec.labels, sample.labels, strict=False))
                family.add_sample(name + suffix + sample.suffix, labels, sample.value)
            yield family


def registry_of(read: Callable[[], Iterable[Sample]]) -> CollectorRegistry:
    """Return a registry of a node's own, which asks it anew each time."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SampleCollector(read))
    ProcessCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> bytes:
    """Return everything as text."""
    return generate_latest(registry)
