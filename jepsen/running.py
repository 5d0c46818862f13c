"""A run from its beginning to its verdict's data: cluster, load, faults, heal, final reads, audit.

Whatever ends it, nothing stays behind but its folder, and the history up to then.
"""

import contextlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, Final

from quorate import __version__
from quorate.errors import ErrorCode, QuorateError
from quorate.jepsen import store
from quorate.jepsen.auditing import audit_metadata, audit_replicas, high_watermarks
from quorate.jepsen.clients.wire import Client, ClosedError, create_topic
from quorate.jepsen.history import Kind
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import QUORATE, ROOT, DiedError
from quorate.jepsen.lab.local import LocalLab, LocalPlan
from quorate.jepsen.lab.reaper import Reaper
from quorate.jepsen.nemesis.conducting import Conductor, Tell
from quorate.jepsen.nemesis.schedules import SCHEDULES
from quorate.jepsen.options import RunOptions, check_schedule, families_of, kinds_of
from quorate.jepsen.recorder import Recorder
from quorate.jepsen.watching import Watcher
from quorate.jepsen.workloads.workload import Context, Topic, TopicOptions, Workload
from quorate.model import Endpoint

CREATED_S_MAX: Final = 30.0
WARM_S_MAX: Final = 15.0
WHOLE_S_MAX: Final = 60.0
POLL_S: Final = 0.05
ALIVE_S: Final = 1.0
EXISTS: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class NotReadyError(QuorateError):
    """The cluster does not take what a run begins with; says what, and for how long."""


class Run:
    """One run; made, then :meth:`carry_out` once."""

    def __init__(self, options: RunOptions, tell: Tell) -> None:
        """Check the names.

        Raises:
            UnknownNameError: there is none of some name.
        """
        self._options = options
        self._tell = tell
        self._kinds = kinds_of(options.workloads)
        self._families = families_of(options.faults)
        check_schedule(options.schedule)
        self._begun_s = time.monotonic()
        self._workloads: list[Workload] = []
        self._started = datetime.fromtimestamp(time.time_ns() / 1e9, UTC)
        self.folder = store.create(options.root, self._started, options.workloads, options.seed)

    def carry_out(self) -> None:
        """Do it all; the history is then in the folder, whole.

        Raises:
            NeverCameUpError, NotReadyError: there was nothing to be put under load.
            KeyboardInterrupt: somebody wants it to end; the history ends early.
        """
        header = self._header()
        self.folder.write_about(header, repeat=self._options.repeat())
        with Reaper() as reaper, contextlib.ExitStack() as stack:
            recorder = Recorder(self.folder.history, header)
            stack.callback(recorder.close)
            lab = self._lab(reaper)
            stack.callback(lab.close)
            rng = Random(self._options.seed)
            conductor = Conductor(lab, recorder, Random(rng.getrandbits(64)), self._say)
            for kind in self._kinds:
                context = self._context(lab, recorder, Random(rng.getrandbits(64)), kind.share)
                self._workloads.append(kind.make(context))
                stack.callback(self._workloads[-1].close)
            watcher = Watcher(lab, recorder)
            stack.callback(watcher.stop)
            self._live(lab, recorder, conductor, watcher, Random(rng.getrandbits(64)))

    def _live(
        self, lab: Lab, recorder: Recorder, conductor: Conductor, watcher: Watcher, rng: Random
    ) -> None:
        scribe = conductor.scribe
        lab.start()
        topics = [topic for workload in self._workloads for topic in workload.topics()]
        self._create(lab, topics)
        self._say(f"{len(lab.controllers)} controllers, {len(lab.brokers)} brokers are up")
        scribe.tell("phase", "warm-up")
        watcher.start()
        for workload in self._workloads:
            workload.start()
        self._warm_up(recorder)
        scribe.tell("phase", "load")
        try:
            schedule = SCHEDULES[self._options.schedule]
            steps = schedule(self._families, self._options.seconds, rng)
            conductor.run(steps, self._families, self._options.seconds, self._ticker(lab))
            scribe.tell("phase", "heal")
            conductor.heal_all()
            self._make_whole(lab, [topic.name for topic in topics], conductor)
            for workload in self._workloads:
                workload.stop()
            scribe.tell("phase", "final")
            for workload in self._workloads:
                workload.final()
            lab.check_alive()
            ends = high_watermarks(lab, [n for topic in topics for n in topic.partition_names()])
            watcher.stop()
            controller = lab.active_controller()
            lab.stop()
        except DiedError as error:
            self._say(f"a node died: {error}")
            scribe.tell("complaint", ["node-died", str(error)])
        else:
            self._say("all nodes ended; reading their disks")
            audit_replicas(lab, recorder, ends)
            if controller is not None:
                audit_metadata(controller, recorder)
        for workload in self._workloads:
            for sentence in workload.errors():
                scribe.tell("complaint", ["workload-failed", sentence])
        scribe.tell("phase", "end")

    # --- its parts

    def _lab(self, reaper: Reaper) -> Lab:
        options = self._options
        launch = (sys.executable, "-m", "quorate.jepsen.mutants.launch", options.mutant, "--")
        command = launch if options.mutant else QUORATE
        plan = LocalPlan(options.brokers, options.controllers, options.properties, command)
        return LocalLab(self.folder.nodes, plan, reaper)

    def _context(self, lab: Lab, recorder: Recorder, rng: Random, share: int) -> Context:
        options = self._options
        configs = {"min.insync.replicas": str(options.min_insync), **options.topic_configs}
        topics = TopicOptions(options.partitions, options.replication_factor, configs)
        folder = self.folder.path / "clients"
        folder.mkdir(exist_ok=True)
        rate = options.rate_per_s * share // sum(kind.share for kind in self._kinds)
        return Context(
            lab.bootstrap, recorder, rng, options.client, rate, options.acks, topics, lab, folder
        )

    def _create(self, lab: Lab, topics: Sequence[Topic]) -> None:
        for topic in topics:
            complaint = f"topic {topic.name} cannot be created"
            wait(partial(_is_created, lab, topic), CREATED_S_MAX, complaint)
        names = [topic.name for topic in topics]
        wait(lambda: lab.is_whole(names), CREATED_S_MAX, "not all replicas are in sync")

    def _warm_up(self, recorder: Recorder) -> None:
        """Wait until something is answered."""
        wait(
            lambda: recorder.totals()[Kind.OK] > len(self._workloads),
            WARM_S_MAX,
            "no client is answered",
        )

    def _ticker(self, lab: Lab) -> Callable[[], None]:
        """Return what sees now and then that nobody died."""
        looked_s = time.monotonic()

        def tick() -> None:
            nonlocal looked_s
            if time.monotonic() - looked_s > ALIVE_S:
                lab.check_alive()
                looked_s = time.monotonic()

        return tick

    def _make_whole(self, lab: Lab, names: Sequence[str], conductor: Conductor) -> None:
        """Start what does not run, and wait until all replicas are in sync."""
        lab.start()
        begun_s = time.monotonic()
        try:
            wait(lambda: lab.is_whole(names), WHOLE_S_MAX, "not all replicas are in sync")
        except NotReadyError as error:
            self._say(f"{error}: {lab.view()}")
            conductor.scribe.tell("complaint", ["never-whole", f"{error}: {lab.view()}"])
        else:
            self._say(f"healed; whole again after {time.monotonic() - begun_s:.1f} s")

    def _header(self) -> dict[str, Any]:
        options = self._options
        return {
            "seed": options.seed,
            "workloads": list(options.workloads),
            "faults": list(options.faults),
            "version": __version__,
            "commit": _commit(),
            "python": platform.python_version(),
            "kernel": platform.release(),
            "brokers": options.brokers,
            "controllers": options.controllers,
            "replication_factor": options.replication_factor,
            "min_insync": options.min_insync,
            "acks": options.acks,
            "idempotent": options.acks == "all",
            "session_timeout_ms": 2_000,
            "client": options.client,
            "against": bool(options.against),
            "durability": "page-cache",
            "mutant": options.mutant,
            "started": self._started.isoformat(timespec="seconds"),
            "clock": [time.time_ns() // 1_000_000, time.monotonic_ns()],
            "allowed": [],
            "quotas": {},
            "duration_s": options.seconds,
        }

    def _say(self, text: str) -> None:
        seconds = int(time.monotonic() - self._begun_s)
        self._tell(f"{seconds // 60:02}:{seconds % 60:02}  {text}")


def wait(is_done: Callable[[], bool], seconds_max: float, complaint: str) -> None:
    """Wait for a state.

    Raises:
        NotReadyError: it did not come about.
    """
    deadline_s = time.monotonic() + seconds_max
    while not is_done():
        if time.monotonic() > deadline_s:
            raise NotReadyError(f"{complaint} after {seconds_max:.0f} s")
        time.sleep(POLL_S)


def _is_created(lab: Lab, topic: Topic) -> bool:
    host, _, port = lab.bootstrap.split(",")[0].rpartition(":")
    try:
        with Client(Endpoint(host, int(port))) as client:
            code = create_topic(
                client,
                topic.name,
                topic.partitions,
                dict(topic.configs),
                replicas=topic.replication_factor,
            )
    except ClosedError:
        return False
    return code in EXISTS


def _commit() -> str:
    """Return the commit of this tree, and whether it was changed since; empty outside of git."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    with contextlib.suppress(OSError):
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
        return done.stdout.strip()
    return ""
