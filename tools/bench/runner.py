"""Runs scenarios on all brokers in turn, A B B A, so that both meet the same machine.

Which memory is free, and which is the host's, depends on who ran before, however quiet it is since.
"""

import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

from quorate.tools.bench import figures
from quorate.tools.bench.brokers import Broker, fresh_node
from quorate.tools.bench.figures import Outcome, Sample
from quorate.tools.bench.measuring import (
    ONE_CORE,
    Bench,
    MeasurementFailedError,
    PageCache,
    wait_until_quiet,
)
from quorate.tools.bench.scenarios import Consume, Produce, Scenario, Subject
from quorate.tools.bench.topics import TopicUnavailableError
from tests.compat.peers.cache import PeerUnavailableError
from tests.compat.peers.nodes import NodeFailedError

# What may go wrong with one sample without being the end of the others.
FAILURES = (
    MeasurementFailedError,
    PeerUnavailableError,
    NodeFailedError,
    TopicUnavailableError,
    subprocess.SubprocessError,
    OSError,
)

Announce = Callable[[str], None]

QUICKER = 1.2
"""How many times quicker librdkafka must be on one core to be kept there."""


def run(
    bench: Bench,
    brokers: Sequence[Broker],
    scenarios: Sequence[Scenario],
    *,
    rounds: int,
    announce: Announce,
) -> list[Outcome]:
    """Start every broker once and run all scenarios on all of them."""
    with ExitStack() as stack:
        subjects = [
            Subject(
                broker, stack.enter_context(fresh_node(broker, cores=bench.broker_cores)), client=""
            )
            for broker in brokers
        ]
        for subject in subjects:
            announce(f"warming up {subject.name}")
            warm_up(bench, subject)
        page_cache = stack.enter_context(closing(PageCache()))

        def ready() -> None:
            if bench.quiet_wait_s > 0:
                os.sync()  # else the next sample pays for what the last one wrote and deleted
            page_cache.fill()
            wait_until_quiet(bench.quiet_wait_s)

        return [
            run_scenario(
                bench,
                subjects_of(scenario, subjects),
                scenario,
                rounds=rounds,
                announce=announce,
                wait_until_ready=ready,
            )
            for scenario in scenarios
        ]


def subjects_of(scenario: Scenario, subjects: Sequence[Subject]) -> list[Subject]:
    """Return who is compared: the brokers, or clients on the first of them."""
    if not scenario.clients:
        return list(subjects)
    return [replace(subjects[0], client=client) for client in scenario.clients]


def warm_up(bench: Bench, subject: Subject) -> None:
    """Load a broker as the scenarios will: a JVM gets to speed in seconds, not at once."""
    for scenario in (Produce(100, 1, "default batches"), Consume(100, 1)):
        attempt(lambda s=scenario: s.prepare(bench, subject))  # type: ignore[misc]
        attempt(lambda s=scenario: s.measure(bench, subject))  # type: ignore[misc]
        attempt(lambda s=scenario: s.clean(bench, subject))  # type: ignore[misc]


def run_scenario(
    bench: Bench,
    subjects: Sequence[Subject],
    scenario: Scenario,
    *,
    rounds: int,
    announce: Announce,
    wait_until_ready: Callable[[], None],
) -> Outcome:
    """Measure one scenario on all subjects in turn, `rounds` times."""
    samples: dict[str, list[Sample]] = {subject.name: [] for subject in subjects}
    ready = [s for s in subjects if _prepared(bench, s, scenario, samples)]
    if bench.tries_cores and isinstance(scenario, Produce | Consume):
        bench = placed(bench, ready, scenario, announce=announce, wait_until_ready=wait_until_ready)
    for number in range(1, rounds + 1):
        for subject in ready if number % 2 else reversed(ready):
            name = subject.name
            announce(f"{scenario.title}: {name}, round {number} of {rounds}")
            wait_until_ready()
            sample = attempt(lambda s=subject: scenario.measure(bench, s))  # type: ignore[misc]
            samples[name].append(told_if_it_ended(sample, subject))
    for subject in subjects:
        attempt(lambda s=subject: scenario.clean(bench, s))  # type: ignore[misc]
    return Outcome(
        scenario.name,
        scenario.title,
        scenario.metrics,
        {name: tuple(found) for name, found in samples.items()},
        bench.client_cores,
    )


def placed(
    bench: Bench,
    subjects: Sequence[Subject],
    scenario: Scenario,
    *,
    announce: Announce,
    wait_until_ready: Callable[[], None],
) -> Bench:
    """Return where a saturated librdkafka is to run, for all brokers: on any core, or on one.

    Its two threads hand each record over under one lock. With a core for each, they may fight for
    it, the more the less a broker takes of their cores: then the lock is what is measured.
    """
    rates: dict[str, float] = {}
    for cores in (bench.client_cores, ONE_CORE):
        tried = replace(bench, client_cores=cores)
        rates[cores] = 0.0
        for subject in subjects:
            announce(f"{scenario.title}: {subject.name}, tried on {cores_text(cores)}")
            wait_until_ready()
            sample = attempt(lambda t=tried, s=subject: scenario.measure(t, s))  # type: ignore[misc]
            rates[cores] += sample.figures.get("records_per_s", 0.0)
    is_quicker = rates[ONE_CORE] > QUICKER * rates[bench.client_cores]
    return replace(bench, client_cores=ONE_CORE) if is_quicker else bench


def cores_text(cores: str) -> str:
    """Return where a load generator runs, in words."""
    return f"core {cores}" if cores else "any core"


def _prepared(
    bench: Bench, subject: Subject, scenario: Scenario, samples: dict[str, list[Sample]]
) -> bool:
    prepared = attempt(lambda: scenario.prepare(bench, subject))
    if prepared.failure:
        samples[subject.name].append(prepared)
    return not prepared.failure


def told_if_it_ended(sample: Sample, subject: Subject) -> Sample:
    """Add what a broker said last, if it ended: that explains more than a refused connection."""
    code = subject.node.popen.poll()
    if code is None or not sample.failure:
        return sample
    ended = f"{subject.broker.name} ended with {code}:\n{subject.node.log_tail()}"
    return replace(sample, failure=f"{sample.failure}; {ended}")


def attempt(action: Callable[[], Sample | None]) -> figures.Sample:
    """Do something that may fail for reasons outside of us; the reason becomes the sample."""
    try:
        return action() or Sample({}, failure="")
    except FAILURES as error:
        return Sample({}, failure=str(error) or type(error).__name__)
