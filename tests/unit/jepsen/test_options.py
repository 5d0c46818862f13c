"""What a run is asked to do, and how it is asked for again."""

from pathlib import Path

import pytest

from quorate.jepsen.options import (
    RunOptions,
    UnknownNameError,
    check_names,
    families_of,
    fitted,
    kinds_of,
)

ROOT = Path("runs")


def asked(**chosen: object) -> RunOptions:
    return RunOptions(("append",), ("kill", "pause"), 60.0, 7, ROOT, **chosen)  # type: ignore[arg-type]


def test_the_command_that_repeats_a_run_says_only_what_is_not_usual() -> None:
    assert asked().repeat() == "quorate verify run append --time 60 --faults kill,pause --seed 7"


def test_the_command_that_repeats_a_run_says_all_that_is_not_usual() -> None:
    options = asked(
        brokers=5, client="java", mutant="ack-before-isr", topic_configs={"flush.messages": "1"}
    )
    assert options.repeat().endswith(
        "--seed 7 --brokers 5 --client java --inject-bug ack-before-isr"
        " --topic-config flush.messages=1"
    )


def test_a_run_against_somebody_elses_cluster_is_repeated_without_its_nodes() -> None:
    options = fitted(asked(against="h:9092"), 1)
    assert (options.brokers, options.controllers, options.min_insync) == (1, 0, 1)
    assert options.repeat().endswith("--against h:9092 --replication-factor 1 --min-insync 1")


def test_a_single_broker_has_the_only_replica() -> None:
    options = fitted(asked(brokers=1), 1)
    assert (options.replication_factor, options.min_insync) == (1, 1)
    assert fitted(asked(), 3) == asked()


def test_a_fault_may_be_one_variant_of_its_family_or_several() -> None:
    families = families_of(["kill:leader", "kill:all", "pause"])
    assert list(families["kill"].variants) == ["leader", "all"]
    assert len(families["pause"].variants) > 1


@pytest.mark.parametrize("name", ["nothing", "kill:nobody"])
def test_a_fault_that_nobody_knows_is_refused(name: str) -> None:
    with pytest.raises(UnknownNameError):
        families_of([name])


def test_a_workload_that_nobody_knows_is_refused_and_the_known_ones_are_told() -> None:
    with pytest.raises(UnknownNameError, match="append"):
        kinds_of(["nothing"])


@pytest.mark.parametrize(
    "chosen", [{"schedule": "x"}, {"client": "x"}, {"acks": "x"}, {"mutant": "x"}]
)
def test_whatever_else_has_a_name_is_looked_up(chosen: dict[str, str]) -> None:
    check_names(asked())
    with pytest.raises(UnknownNameError):
        check_names(asked(**chosen))
