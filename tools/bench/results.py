"""A run as a value and as JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quorate.dataclass import dataclass
from quorate.tools.bench.figures import Metric, Outcome, spread_of

FORMAT_VERSION = 1
DIGITS = 6


@dataclass(frozen=True, slots=True)
class Run:
    """All that one run found, and under which circumstances."""

    machine: Mapping[str, str]
    settings: Mapping[str, str | int | float]
    versions: Mapping[str, str]
    outcomes: Sequence[Outcome]


def as_json(run: Run) -> dict[str, Any]:
    """Return a run as plain values: medians, ratios and spreads first, then every sample."""
    return {
        "format": FORMAT_VERSION,
        "machine": dict(run.machine),
        "settings": dict(run.settings),
        "versions": dict(run.versions),
        "scenarios": [_outcome(outcome) for outcome in run.outcomes],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    first = outcome.subjects[0]
    return {
        "name": outcome.name,
        "title": outcome.title,
        "client_cores": outcome.client_cores or "any",
        "metrics": [_metric(outcome, metric, first) for metric in outcome.metrics],
        "samples": {
            subject: [
                {key: _rounded(value) for key, value in sample.figures.items()}
                if not sample.failure
                else {"failure": sample.failure}
                for sample in samples
            ]
            for subject, samples in outcome.samples.items()
        },
    }


def _metric(outcome: Outcome, metric: Metric, first: str) -> dict[str, Any]:
    return {
        "key": metric.key,
        "unit": metric.unit,
        "better": metric.better,
        "medians": {s: _rounded(outcome.median(s, metric.key)) for s in outcome.subjects},
        "spreads": {
            s: _rounded(spread_of(outcome.samples[s], metric.key)) for s in outcome.subjects
        },
        "times_better": {
            s: _rounded(outcome.ratio(metric, first, s)) for s in outcome.subjects if s != first
        },
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def write_json(run: Run, path: Path) -> None:
    """Write a run for later comparison."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_json(run), indent=1) + "\n")
