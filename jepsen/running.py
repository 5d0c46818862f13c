"""A run from its beginning to its verdict's data: cluster, load, faults, heal, final reads, audit.

Whatever ends it, nothing stays behind but its folder, and the history up to then.
"""

import contextlib
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Final

from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, QuorateError
from quorate.jepsen import store
from quorate.jepsen.auditing import (
    LED_S_MAX,
    audit_metadata,
    audit_replicas,
    high_watermarks,
    holders,
    patiently,
)
from quorate.jepsen.checkers.log import ACKS_NONE
from quorate.jepsen.clients.wire import Client, ClosedError, RefusedConfigError, create_topic
from quorate.jepsen.describing import describe
from quorate.jepsen.history import Kind
from quorate.jepsen.lab.against import Against
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import QUORATE, DiedError, Host, NeverCameUpError
from quorate.jepsen.lab.local import LocalLab, LocalPlan
from quorate.jepsen.lab.reaper import Reaper
from quorate.jepsen.mourning import dead_threads_told
from quorate.jepsen.nemesis import capabilities
from quorate.jepsen.nemesis.conducting import Conductor, Tell
from quorate.jepsen.nemesis.fault import Family
from quorate.jepsen.nemesis.schedules import SCHEDULES, Step
from quorate.jepsen.options import (
    RunOptions,
    check_names,
    check_network,
    client_of,
    damaged_max,
    families_of,
    fitted,
    kinds_of,
)
from quorate.jepsen.recorder import Recorder
from quorate.jepsen.watching import Watcher
from quorate.jepsen.workloads.workload import (
    Context,
    Topic,
    TopicOptions,
    Workload,
    WorkloadKind,
)
from quorate.model import Endpoint
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.topics import DeleteTopicsRequest

CREATED_S_MAX: Final = 30.0
WARM_S_MAX: Final = 60.0
WRITES: Final = ("send", "txn", "put", "cas", "create", "commit", "reassign", "grow")
WHOLE_S_MAX: Final = 60.0
DELETED_MS_MAX: Final = 10_000
DELETE_TOPICS_VERSION: Final = 5
POLL_S: Final = 0.05
ALIVE_S: Final = 1.0
SNAPSHOTS_ODDS: Final = 0.25
SNAPSHOT_ENTRIES: Final = "quorate.quorum.snapshot.entries"
EXISTS: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class NotReadyError(QuorateError):
    """The cluster does not take what a run begins with; says what, and for how long."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a run under way consists of, besides its workloads."""

    lab: Lab
    recorder: Recorder
    conductor: Conductor
    watcher: Watcher


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster under load, for who decides what happens to it.

    Attributes:
        tick: To be called all the time; raises DiedError if a node ended by itself.
        count: Returns how many operations of a name have ended well.
    """

    lab: Lab
    conductor: Conductor
    families: Mapping[str, Family]
    tick: Callable[[], None]
    count: Callable[[str], int]


class Run:
    """One run; made, then :meth:`carry_out` once."""

    def __init__(
        self, options: RunOptions, tell: Tell, direct: Callable[[Scene], None] | None = None
    ) -> None:
        """Check the names; look for the cluster, if it is somebody else's.

        Args:
            options: what is asked for.
            tell: takes lines for people.
            direct: lets faults happen, and returns; without it they come by the schedule.

        Raises:
            UnknownNameError: there is none of some name.
            AddressError, NeverCameUpError: there is no such cluster.
        """
        self._options = options
        self._tell = tell
        self._direct = direct
        self._kinds = kinds_of(options.workloads)
        self._families = families_of(options.faults)
        check_names(options)
        check_network(options.network)
        self._begun_s = time.monotonic()
        self._workloads: list[Workload] = []
        self._recorded: list[Recorder] = []
        self._missing: list[str] = []
        self._dead: list[str] = []
        """Of threads of ours."""
        self._against = Against(options.against) if options.against else None
        self._started = datetime.fromtimestamp(time.time_ns() / 1e9, UTC)
        self.folder = store.create(options.root, self._started, options.workloads, options.seed)

    def carry_out(self) -> None:
        """Do it all; the history is then in the folder, whole.

        Raises:
            NeverCameUpError, NotReadyError: there was nothing to be put under load.
            MissingClientError: the client cannot be had here.
            HistoryEndedError: the history cannot be written any more, and ends early.
            KeyboardInterrupt: somebody wants it to end; the history ends early.
        """
        with Reaper() as reaper, contextlib.ExitStack() as stack:
            stack.enter_context(dead_threads_told(self._dead.append))
            lab = self._lab(reaper)
            stack.callback(lab.close)
            header = describe(self._options, self._started)
            self.folder.write_about(header, repeat=self._options.repeat())
            recorder = Recorder(self.folder.history, header)
            stack.callback(recorder.close)
            rng = Random(self._options.seed)
            conductor = Conductor(lab, recorder, Random(rng.getrandbits(64)), self._say)
            for kind in self._kinds:
                self._recorded.append(recorder.part())
                part, drawn = self._recorded[-1], Random(rng.getrandbits(64))
                context = self._context(lab, part, drawn, kind)
                self._workloads.append(kind.make(context))
                stack.callback(self._workloads[-1].close)
            watcher = Watcher(lab, recorder)
            stack.callback(watcher.stop)
            steps = self._steps(Random(rng.getrandbits(64)))
            self._live(_Parts(lab, recorder, conductor, watcher), steps)

    def _steps(self, rng: Random) -> Iterator[Step]:
        return SCHEDULES[self._options.schedule](self._families, self._options.seconds, rng)

    def _live(self, parts: _Parts, steps: Iterable[Step]) -> None:
        """Load, break and heal a cluster."""
        lab, conductor = parts.lab, parts.conductor
        phase = partial(conductor.scribe.tell, "phase")
        lab.start()
        topics = [topic for workload in self._workloads for topic in workload.topics()]
        self._create(lab, topics)
        self._say(_what_is_up(lab))
        phase("warm-up")
        parts.watcher.start()
        for workload in self._workloads:
            workload.start()
        self._warm_up()
        phase("load")
        try:
            if self._direct is None:
                conductor.run(steps, self._families, self._options.seconds, self._ticker(parts))
            else:
                tick = self._ticker(parts)
                self._direct(Scene(lab, conductor, self._families, tick, self._count))
        except DiedError as error:
            self._note_death(conductor, error)
            _forget_the_dead(lab)
        parts.recorder.check()
        phase("heal")
        conductor.heal_all()
        try:
            self._finish(parts, topics)
        except (DiedError, NeverCameUpError) as error:
            self._note_death(conductor, error)
        else:
            phase("end")
        parts.recorder.check()

    def _count(self, name: str) -> int:
        """Return how many operations of a name have ended well."""
        return sum(part.count(name, Kind.OK) for part in self._recorded)

    def _finish(self, parts: _Parts, topics: Sequence[Topic]) -> None:
        """Let everything come to its end, and write down what is left.

        Raises:
            DiedError, NeverCameUpError: a node does not work any more.
        """
        lab, tell = parts.lab, parts.conductor.scribe.tell
        self._make_whole(lab, _staying(topics), parts.conductor)
        for workload in self._workloads:
            workload.stop()
        lab.check_alive()  # or each of the final reads would be waited for
        tell("phase", "final")
        for workload in self._workloads:
            workload.final()
        lab.check_alive()
        replicas = holders(lab.view(), topics)
        ends = high_watermarks(lab, replicas)
        controller = _active_controller(lab)
        parts.watcher.stop()
        lab.stop()
        if self._options.against:
            _delete(lab, topics)
        audit_replicas(lab, parts.recorder, replicas, ends)
        if controller is not None:
            audit_metadata(controller, parts.recorder)
        for workload in self._workloads:
            for sentence in workload.errors():
                tell("complaint", ["workload-failed", sentence])
        for sentence in self._dead:
            tell("complaint", ["thread-died", sentence])
        for sentence in self._missing:
            tell("complaint", ["fault-missing", sentence])

    def _note_death(self, conductor: Conductor, error: QuorateError) -> None:
        self._say(str(error).splitlines()[0])
        conductor.scribe.tell("complaint", ["node-died", str(error)])

    # --- its parts

    def _lab(self, reaper: Reaper) -> Lab:
        """Prepare the cluster, and ask of it no more than it can."""
        options = self._options
        lab = self._against
        if lab is not None:
            self._options = fitted(options, lab.broker_count)
            if self._families:
                names = ", ".join(self._families)
                self._say(f"skipped, because its processes are not ours: {names}")
                self._options, self._families = replace(self._options, faults=()), {}
            return lab
        launch = (sys.executable, "-m", "quorate.jepsen.mutants.launch", options.mutant, "--")
        command = launch if options.mutant else QUORATE
        self._options = fitted(options, options.brokers)
        network = self._choose_faults()
        needs = frozenset(need for each in self._families.values() for need in each.equipment)
        plan = LocalPlan(
            options.brokers,
            options.controllers,
            {**self._properties(), **options.properties},
            command,
            needs,
            namespaces=network == capabilities.NAMESPACES,
            damaged_max=damaged_max(self._options),
        )
        return LocalLab(self.folder.nodes, plan, reaper)

    def _properties(self) -> dict[str, str]:
        """Return what nodes are started with: what groups commit is as safe as what is sent.

        Controllers take snapshots in some of the runs in which their bits may flip. Not in all:
        what was decided before a snapshot is not there any more to be judged.
        """
        same = {"min.insync.replicas": str(self._options.min_insync)}
        family = self._families.get("disk")
        if family is None or "flip-snapshot" not in family.variants:
            return same
        is_only = len(family.variants) == 1
        is_drawn = Random(self._options.seed).random() < SNAPSHOTS_ODDS
        return {**same, SNAPSHOT_ENTRIES: "30"} if is_only or is_drawn else same

    def _choose_faults(self) -> str:
        """Leave out the faults that cannot be had here, and say so; return the kind of network."""
        have = capabilities.found()
        network = capabilities.network_kind(self._options.network, have)
        for row in capabilities.table(self._families.values(), network, have):
            if row.extent is not capabilities.Extent.WHOLE:
                self._say(f"{row.family.name} is {row.extent}: {row.why}")
            if row.extent is capabilities.Extent.MISSING:
                del self._families[row.family.name]
                self._missing.append(f"{row.family.name}: {row.why}")
        self._options = replace(
            self._options,
            faults=tuple(f for f in self._options.faults if f.split(":")[0] in self._families),
        )
        return network

    def _context(self, lab: Lab, recorder: Recorder, rng: Random, kind: WorkloadKind) -> Context:
        options = self._options
        client = client_of(kind, options.client)
        if client != options.client:
            self._say(f"{kind.name} cannot use {options.client}, it uses {client}")
        configs = {"min.insync.replicas": str(options.min_insync), **options.topic_configs}
        prefix = f"quorate-verify-{self._started:%Y%m%dT%H%M%S}-" if options.against else ""
        topics = TopicOptions(options.partitions, options.replication_factor, configs, prefix)
        folder = self.folder.path / "clients"
        folder.mkdir(exist_ok=True)
        rate = options.rate_per_s * kind.share // sum(each.share for each in self._kinds)
        return Context(
            lab.bootstrap, recorder, rng, client, rate, options.acks, topics, lab, folder
        )

    def _create(self, lab: Lab, topics: Sequence[Topic]) -> None:
        for topic in topics:
            complaint = f"topic {topic.name} cannot be created"
            wait(partial(_is_created, lab, topic), CREATED_S_MAX, complaint)
        names = [topic.name for topic in topics]
        wait(lambda: lab.is_whole(names), CREATED_S_MAX, "not all replicas are in sync")

    def _warm_up(self) -> None:
        """Wait until every workload has written something."""
        for kind, part in zip(self._kinds, self._recorded, strict=True):
            complaint = f"nothing that {kind.name} writes is acknowledged"
            nobody_says = self._options.acks == ACKS_NONE
            wait(partial(_has_written, part, nobody_says=nobody_says), WARM_S_MAX, complaint)

    def _ticker(self, parts: _Parts) -> Callable[[], None]:
        """Return what sees now and then that nobody died, and that all is noted."""
        looked_s = time.monotonic()

        def tick() -> None:
            nonlocal looked_s
            if time.monotonic() - looked_s > ALIVE_S:
                parts.recorder.check()
                parts.lab.check_alive()
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
            self._say(f"all replicas are in sync, after {time.monotonic() - begun_s:.1f} s")

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


def _active_controller(lab: Lab) -> Host | None:
    """Return the controller that decides, or will in a moment."""
    patience_s = LED_S_MAX if lab.controllers else 0.0
    return patiently(lab.active_controller, time.monotonic() + patience_s)


def _staying(topics: Iterable[Topic]) -> list[str]:
    return [topic.name for topic in topics if topic.stays]


def _what_is_up(lab: Lab) -> str:
    if lab.brokers:
        return f"{len(lab.controllers)} controllers, {len(lab.brokers)} brokers are up"
    return f"the cluster at {lab.bootstrap} answers"


def _has_written(recorder: Recorder, *, nobody_says: bool) -> bool:
    """Whether something was written; if nobody says so, whether it was sent."""
    kinds = (Kind.OK, Kind.INFO) if nobody_says else (Kind.OK,)
    return any(recorder.count(name, kind) for name in WRITES for kind in kinds)


def _forget_the_dead(lab: Lab) -> None:
    """Let those that ended by themselves be started again."""
    for host in (*lab.controllers, *lab.brokers):
        if host.has_ended:
            host.close()


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
    except RefusedConfigError as error:
        raise NotReadyError(f"topic {topic.name} cannot be created: {error}") from None
    return code in EXISTS


def _delete(lab: Lab, topics: Sequence[Topic]) -> None:
    """Delete our topics from somebody else's cluster; one that is gone by itself is no matter."""
    host, _, port = lab.bootstrap.split(",")[0].rpartition(":")
    request = DeleteTopicsRequest(
        topic_names=[topic.name for topic in topics], timeout_ms=DELETED_MS_MAX
    )
    with contextlib.suppress(ClosedError), Client(Endpoint(host, int(port))) as client:
        client.ask(ApiKey.DELETE_TOPICS, DELETE_TOPICS_VERSION, request)


def tidy(folder: store.RunFolder, *, pack: bool) -> None:
    """Remove the nodes' data, or pack it into an archive beside each node's log."""
    for data in folder.nodes.glob("*/data"):
        if pack:
            with tarfile.open(data.with_suffix(".tar.gz"), "w:gz", compresslevel=1) as archive:
                archive.add(data, "data")
        shutil.rmtree(data, ignore_errors=True)
    shutil.rmtree(folder.nodes / "equipment", ignore_errors=True)
    for empty in (folder.path / "clients", folder.nodes):
        with contextlib.suppress(OSError):
            empty.rmdir()
