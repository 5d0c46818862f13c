"""A run as one picture: how many times better the first subject is, a bar per metric."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from quorate.tools.bench.figures import Outcome, digits, shown

BETTER, WORSE = "#2a9d8f", "#e76f51"
ROW_INCHES = 0.3


def bars_of(outcomes: Sequence[Outcome]) -> list[tuple[str, float]]:
    """Return a label and a ratio for every metric that compares two subjects."""
    bars: list[tuple[str, float]] = []
    for outcome in outcomes:
        first, *others = outcome.subjects
        for metric in outcome.metrics:
            for other in others:
                ratio = outcome.ratio(metric, first, other)
                if ratio:
                    ours = shown(outcome.median(first, metric.key), metric.unit)
                    theirs = shown(outcome.median(other, metric.key), metric.unit)
                    name = ", ".join(filter(None, (outcome.title, metric.label)))
                    bars.append((f"{name}\n{first} {ours}, {other} {theirs}", ratio))
    return bars


def write_plot(outcomes: Sequence[Outcome], path: Path, *, title: str) -> bool:
    """Draw the picture; False if there is nothing to compare."""
    bars = bars_of(outcomes)
    if not bars:
        return False
    # Slow to import, and only needed here.
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    # Its annotations are incomplete.
    figure, axes = cast(
        "tuple[Any, Any]", plt.subplots(figsize=(10, 1.2 + 1.3 * ROW_INCHES * len(bars)))
    )
    _draw(axes, bars)
    figure.suptitle(title, fontsize=9, x=0.01, ha="left", y=1, va="bottom")  # above it all
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)
    return True


def _draw(axes: Any, bars: Sequence[tuple[str, float]]) -> None:
    labels = [label for label, _ in bars]
    ratios = [ratio for _, ratio in bars]
    positions = range(len(bars))
    # From 1 on a logarithmic axis, so that twice as good and half as good look the same.
    axes.barh(
        positions,
        [ratio - 1 for ratio in ratios],
        left=1,
        color=[BETTER if ratio >= 1 else WORSE for ratio in ratios],
    )
    axes.set_xscale("log")
    axes.set_yticks(positions, labels, fontsize=7)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    low, high = min([*ratios, 0.5]), max([*ratios, 2])
    axes.set_xlim(low / 1.6, high * 1.6)
    ticks = [x for x in (0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 50, 100) if low / 1.6 < x < high * 1.6]
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    for position, ratio in zip(positions, ratios, strict=True):
        axes.annotate(
            f" {digits(ratio)}x ",
            (ratio, position),
            ha="left" if ratio >= 1 else "right",
            va="center",
            fontsize=7,
        )
