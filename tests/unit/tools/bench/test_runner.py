"""Where a load generator runs that fights with itself."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from quorate.tools.bench import runner
from quorate.tools.bench.figures import Sample
from quorate.tools.bench.measuring import ONE_CORE, Bench
from quorate.tools.bench.scenarios import Produce, Subject

if TYPE_CHECKING:
    from collections.abc import Sequence

BENCH = Bench(2.0, 0.5, 0.0, "", "", 0, Path("unused"), tries_cores=True)
SCENARIO = Produce(100, 1, "default batches")


class Named:
    """Stands for a broker that is measured."""

    def __init__(self, name: str) -> None:
        self.name = name


SUBJECTS = cast("Sequence[Subject]", (Named("a"), Named("b")))


@pytest.mark.parametrize(
    ("rates", "kept"),
    [
        ({("a", ""): 1.0, ("b", ""): 1.4, ("a", "1"): 2.2, ("b", "1"): 2.1}, ONE_CORE),
        ({("a", ""): 3.6, ("b", ""): 3.3, ("a", "1"): 3.4, ("b", "1"): 3.5}, ""),
        ({("a", ""): 2.0, ("a", "1"): 2.3}, ""),  # the other one failed
        ({}, ""),
    ],
)
def test_a_generator_is_kept_on_one_core_if_it_is_much_quicker_there_with_all_brokers_together(
    monkeypatch: pytest.MonkeyPatch, rates: dict[tuple[str, str], float], kept: str
) -> None:
    tried: list[tuple[str, str]] = []

    def measure(_scenario: Produce, bench: Bench, subject: Subject) -> Sample:
        key = (subject.name, bench.client_cores)
        tried.append(key)
        if key not in rates:
            raise OSError("no such program")
        return Sample({"records_per_s": rates[key]}, failure="")

    monkeypatch.setattr(Produce, "measure", measure)
    said: list[str] = []
    waited: list[Any] = []
    placed = runner.placed(
        BENCH,
        SUBJECTS,
        SCENARIO,
        announce=said.append,
        wait_until_ready=lambda: waited.append(None),
    )
    assert placed == replace(BENCH, client_cores=kept)
    assert tried == [("a", ""), ("b", ""), ("a", "1"), ("b", "1")]
    assert len(waited) == len(said) == 4
    assert "tried on any core" in said[0]
    assert "tried on core 1" in said[-1]
