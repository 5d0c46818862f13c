"""What became of a simulated run."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.timeline import StepsDoneError, Timeline
from tests.simulation.trace import Trace, ViolationError


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a run; ``violation`` is ``None`` if every promise was kept."""

    seed: int
    violation: str | None
    digest: str
    simulated_s: float
    counts: Counter[str]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """How closely a run is looked at.

    ``show`` is given every line of the trace as it is written; after ``steps_max`` events the run
    ends.
    """

    show: Callable[[str], None] | None = None
    steps_max: float = math.inf


PLAIN = Look()


def reported(
    seed: int,
    scenario: object,
    look: Look,
    all_of_it: Callable[[Timeline, Trace], None],
    never_fail: str,
) -> Report:
    """Run a seed and say what became of it.

    Args:
        seed: which one.
        scenario: what it drew, for the trace.
        look: how closely.
        all_of_it: the run; it raises a ViolationError, or whatever the code under test raises.
        never_fail: the name of the invariant that the latter breaks.
    """
    timeline = Timeline(look.steps_max)
    trace = Trace(timeline, look.show)
    trace.note("scenario", str(scenario))
    violation = None
    try:
        all_of_it(timeline, trace)
    except StepsDoneError:
        trace.note("enough", "steps")
    except ViolationError as error:
        violation = str(error)
    except Exception as error:  # noqa: BLE001 - whatever the code under test raises ends it
        violation = f"{never_fail}: {type(error).__name__}: {error} [{_where(error)}]"
        trace.note("VIOLATION", violation)
    trace.counts["events"] = timeline.events
    lines = tuple(trace.lines)
    return Report(seed, violation, trace.digest, timeline.now_s, trace.counts, lines)


def _where(error: Exception) -> str:
    traceback = error.__traceback__
    assert traceback is not None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return f"{code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno} {code.co_name}"
