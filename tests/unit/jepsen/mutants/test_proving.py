"""When a mutant counts as killed, and the harness as proven."""

from quorate.jepsen.mutants.proving import (
    INVALID,
    VALID,
    Score,
    Trial,
    command_of,
    is_killed,
    summary,
)
from quorate.jepsen.mutants.registry import MUTANTS

MUTANT = MUTANTS["ack-before-isr"]
UNKNOWN = 4


def killed(seed: int, seconds: float) -> Trial:
    return Trial(
        seed, planted=True, exit_code=INVALID, anomalies={"lost-write": 3}, seconds=seconds
    )


def alive(seed: int) -> Trial:
    return Trial(seed, planted=True, exit_code=VALID, anomalies={}, seconds=10.0)


def clean(seed: int, exit_code: int) -> Trial:
    return Trial(seed, planted=False, exit_code=exit_code, anomalies={}, seconds=10.0)


def test_a_run_kills_a_mutant_by_one_of_its_anomalies() -> None:
    assert is_killed(MUTANT, killed(1, 10.0))
    assert not is_killed(MUTANT, alive(1))


def test_a_run_that_is_red_for_another_reason_is_no_kill() -> None:
    assert not is_killed(MUTANT, Trial(1, True, INVALID, {"group-stuck": 1}, 10.0))


def test_a_run_that_knows_nothing_is_no_kill() -> None:
    assert not is_killed(MUTANT, Trial(1, True, UNKNOWN, {"lost-write": 1}, 10.0))


def test_nine_of_ten_runs_kill_a_mutant_and_eight_do_not() -> None:
    nine = [killed(seed, 10.0) for seed in range(9)]
    assert Score(MUTANT, (*nine, alive(10))).is_killed
    assert not Score(MUTANT, (*nine[:8], alive(9), alive(10))).is_killed


def test_a_mutant_without_runs_is_not_killed() -> None:
    assert not Score(MUTANT, ()).is_killed


def test_a_kill_is_proof_only_if_runs_without_the_bug_are_green() -> None:
    assert Score(MUTANT, (killed(1, 10.0), clean(1, VALID))).is_proven
    assert not Score(MUTANT, (killed(1, 10.0), clean(1, INVALID))).is_proven
    assert not Score(MUTANT, (killed(1, 10.0), clean(1, UNKNOWN))).is_proven


def test_what_must_be_found_is_shown_before_what_is_found_beside_it() -> None:
    trial = Trial(1, True, INVALID, {"dirty-read": 9, "unseen": 1, "lost-write": 2}, 10.0)
    assert Score(MUTANT, (trial, killed(2, 5.0))).found == ["lost-write", "unseen", "dirty-read"]


def test_the_summary_counts_mutants_and_runs() -> None:
    scores = [
        Score(MUTANT, (killed(1, 10.0), clean(1, VALID))),
        Score(MUTANT, (alive(1), clean(1, VALID))),
    ]
    assert summary(scores) == (
        "1 of 2 mutants are killed; found after 10 s in the median;"
        " 2 of 2 runs without a bug are green"
    )


def test_the_run_without_the_bug_is_the_same_run() -> None:
    planted = command_of(MUTANT, seed=3, planted=True, directory="d")
    assert planted[-2:] == ["--inject-bug", "ack-before-isr"]
    assert command_of(MUTANT, seed=3, planted=False, directory="d") == planted[:-2]
    assert planted[:3] == ["verify", "run", "append"]


def test_what_a_proof_asks_for_itself_is_said_last_and_holds() -> None:
    proof = MUTANTS["join-without-epoch-start"].proof
    words = command_of(MUTANTS["join-without-epoch-start"], seed=3, planted=False, directory="d")
    assert tuple(words[-len(proof.options) :]) == proof.options
    assert words[words.index("--controllers") + 1] == "1"
