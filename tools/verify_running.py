"""``quorate verify run``: what was asked, the run, the verdict, the exit code."""

import contextlib
import difflib
import secrets
import shlex
import signal
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.jepsen import store
from quorate.jepsen.lab.against import AddressError
from quorate.jepsen.lab.hosts import NeverCameUpError
from quorate.jepsen.lab.namespaces import NoNetworkError
from quorate.jepsen.nemesis.conducting import Tell
from quorate.jepsen.nemesis.faults import DEFAULT as DEFAULT_FAULTS
from quorate.jepsen.options import RunOptions, UnknownNameError, fitted
from quorate.jepsen.recorder import HistoryEndedError
from quorate.jepsen.running import NotReadyError, Run, tidy
from quorate.jepsen.workloads.metadata import METADATA
from quorate.jepsen.workloads.registry import DEFAULT as DEFAULT_WORKLOADS
from quorate.tools.arguments import GlobalOptions
from quorate.tools.problems import CommandError, ProblemFoundError, UnreachableError, UsageError
from quorate.tools.verify_judging import conclude

NONE: Final = "none"
SEED_MAX: Final = 1_000_000
NEAR: Final = 0.7
"""How alike a word and a name are at the least, for the name to be what was meant."""

LISTS: Final = {
    "workload": "quorate verify list --workloads",
    "fault": "quorate verify list --faults",
    "variant": "quorate verify list --faults --format wide",
    "bug": "quorate verify mutants --list",
}
"""What lists the names of a kind, where they are many."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says; ``chosen`` are fields of RunOptions."""

    workloads: tuple[str, ...]
    faults: str | None
    seconds: float
    seed: int | None
    directory: Path | None
    properties: tuple[str, ...]
    topic_configs: tuple[str, ...]
    chosen: Mapping[str, Any]

    def options(self) -> RunOptions:
        """Return it as a run takes it.

        Raises:
            UsageError: a property is no NAME=VALUE, or faults make no sense.
        """
        return RunOptions(
            workloads=self.workloads or DEFAULT_WORKLOADS,
            faults=_names(self.faults),
            seconds=self.seconds,
            seed=secrets.randbelow(SEED_MAX) if self.seed is None else self.seed,
            root=self.directory or store.DEFAULT_ROOT,
            properties=_pairs("--property", self.properties),
            topic_configs=_pairs("--topic-config", self.topic_configs),
            **self.chosen,
        )

    def check_numbers(self) -> None:
        """See that there can be as many of everything as the command line says.

        Raises:
            UsageError: there cannot.
        """
        options = self.options()
        if options.against:
            return
        if options.controllers % 2 == 0:
            raise UsageError(
                f"there cannot be {options.controllers} controllers",
                why=f"they survive no more failures than {options.controllers - 1}: a majority"
                " of an even number is one more than half",
                hint=f"--controllers {options.controllers - 1}, or {options.controllers + 1}",
            )
        fit = fitted(options, options.brokers)
        if "min_insync" in self.chosen and fit.min_insync < options.min_insync:
            wanted, replicas = options.min_insync, fit.replication_factor
            spare = "" if wanted > replicas else ", of which one may be missing"
            more = f"--brokers {max(wanted, options.brokers)} -r {wanted}"
            raise UsageError(
                f"--min-insync {wanted} cannot be",
                why=f"replicas of a topic: {replicas}{spare}; brokers: {options.brokers}",
                hint=f"--min-insync {fit.min_insync}, or {more}",
            )


def verify_run(options: GlobalOptions, asked: Asked) -> None:
    """Run, judge, print.

    Raises:
        CommandError: the command line is wrong, or there was nothing to put under load.
        typer.Exit: with the verdict's exit code.
    """
    wanted = asked.options()
    asked.check_numbers()
    if wanted.against and (wanted.mutant or wanted.properties):
        raise UsageError(
            "--inject-bug and --property are for clusters that are started here",
            why="--against names one that runs already",
            hint="leave one of them out",
        )

    if wanted.against and METADATA.name in wanted.workloads:
        raise UsageError(
            f"{METADATA.name} speaks to controllers of Quorate",
            why="those of a cluster that --against names are not known",
            hint="leave it out: append, groups, offsets and others speak to brokers only",
        )

    def tell(line: str) -> None:
        if not options.quiet:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    run = _prepared(wanted, tell)
    tell(f"quorate verify: {' '.join(wanted.workloads)}, seed {wanted.seed}, in {run.folder.path}")
    try:
        with _ended_like_interrupted():
            run.carry_out()
    except (NeverCameUpError, NotReadyError) as error:
        raise UnreachableError(
            "the cluster is not ready to be put under load",
            why=str(error),
            hint=f"look at the nodes' logs in {run.folder.nodes}",
        ) from None
    except HistoryEndedError as error:
        raise CommandError(
            f"the history of {run.folder.path} cannot be written any more",
            why=str(error),
            hint=f"quorate verify check {shlex.quote(str(run.folder.path))} judges what there is",
        ) from None
    except KeyboardInterrupt:
        tell(f"interrupted; what happened so far is in {run.folder.path}")
        tell(f"quorate verify check {shlex.quote(str(run.folder.path))} judges it")
        raise
    is_invalid = False
    try:
        conclude(options, run.folder)
    except ProblemFoundError:
        is_invalid = True
        raise
    finally:
        if not wanted.keep_data:
            tidy(run.folder, pack=is_invalid)


def _prepared(wanted: RunOptions, tell: Tell) -> Run:
    try:
        return Run(wanted, tell)
    except UnknownNameError as error:
        raise _unknown(error) from None
    except OSError as error:
        raise UsageError(
            f"no run can be kept in {wanted.root}",
            why=f"a folder cannot be made there: {error.strerror or error}",
            hint="--dir takes a folder that you may write to; it is made if it is not there",
        ) from None
    except NoNetworkError as error:
        raise UsageError(
            "there can be no network of namespaces here",
            why=str(error),
            hint="--network proxy works for everybody, and says what of faults is reduced",
        ) from None
    except AddressError as error:
        raise UsageError(
            str(error), why="--against names brokers", hint="--against 127.0.0.1:9092"
        ) from None
    except NeverCameUpError as error:
        raise UnreachableError(
            str(error), why="it is not up, or not there", hint="quorate brokers list -b host:port"
        ) from None


def _unknown(error: UnknownNameError) -> UsageError:
    near = difflib.get_close_matches(error.word, error.known, n=1, cutoff=NEAR)
    there_are = f"there are {', '.join(error.known)}"
    return UsageError(
        f"there is no {error.what} {error.word!r}",
        why=f"did you mean {near[0]}?" if near else there_are,
        hint=LISTS.get(error.what.split()[0], there_are if near else "quorate verify run --help"),
    )


def _names(text: str | None) -> tuple[str, ...]:
    if text is None:
        return DEFAULT_FAULTS
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError("--faults names none", why="it is empty", hint=f"--faults {NONE}")
    if NONE in words and words != [NONE]:
        others = ",".join(word for word in words if word != NONE)
        raise UsageError(
            f"--faults {text} is not understood",
            why=f"{NONE} stands alone",
            hint=f"--faults {NONE}, or --faults {others}" if others else f"--faults {NONE}",
        )
    return () if words == [NONE] else tuple(dict.fromkeys(words))


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(
                f"{option} {text!r} is not understood",
                why="it is NAME=VALUE",
                hint=f"{option} flush.messages=1",
            )
        pairs[name] = value
    return pairs


@contextlib.contextmanager
def _ended_like_interrupted() -> Generator[None]:
    """Take SIGTERM and SIGHUP for ^C, so that all is cleaned up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
