"""Samples as Prometheus reads them, with what the process itself uses beside them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from quorate.tools.metrics.specs import ALL, Sample, grouped

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

Family = CounterMetricFamily | GaugeMetricFamily


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
            make = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
            family = make(name, spec.meaning, labels=spec.labels)
            for sample in samples:
                family.add_metric(sample.labels, sample.value)
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
