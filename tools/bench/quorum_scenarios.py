"""What is measured on three controllers: commits, reads, fail-over, idleness, a large topic."""

import signal
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from quorate.control import messages as m
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode
from quorate.jepsen.clients.controllers import MaybeDoneError, NotDoneError, QuorumClient
from quorate.model import Endpoint
from quorate.quorum.metadata.features import SUPPORTED
from quorate.tools.bench import figures, quorum_load
from quorate.tools.bench.figures import Metric, Sample
from quorate.tools.bench.measuring import MeasurementFailedError
from quorate.tools.bench.quorum_cluster import SETTLE_S, Quorum
from quorate.tools.bench.quorum_load import MakeRequest, Shape
from tests.compat.peers import nodes, process

FAILOVERS = 8
FAILOVER_S_MAX = 20.0
TRY_S = 0.3
IDLE_S = 5.0
PARTITIONS = 10_000
CREATION_S_MAX = 120.0
RECORDS = 200
BATCH = 1000
WRITERS = 4
BROKER_ID = 101

MEDIAN = Metric("p50_ms", "median", "ms", "less")
HIGHEST = Metric("max_ms", "highest", "ms", "less")
RECORDS_PER_S = Metric("records_per_s", "", "records/s", "more")


class Scenario(Protocol):
    """Something to measure on a quorum."""

    @property
    def name(self) -> str:
        """A short name."""
        ...

    @property
    def title(self) -> str:
        """A name for people."""
        ...

    @property
    def target(self) -> str:
        """What it should come to, for people; empty if nobody said."""
        ...

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Which figures it is about."""
        ...

    def measure(self, quorum: Quorum, seconds: float) -> Sample:
        """Return a sample; raises MeasurementFailedError."""
        ...


@dataclass(frozen=True, slots=True)
class Load:
    """Requests to the leader, as fast as they are answered."""

    name: str
    title: str
    target: str
    shape: Shape
    make_request: MakeRequest
    records: int
    """Of metadata, in each request."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rates and latencies."""
        rates = (RECORDS_PER_S,) if self.records > 1 else (figures.REQUESTS_PER_S,)
        return *rates, figures.P50, figures.P99

    def measure(self, quorum: Quorum, seconds: float) -> Sample:
        """Load the leader."""
        port = quorum.ports[quorum.leader()]
        used_s, machine_s = quorum.cpu_seconds(), process.machine_cpu_seconds()
        begun_s, client_s = time.monotonic(), time.process_time()
        sample = quorum_load.measure(
            port, self.shape, self.make_request, warmup_s=seconds / 4, seconds=seconds
        )
        took_s = time.monotonic() - begun_s
        cores = [(a - b) / took_s for a, b in zip(quorum.cpu_seconds(), used_s, strict=True)]
        client_cores = (time.process_time() - client_s) / took_s
        machine_cores = (process.machine_cpu_seconds() - machine_s) / took_s
        return _with(
            sample,
            records_per_s=sample.figures["requests_per_s"] * self.records,
            leader_cores=max(cores),
            controller_cores=sum(cores),
            client_cores=client_cores,
            others_cores=max(0.0, machine_cores - sum(cores) - client_cores),
        )


@dataclass(frozen=True, slots=True)
class Idle:
    """Controllers that nobody asks anything."""

    name: str = "idle"
    title: str = "idle"
    target: str = "<= 2 % of a core and <= 60 MiB each"
    metrics: tuple[Metric, ...] = (
        Metric("cpu_percent", "CPU of a controller, at most", "%", "less"),
        Metric("rss_bytes", "resident memory, at most", "B", "less"),
    )

    def measure(self, quorum: Quorum, seconds: float) -> Sample:  # noqa: ARG002 - of the protocol
        """Watch them do nothing."""
        quorum.leader()
        time.sleep(SETTLE_S)
        used_s, begun_s = quorum.cpu_seconds(), time.monotonic()
        time.sleep(IDLE_S)
        took_s = time.monotonic() - begun_s
        shares = [(a - b) / took_s for a, b in zip(quorum.cpu_seconds(), used_s, strict=True)]
        rss_bytes = max(node.memory().rss_bytes for node in quorum.nodes)
        return Sample({"cpu_percent": 100 * max(shares), "rss_bytes": rss_bytes}, failure="")


@dataclass(frozen=True, slots=True)
class FailOver:
    """From the signal that ends the leader to the first write that another one acknowledges."""

    name: str
    title: str
    target: str
    by: signal.Signals
    metrics: tuple[Metric, ...] = (MEDIAN, HIGHEST)

    def measure(self, quorum: Quorum, seconds: float) -> Sample:  # noqa: ARG002 - of the protocol
        """End leaders, one after the other."""
        return Sample(
            quorum_load.quantiles_ms([self._once(quorum, n) for n in range(FAILOVERS)]), failure=""
        )

    def _once(self, quorum: Quorum, number: int) -> float:
        quorum.wait_until_all_have_caught_up()
        place = quorum.leader()
        time.sleep(SETTLE_S)
        others = tuple(port for at, port in enumerate(quorum.ports) if at != place)
        # What clients do: whoever they ask next says who leads, or that nobody does.
        with QuorumClient(others, number) as client:
            quorum.nodes[place].popen.send_signal(self.by)
            begun_s = time.monotonic()
            _write(client, number, begun_s + FAILOVER_S_MAX)
            took_s = time.monotonic() - begun_s
        quorum.nodes[place].stop()
        quorum.nodes[place] = quorum.start(place)
        quorum.nodes[place].wait_until_it_listens(nodes.START_TIMEOUT_S)
        return took_s


def _write(client: QuorumClient, number: int, deadline_s: float) -> None:
    """Write until it is acknowledged."""
    while time.monotonic() < deadline_s:
        request = quorum_load.set_one(10_000, number % 2 + 2 * number)
        try:
            client.ask(request, m.AlterConfigsAnswer, request_id=b"", timeout_s=TRY_S)
        except (NotDoneError, MaybeDoneError):
            continue
        return
    raise MeasurementFailedError(f"no write for {FAILOVER_S_MAX} s")


@dataclass(frozen=True, slots=True)
class LargeTopic:
    """One topic of very many partitions, in one request to the leader."""

    name: str = f"create-{PARTITIONS}"
    title: str = f"create {PARTITIONS:,} partitions in one request"
    target: str = "<= 5 s"
    metrics: tuple[Metric, ...] = (
        Metric("create_ms", "", "ms", "less"),
        Metric("rss_bytes", "then resident memory, at most", "B", "less"),
    )

    def measure(self, quorum: Quorum, seconds: float) -> Sample:  # noqa: ARG002 - of the protocol
        """Register a broker that leads them, create, delete."""
        quorum.leader()
        with QuorumClient(quorum.ports, 0) as client:
            ask = partial(client.ask, request_id=b"", timeout_s=CREATION_S_MAX)
            _register(ask)
            topic = m.NewTopic(f"large-{uuid.uuid4().hex}", PARTITIONS, 1)
            begun_s = time.monotonic()
            created = ask(m.CreateTopics((topic,)), m.CreateTopicsAnswer)
            took_s = time.monotonic() - begun_s
            if created.topics[0].failure.code != ErrorCode.NONE:
                raise MeasurementFailedError(str(created.topics[0].failure))
            rss_bytes = max(node.memory().rss_bytes for node in quorum.nodes)
            ask(m.DeleteTopics((topic.name,)), m.DeleteTopicsAnswer)
        return Sample({"create_ms": 1000 * took_s, "rss_bytes": rss_bytes}, failure="")


@dataclass(frozen=True, slots=True)
class Batches:
    """Topics of many partitions, each a request and so a batch of records."""

    name: str = "records"
    title: str = f"create topics of {BATCH:,} partitions, {WRITERS} in flight"
    target: str = ">= 50,000 records/s"
    metrics: tuple[Metric, ...] = (RECORDS_PER_S,)

    def measure(self, quorum: Quorum, seconds: float) -> Sample:
        """Create for a while; delete."""
        place = quorum.leader()
        created: list[str] = []
        with QuorumClient(quorum.ports, place) as client:
            ask = partial(client.ask, request_id=b"", timeout_s=CREATION_S_MAX)
            _register(ask)
            used_s, begun_s = quorum.cpu_seconds(), time.monotonic()
            with ThreadPoolExecutor(WRITERS) as pool:
                writers = [
                    pool.submit(_create_until, quorum, place, begun_s + seconds)
                    for _ in range(WRITERS)
                ]
                for writer in writers:
                    created += writer.result()
            took_s = time.monotonic() - begun_s
            cores = [(a - b) / took_s for a, b in zip(quorum.cpu_seconds(), used_s, strict=True)]
            for name in created:
                ask(m.DeleteTopics((name,)), m.DeleteTopicsAnswer)
        records = len(created) * (BATCH + 1)
        figures = {"records": records, "seconds": took_s, "records_per_s": records / took_s}
        cpu = {"leader_cores": max(cores), "controller_cores": sum(cores)}
        return Sample({**figures, **cpu}, failure="")


def _create_until(quorum: Quorum, place: int, deadline_s: float) -> list[str]:
    """Create one topic after the other; return their names."""
    created: list[str] = []
    with QuorumClient(quorum.ports, place) as client:
        while time.monotonic() < deadline_s:
            name = f"batch-{uuid.uuid4().hex}"
            request = m.CreateTopics((m.NewTopic(name, BATCH, 1),))
            answer = client.ask(
                request, m.CreateTopicsAnswer, request_id=b"", timeout_s=CREATION_S_MAX
            )
            if answer.topics[0].failure.code != ErrorCode.NONE:
                raise MeasurementFailedError(str(answer.topics[0].failure))
            created.append(name)
    return created


def _register(ask: Callable[..., m.Answer]) -> None:
    """Become a broker that is alive for a few seconds, which is long enough."""
    endpoints: Mapping[str, Endpoint] = {"PLAINTEXT": Endpoint(nodes.HOST, 1)}
    register = m.RegisterBroker(
        BROKER_ID,
        uuid.uuid4().bytes,
        endpoints,
        directory_id=b"bench",
        features=tuple(SUPPORTED.values()),
    )
    registered = ask(register, m.RegisterBrokerAnswer)
    assert isinstance(registered, m.RegisterBrokerAnswer)
    heartbeat = m.BrokerHeartbeat(BROKER_ID, registered.broker_epoch, registered.broker_epoch)
    ask(heartbeat, m.BrokerHeartbeatAnswer)


def scenarios() -> list[Scenario]:
    """Return all scenarios, in the order in which they run."""
    some = partial(quorum_load.set_some, records=RECORDS)
    return [
        Idle(),
        Load("commit-1", "commit, 1 in flight", "p50 <= 2, p99 <= 6 ms", Shape(1, 1),
             quorum_load.set_one, 1),
        Load("commit-8", "commit, 8 in flight", "", Shape(8, 1), quorum_load.set_one, 1),
        Load("commit-64", "commit, 64 in flight", ">= 10,000/s", Shape(8, 8),
             quorum_load.set_one, 1),
        Load("configs", f"change {RECORDS} configurations a request, 8 in flight", "",
             Shape(8, 1), some, RECORDS),
        Batches(),
        Load("read-1", "linearizable read, 1 in flight", "p50 <= 1 ms", Shape(1, 1),
             quorum_load.read, 1),
        Load("read-64", "linearizable read, 64 in flight", "", Shape(8, 8), quorum_load.read, 1),
        LargeTopic(),
        FailOver("failover-kill", "leader kill -9 to the next write", "median <= 1.5 s",
                 signal.SIGKILL),
        FailOver("failover-stop", "leader SIGTERM to the next write", "<= 200 ms",
                 signal.SIGTERM),
    ]  # fmt: skip


def _with(sample: Sample, **added: float) -> Sample:
    return Sample({**sample.figures, **added}, sample.failure)
