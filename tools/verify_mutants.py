"""``quorate verify mutants``: plants each bug, and sees whether the harness finds it."""

import difflib
import importlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Final

import typer

from quorate.dataclass import dataclass
from quorate.jepsen import store
from quorate.jepsen.mutants.mutant import Mutant
from quorate.jepsen.mutants.proving import Score, Trial, command_of, is_killed, summary
from quorate.jepsen.mutants.registry import MUTANTS
from quorate.tools.arguments import GlobalOptions
from quorate.tools.output import Column, Table, render
from quorate.tools.problems import EXIT_PROBLEM_FOUND, UsageError

TRIALS: Final = "trials.jsonl"
"""What became of each run, a line each; in the folder of all of them."""
SLACK_S: Final = 400.0
"""So much longer than its load a run may take until it is killed."""
ENDS_S_MAX: Final = 60.0
TIMED_OUT: Final = -1
STDOUT, STDERR = 1, 2

PRELOADED: Final = (
    "quorate.tools.cli",
    "quorate.tools.commands.verify",
    "quorate.tools.verify_running",
)
"""What each run would have to load."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says."""

    names: tuple[str, ...]
    seeds: int
    first_seed: int
    clean: int
    directory: Path | None


def list_mutants(options: GlobalOptions) -> None:
    """Print what there is."""
    columns = (Column("name"), Column("breaks"), Column("properties", wide_only=True))
    rows = tuple((m.name, m.breaks, ",".join(m.properties)) for m in MUTANTS.values())
    print(render(Table("mutants", columns, rows), options.format), end="")


def prove(options: GlobalOptions, wanted: Wanted) -> None:
    """Run each mutant over seeds, and the same without it; print what became of them.

    Raises:
        UsageError: there is no mutant of some name.
        typer.Exit: one was not found often enough, or a run without a bug is not green.
    """

    def tell(line: str) -> None:
        if not options.quiet:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    mutants = [_mutant(name) for name in wanted.names or MUTANTS]
    directory = wanted.directory or Path(tempfile.mkdtemp(prefix="quorate-mutants-"))
    directory.mkdir(parents=True, exist_ok=True)
    tell(f"runs are kept in {directory}; what was run there is not run again")
    for module in PRELOADED:
        importlib.import_module(module)
    scores = [_score(mutant, wanted, directory, tell) for mutant in mutants]
    print(render(_table(scores), options.format), end="")
    tell(summary(scores))
    if not all(score.is_proven for score in scores):
        raise typer.Exit(EXIT_PROBLEM_FOUND)


def _mutant(name: str) -> Mutant:
    if name in MUTANTS:
        return MUTANTS[name]
    near = difflib.get_close_matches(name, MUTANTS, n=1)
    why = f"did you mean {near[0]}?" if near else f"there are {', '.join(MUTANTS)}"
    raise UsageError(f"there is no mutant {name!r}", why=why, hint="quorate verify mutants --list")


def _score(mutant: Mutant, wanted: Wanted, directory: Path, tell: Tell) -> Score:
    """Make the runs that were not made yet; return what became of all."""
    done = {(trial.seed, trial.planted): trial for trial in _done(mutant, directory)}
    seeds = range(wanted.first_seed, wanted.first_seed + wanted.seeds)
    due = [(seed, True) for seed in seeds] + [(seed, False) for seed in seeds[: wanted.clean]]
    trials: list[Trial] = []
    for seed, planted in due:
        trial = done.get((seed, planted))
        if trial is None:
            trial = _try(mutant, seed, directory, planted=planted)
            _note(mutant, trial, directory)
            tell(_line(mutant, trial))
        trials.append(trial)
    return Score(mutant, tuple(trials))


def _done(mutant: Mutant, directory: Path) -> list[Trial]:
    """Return the runs of a mutant that were made before, the newest of a seed last."""
    path = directory / TRIALS
    lines = path.read_text().splitlines() if path.exists() else []
    documents: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [Trial(**each) for each in documents if each.pop("mutant") == mutant.name]


def _note(mutant: Mutant, trial: Trial, directory: Path) -> None:
    with (directory / TRIALS).open("a") as file:
        file.write(json.dumps({"mutant": mutant.name, **asdict(trial)}) + "\n")


def _try(mutant: Mutant, seed: int, directory: Path, *, planted: bool) -> Trial:
    """Run once, in a process of its own."""
    folder = directory / f"{mutant.name}-{seed}{'' if planted else '-without'}"
    words = command_of(mutant, seed=seed, planted=planted, directory=str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    begun_s = time.monotonic()
    process = multiprocessing.get_context("fork").Process(
        target=_carry_out, args=(words, folder / "output")
    )
    process.start()
    exit_code = TIMED_OUT
    try:
        process.join(mutant.proof.seconds + SLACK_S)
        exit_code = TIMED_OUT if process.exitcode is None else process.exitcode
    finally:
        _end(process)
    seconds = time.monotonic() - begun_s
    return Trial(seed, planted, exit_code, _anomalies(folder), round(seconds, 1))


def _carry_out(words: Sequence[str], output: Path) -> None:
    """Be the quorate command, in a process that has all of it in memory already."""
    from quorate.tools.cli import run_command

    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for standard in (STDOUT, STDERR):
        os.dup2(file, standard)
    sys.exit(run_command(list(words)))


def _end(process: ForkProcess) -> None:
    """Have a run end what it started, as after ^C, if it has not ended; in bounded time."""
    process.terminate()
    process.join(ENDS_S_MAX)
    if process.exitcode is None:
        process.kill()  # its reaper ends the rest
        process.join()
    process.close()


def _anomalies(folder: Path) -> dict[str, int]:
    """Return what the newest run in a folder found."""
    runs = store.list_runs(folder)
    verdict = runs[0].read_verdict() if runs else {}
    found: dict[str, int] = verdict.get("anomalies", {})
    return dict(found)


def _line(mutant: Mutant, trial: Trial) -> str:
    """Return what became of one run."""
    if trial.planted:
        became = "killed" if is_killed(mutant, trial) else "NOT KILLED"
    else:
        became = "green" if trial.exit_code == 0 else "NOT GREEN"
    bug = mutant.name if trial.planted else f"without {mutant.name}"
    found = ", ".join(f"{name} {count}" for name, count in trial.anomalies.items())
    return (
        f"{bug}, seed {trial.seed}: {became} after {trial.seconds:.0f} s,"
        f" exit {trial.exit_code}{f'; {found}' if found else ''}"
    )


def _table(scores: Sequence[Score]) -> Table:
    columns = ("mutant", "killed", "green", "seconds", "found")
    rows = tuple(
        (
            score.mutant.name,
            f"{len(score.kills)}/{len(score.planted)}",
            f"{len(score.green)}/{len(score.clean)}",
            "-" if score.seconds is None else f"{score.seconds:.0f}",
            ",".join(score.found) or "-",
        )
        for score in scores
    )
    return Table("mutants", tuple(Column(name) for name in columns), rows)
