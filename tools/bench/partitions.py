"""`python -m quorate.tools.bench.partitions`: three brokers with very many partitions, RF 3.

How long they take to be made, what they cost when nobody uses them, and how soon all of them have
leaders again when a broker is killed, or all brokers are stopped or killed and started again.
"""

import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import field
from pathlib import Path

from confluent_kafka import Producer

from quorate.dataclass import dataclass

if __name__ == "__main__":
    # Benchmarks share their peers with the tests, which are not installed.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import quorate
from quorate.net.ports import free_ports
from quorate.protocol.apis import APIS, ApiKey
from quorate.protocol.frames import encode_request, read_response_header
from quorate.protocol.message import decoder
from quorate.protocol.messages.metadata import MetadataRequest, MetadataResponse
from quorate.tools.bench import command_line, topics
from quorate.tools.bench.clusters import BROKERS, FIRST_BROKER_ID, launch_broker
from quorate.tools.bench.figures import Metric, Outcome, Sample
from quorate.tools.bench.measuring import MeasurementFailedError, wait_until_quiet
from quorate.tools.bench.quorum_cluster import Quorum, quorum
from quorate.tools.bench.runner import FAILURES
from tests.compat.peers.nodes import HOST, START_TIMEOUT_S, Node

SUBJECT = "quorate"
TOPIC_PARTITIONS = 100
SETTLED_S_MAX = 120.0
IDLE_S = 10.0
SETTLE_S = 3.0
POLL_S = 0.02
METADATA_VERSION = 9
ANSWER_S_MAX = 20.0

METRICS = (
    Metric("created_ms", "made", "ms", "less"),
    Metric("idle_cores", "idle", "cores", "less"),
    Metric("rss_bytes", "memory", "B", "less"),
    Metric("restart_ms", "start", "ms", "less"),
    Metric("recovery_ms", "start after kill -9", "ms", "less"),
    Metric("failover_ms", "fail-over", "ms", "less"),
)


@dataclass(frozen=True, slots=True)
class Many:
    """Brokers by their place; the controllers stay as they are."""

    controllers: Quorum
    ports: tuple[int, ...]
    partitions: int
    brokers: list[Node] = field(default_factory=list[Node])

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    def start(self) -> None:
        """Start all brokers, and return when they take connections."""
        self.brokers[:] = [self._launch(place) for place in range(BROKERS)]
        for broker in self.brokers:
            broker.wait_until_it_listens(START_TIMEOUT_S)

    def restart(self, place: int) -> None:
        """Stop one broker as an operator does, and start it again."""
        self.brokers[place].stop()
        self.brokers[place] = self._launch(place)
        self.brokers[place].wait_until_it_listens(START_TIMEOUT_S)

    def _launch(self, place: int) -> Node:
        return launch_broker(
            self.controllers.folder,
            FIRST_BROKER_ID + place,
            self.ports[place],
            self.controllers.bootstrap,
            properties={},
            env={},
        )

    def stop(self, by: signal.Signals) -> None:
        """End all brokers."""
        for broker in self.brokers:
            broker.popen.send_signal(by)
        for broker in self.brokers:
            broker.stop(by=by)

    def wait_until(self, holds: Callable[[MetadataResponse], bool]) -> None:
        """Return when the first broker's metadata say so.

        Raises:
            MeasurementFailedError: they do not for very long.
        """
        deadline_s = time.monotonic() + SETTLED_S_MAX
        with socket.create_connection((HOST, self.ports[0]), ANSWER_S_MAX) as sock:
            while not holds(metadata(sock)):
                if time.monotonic() > deadline_s:
                    raise MeasurementFailedError("not all partitions have leaders in time")
                time.sleep(POLL_S)

    def all_in_sync(self, seen: MetadataResponse) -> bool:
        """Whether all partitions are there, are led, and have all replicas in sync."""
        found = [p for topic in seen.topics for p in topic.partitions]
        return len(found) == self.partitions and all(
            p.leader_id >= 0 and len(p.isr_nodes) == BROKERS for p in found
        )


def metadata(sock: socket.socket) -> MetadataResponse:
    """Ask for all topics."""
    api = APIS[ApiKey.METADATA]
    request = MetadataRequest(topics=None)
    sock.sendall(encode_request(api, METADATA_VERSION, 1, "bench", request))
    with sock.makefile("rb") as answers:
        body = bytearray(answers.read(int.from_bytes(answers.read(4), "big")))
    _, position = read_response_header(body, 0, len(body), api, METADATA_VERSION)
    answer: MetadataResponse
    answer, _ = decoder(api.response, METADATA_VERSION)(body, position, len(body))
    return answer


def elapsed_ms(begun_s: float) -> float:
    """Return how long ago that was."""
    return 1000 * (time.monotonic() - begun_s)


def measure(many: Many) -> dict[str, float]:
    """Do everything in turn, on brokers that run.

    Raises:
        MeasurementFailedError: partitions were left without leaders.
    """
    figures = {"created_ms": _create(many)}
    _write(many)
    time.sleep(SETTLE_S)
    used_s = [broker.cpu_seconds() for broker in many.brokers]
    time.sleep(IDLE_S)
    used_s = [b.cpu_seconds() - u for b, u in zip(many.brokers, used_s, strict=True)]
    figures["idle_cores"] = max(used_s) / IDLE_S
    figures["rss_bytes"] = max(broker.memory().rss_bytes for broker in many.brokers)
    for name, by in (("restart_ms", signal.SIGTERM), ("recovery_ms", signal.SIGKILL)):
        many.stop(by)
        begun_s = time.monotonic()
        many.start()
        many.wait_until(many.all_in_sync)
        figures[name] = elapsed_ms(begun_s)
    figures["failover_ms"] = _fail_over(many)
    return figures


def _create(many: Many) -> float:
    begun_s = time.monotonic()
    first = f"{HOST}:{many.ports[0]}"
    for n in range(many.partitions // TOPIC_PARTITIONS):
        topics.create_topic(
            first, f"many-{n}", partitions=TOPIC_PARTITIONS, config={}, replicas=BROKERS
        )
    many.wait_until(many.all_in_sync)
    return elapsed_ms(begun_s)


def _write(many: Many) -> None:
    """Put a record into each partition, so that each has files."""
    producer = Producer({"bootstrap.servers": many.bootstrap, "acks": "all"})
    for n in range(many.partitions // TOPIC_PARTITIONS):
        for partition in range(TOPIC_PARTITIONS):
            producer.produce(f"many-{n}", b"value", partition=partition)
    if producer.flush(SETTLED_S_MAX):
        raise MeasurementFailedError("not all records were acknowledged")


def _fail_over(many: Many) -> float:
    """Kill the broker that leads most of those that we do not ask."""

    def led(seen: MetadataResponse) -> list[int]:
        return [p.leader_id for topic in seen.topics for p in topic.partitions]

    leaders: list[int] = []
    many.wait_until(lambda seen: not leaders.extend(led(seen)))  # type: ignore[func-returns-value]
    victim = max(range(1, BROKERS), key=lambda place: leaders.count(FIRST_BROKER_ID + place))
    victim_id = FIRST_BROKER_ID + victim
    if not leaders.count(victim_id):
        raise MeasurementFailedError("one broker leads everything")
    begun_s = time.monotonic()
    many.brokers[victim].popen.kill()
    many.wait_until(lambda seen: not {victim_id, -1} & set(led(seen)))
    return elapsed_ms(begun_s)


def sample(partitions: int, measure: Callable[[Many], dict[str, float]]) -> Sample:
    """Measure on brokers and controllers of its own; a failure becomes the sample."""
    try:
        with quorum() as controllers, ExitStack() as stack:
            many = Many(controllers, tuple(free_ports(BROKERS)), partitions)
            stack.callback(lambda: many.stop(signal.SIGTERM))
            many.start()
            return Sample(measure(many), "")
    except FAILURES as error:
        return Sample({}, str(error) or type(error).__name__)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 if a sample failed."""
    parser = command_line.parser("partitions", __doc__, rounds=1)
    parser.add_argument("--partitions", type=int, default=2000, help="(%(default)s)")
    options = parser.parse_args(arguments)
    samples: list[Sample] = []
    for _ in range(options.rounds):
        wait_until_quiet(options.quiet_wait)
        samples.append(sample(options.partitions, measure))
    title = f"{options.partitions} partitions, RF 3, on three brokers"
    outcome = Outcome("partitions", title, METRICS, {SUBJECT: tuple(samples)})
    versions = {SUBJECT: quorate.__version__}
    settings = {"partitions": options.partitions}
    console = command_line.console()
    return command_line.finish(console, options, [outcome], versions=versions, settings=settings)


if __name__ == "__main__":
    command_line.run(main)
