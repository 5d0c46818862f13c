"""What is typed into Kafka's tools, in this order, on a new node: their words are our golden text.

``python -m tests.compat.shim_steps`` runs Kafka's tools and writes tests/golden/shims/kafka.json.
"""

import json
import re
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from quorate.client import ProducerFencedError, sync
from quorate.protocol.apis import ApiKey
from quorate.records.batch import TRANSACTIONAL_BIT
from quorate.records.record import ProducerStamp
from tests.compat.clients.agent import Java
from tests.compat.clients.model import Server
from tests.compat.peers import nodes
from tests.compat.wire import connected
from tests.unit.broker.log.batches import make_batch

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "shims" / "kafka.json"

TOOLS: Final = "org.apache.kafka.tools."
MAINS: Final = {
    "kafka-topics": TOOLS + "TopicCommand",
    "kafka-console-producer": TOOLS + "ConsoleProducer",
    "kafka-console-consumer": TOOLS + "consumer.ConsoleConsumer",
    "kafka-consumer-groups": TOOLS + "consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": TOOLS + "GetOffsetShell",
    "kafka-metadata-quorum": TOOLS + "MetadataQuorumCommand",
    "kafka-reassign-partitions": TOOLS + "reassign.ReassignPartitionsCommand",
    "kafka-leader-election": TOOLS + "LeaderElectionCommand",
    "kafka-log-dirs": TOOLS + "LogDirsCommand",
    "kafka-delete-records": TOOLS + "DeleteRecordsCommand",
    "kafka-transactions": TOOLS + "TransactionsCommand",
    "kafka-features": TOOLS + "FeatureCommand",
}

FILES: Final = {
    "delete.json": {"partitions": [{"topic": "keyed", "partition": 0, "offset": 1}], "version": 1},
    "move.json": {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}],
    },
    "topics.json": {"topics": [{"topic": "keyed"}], "version": 1},
    "elect.json": {"partitions": [{"topic": "orders", "partition": 0}]},
}


TEXTS: Final = {
    "producer.properties": "acks=1\ncompression.type=zstd\nlinger.ms=3\n",
    "consumer.properties": "auto.offset.reset=earliest\n",
    "topic.properties": "retention.ms=3600000\ncleanup.policy=compact,delete\n",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A command line, and what is typed into it."""

    tool: str
    words: str
    stdin: str = ""

    def arguments(self, bootstrap: str, folder: Path) -> list[str]:
        """Return the words; ``FOLDER`` stands for where the files are."""
        words = [word.replace("FOLDER", str(folder)) for word in self.words.split()]
        return ["--bootstrap-server", bootstrap, *words]


HANGING_MS: Final = 3_690_000
"""Sixty-one minutes and a half."""
UNVERIFIED: Final = {"transaction.partition.verification.enable": "false"}
"""So that something can be left hanging."""

T, P, C = "kafka-topics", "kafka-console-producer", "kafka-console-consumer"
G, F, O = "kafka-consumer-groups", "kafka-configs", "kafka-get-offsets"  # noqa: E741
R, L = "kafka-reassign-partitions", "kafka-leader-election"
X = "kafka-transactions"
V = "kafka-features"

STEPS: Final = (
    Step(T, "--create --topic orders --partitions 3 --replication-factor 1"),
    Step(T, "--create --topic orders"),
    Step(T, "--create --topic orders --if-not-exists"),
    Step(T, "--create --topic keyed --config retention.ms=3600000 --config cleanup.policy=delete"),
    Step(T, "--create --topic my_topic.a --partitions 1"),
    Step(T, "--create --topic bad/name"),
    Step(T, "--create --topic many --replication-factor 3"),
    Step(T, "--create --topic x --config nonsense=1"),
    Step(T, "--list"),
    Step(T, "--list --topic or.*"),
    Step(T, "--describe --topic orders"),
    Step(T, "--describe"),
    Step(T, "--describe --topics-with-overrides"),
    Step(T, "--describe --under-replicated-partitions"),
    Step(T, "--describe --unavailable-partitions"),
    Step(T, "--describe --topic nowhere"),
    Step(T, "--describe --topic nowhere --if-exists"),
    Step(T, "--alter --topic orders --partitions 4"),
    Step(T, "--alter --topic orders --partitions 2"),
    Step(T, "--alter --topic nowhere --partitions 2"),
    Step(T, "--delete --topic nowhere"),
    Step(T, "--delete --topic nowhere --if-exists"),
    Step(T, "--delete --topic my_topic.a"),
    Step(T, "--create --list"),
    Step(T, "--create"),
    Step(
        P, "--topic keyed --property parse.key=true --property key.separator=:", "a:1\nb:2\nc:3\n"
    ),
    Step(P, "--topic orders --sync", "one\ntwo\n"),
    Step(C, "--topic keyed --from-beginning --max-messages 3"),
    Step(
        C,
        "--topic keyed --from-beginning --max-messages 3 --property print.key=true"
        " --property key.separator== --property print.offset=true --property print.partition=true",
    ),
    Step(C, "--topic keyed --partition 0 --offset 1 --max-messages 1"),
    Step(C, "--topic keyed --from-beginning --timeout-ms 2000 --group billing"),
    Step(C, "--topic keyed --offset 1"),
    Step(O, "--topic keyed"),
    Step(O, "--topic keyed --time -2"),
    Step(O, "--topic keyed --time earliest"),
    Step(O, "--topic-partitions keyed:0-2,orders:9"),
    Step(O, "--topic nowhere"),
    Step(G, "--list"),
    Step(G, "--list --state"),
    Step(G, "--describe --group billing"),
    Step(G, "--describe --group billing --members"),
    Step(G, "--describe --group billing --state"),
    Step(G, "--describe --group nobody"),
    Step(G, "--reset-offsets --group billing --topic keyed --to-earliest --dry-run"),
    Step(G, "--reset-offsets --group billing --topic keyed --to-earliest --execute"),
    Step(G, "--reset-offsets --group billing --topic keyed:0 --shift-by 1 --execute"),
    Step(G, "--reset-offsets --group billing --topic keyed --to-offset 99 --execute"),
    Step(G, "--reset-offsets --group billing --all-topics --to-latest --export --dry-run"),
    Step(G, "--delete-offsets --group billing --topic keyed"),
    Step(G, "--delete --group billing"),
    Step(G, "--delete --group nobody"),
    Step(F, "--describe --entity-type topics --entity-name keyed"),
    Step(F, "--alter --entity-type topics --entity-name keyed --add-config retention.ms=1000"),
    Step(F, "--describe --topic keyed"),
    Step(F, "--alter --topic keyed --delete-config retention.ms"),
    Step(F, "--describe --entity-type topics --entity-name nowhere"),
    Step(F, "--describe --entity-type brokers --entity-default"),
    Step("kafka-delete-records", "--offset-json-file FOLDER/delete.json"),
    Step("kafka-metadata-quorum", "describe --status"),
    Step("kafka-log-dirs", "--describe --topic-list keyed"),
    Step(L, "--election-type preferred --topic orders --partition 0"),
    Step(L, "--election-type preferred --path-to-json-file FOLDER/elect.json"),
    Step(R, "--reassignment-json-file FOLDER/move.json --execute"),
    Step(R, "--reassignment-json-file FOLDER/move.json --verify"),
    Step(R, "--topics-to-move-json-file FOLDER/topics.json --broker-list 1 --generate"),
    Step(R, "--list"),
    Step(T, "--describe --topic keyed --at-min-isr-partitions"),
    Step(T, "--list --topic ("),
    Step(T, "--list --if-exists"),
    Step(T, "--create --topic y --partitions -1"),
    Step(T, "--create --topic y --replica-assignment 1 --partitions 1"),
    Step(T, "--create --topic typed"),
    Step(P, "--topic typed --producer.config FOLDER/producer.properties", "12345678\n"),
    Step(P, "--topic typed --producer-property compression.type=lz4 --timeout 5", "abcdefgh\n"),
    Step(P, "--topic typed --request-required-acks 7", "never\n"),
    Step(
        P,
        "--topic typed --reader-property parse.key=true --reader-property ignore.error=true"
        " --reader-property key.separator=:",
        "no key\n",
    ),
    Step(C, "--topic typed --consumer.config FOLDER/consumer.properties --max-messages 3"),
    Step(C, "--topic typed --consumer-property group.id=own --from-beginning --max-messages 1"),
    Step(C, "--topic typed --group a --command-property group.id=b"),
    Step(
        C,
        "--topic typed --from-beginning --skip-message-on-error --timeout-ms 2000"
        " --formatter-property"
        " value.deserializer=org.apache.kafka.common.serialization.LongDeserializer",
    ),
    Step(C, "--topic typed --partition 0 --offset EARLIEST --max-messages 1"),
    Step(C, "--topic typed --partition 0 --offset 99 --timeout-ms 1000"),
    Step(C, "--topic typed --from-beginning --max-messages 1 --formatter-property print.value=no"),
    Step(O, "--topic typed --time 99999999999999"),
    Step(O, "--topic typed --topic-partitions typed:0"),
    Step(G, "--list --state Bogus"),
    Step(G, "--describe --group own --state --verbose"),
    Step(G, "--delete --group own --topic typed"),
    Step(G, "--delete-offsets --group own --topic typed:7"),
    Step(G, "--delete-offsets --group own --topic nowhere"),
    Step(G, "--delete-offsets --group nobody --topic typed"),
    Step(G, "--reset-offsets --group own --topic typed:7 --to-earliest --dry-run"),
    Step(
        G,
        "--reset-offsets --group other --group own --topic typed --to-earliest --dry-run --export",
    ),
    Step(G, "--reset-offsets --group own --topic typed --by-duration P1DT2.5S --dry-run"),
    Step(F, "--alter --topic typed --add-config-file FOLDER/topic.properties"),
    Step(F, "--describe --topic typed"),
    Step(F, "--describe --broker 9"),
    Step(F, "--alter --group own --add-config consumer.session.timeout.ms=50000"),
    Step("kafka-metadata-quorum", "describe --status --human-readable"),
    Step(T, "--delete --topic keyed"),
    Step(T, "--list"),
    Step(V, "describe"),
    Step(V, "upgrade --feature transaction.version=2"),
    Step(V, "downgrade --feature transaction.version=1 --dry-run"),
    Step(V, "downgrade --feature transaction.version=1 --feature group.version=0"),
    Step(V, "describe"),
    Step(V, "upgrade --feature transaction.version=9 --dry-run"),
    Step(V, "upgrade --feature transaction.version=9 --feature group.version=1"),
    Step(V, "downgrade --feature transaction.version=2"),
    Step(V, "upgrade --feature transaction.version=2 --feature group.version=1"),
    Step(V, "downgrade --feature group.version=0 --unsafe"),
    Step(V, "upgrade --feature group.version=1"),
    Step(V, "disable --feature group.version --dry-run"),
    Step(V, "disable --feature nonsense.version"),
    Step(V, "upgrade --feature nonsense.version=1"),
    Step(V, "upgrade --feature group.version"),
    Step(V, "upgrade --feature group.version=x"),
    Step(V, "upgrade"),
    # From here on, a transaction of the id "payments" is open in paid-0.
    Step(X, "list"),
    Step(X, "list --duration-filter 3600000"),
    Step(X, "list --transactional-id-pattern no.*"),
    Step(X, "describe --transactional-id payments"),
    Step(X, "describe --transactional-id nobody"),
    Step(X, "describe"),
    Step(X, "describe-producers --topic paid --partition 0"),
    Step(X, "find-hanging"),
    Step(X, "find-hanging --broker-id 1 --partition 0"),
    Step(X, "find-hanging --topic paid --max-transaction-timeout 0"),
    Step(X, "find-hanging --topic paid"),
    Step(X, "find-hanging --topic paid --partition 0"),
    Step(X, "find-hanging --broker-id 1"),
    Step(X, "abort --topic paid --partition 1 --start-offset 0"),
    Step(X, "find-hanging --broker-id 1"),
    Step(X, "abort --topic paid --partition 0"),
    Step(X, "abort --topic paid --partition 0 --start-offset 5"),
    Step(X, "abort --topic paid --partition 0 --producer-id 1"),
    Step(X, "abort --topic paid --partition 0 --producer-id 1 --producer-epoch 0"),
    Step(X, "abort --topic paid --partition 0 --start-offset 0"),
    Step(X, "forceTerminateTransaction --transactionalId payments"),
    Step(X, "nonsense"),
)

NORMAL: Final = (
    (re.compile(r"TopicId: \S+"), "TopicId: <id>"),
    (re.compile(r"ClusterId: +\S+"), "ClusterId: <id>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
    (re.compile(r'"size":\d+'), '"size":<n>'),
    (re.compile(r'"logDir":"[^"]*"'), '"logDir":"<path>"'),
    (re.compile(r"Epoch: \d+$", re.MULTILINE), "Epoch: <n>"),
    (re.compile(r"^\[[0-9- :,]+\] (ERROR|WARN|INFO) ", re.MULTILINE), r"[<time>] \1 "),
    (re.compile(r"^(HighWatermark|LeaderEpoch|MaxFollowerLagTimeMs): +\d+$", re.MULTILINE),
     r"\1: <n>"),
    (re.compile(r'"directoryId": "[\w-]+"'), '"directoryId": "<id>"'),
    (re.compile(r"  +(STATE|Empty) *$", re.MULTILINE), r"  \1"),
    (re.compile(r"\n\tat .*"), ""),
    (re.compile(r"^(payments *\t1 +\t)\d+ +\t", re.MULTILINE), r"\1<id>\t"),
    (re.compile(r"^(1 +\tpayments *\t)\d+ +\t", re.MULTILINE), r"\1<id>\t"),
    (re.compile(r"^\d+ +(\t0 +\t-1)", re.MULTILINE), r"<id>\1"),
    (re.compile(r"\t\d{13}( +)\t\d+ +\tpaid-0"), r"\t<time>\1\t<n>\tpaid-0"),
    (re.compile(r"\t\d{13}( *)\t0 "), r"\t<time>\1\t0 "),
    (re.compile(r"\t\d{13}( *)\t61 "), r"\t<time>\1\t61 "),
    (re.compile(r"^console-consumer-\d+.*\n", re.MULTILINE), ""),
    (re.compile(r'"log_dirs":\["/[^"]*"\]'), '"log_dirs":["<path>"]'),
)  # fmt: skip


def normal(text: str) -> str:
    """Return a text without what differs from run to run."""
    for pattern, replacement in NORMAL:
        text = pattern.sub(replacement, text)
    return text


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool said, without what differs from run to run."""

    status: int
    out: str
    err: str


Run = Callable[[str, Sequence[str], str], Said]


def leave_hanging(bootstrap: str) -> None:
    """Write an hour ago to a transaction in paid-1 that no coordinator knows."""
    began_ms = time.time_ns() // 1_000_000 - HANGING_MS
    batch = make_batch(
        [b"v"],
        timestamps_ms=[began_ms],
        producer=ProducerStamp(4711, 0, 0),
        attributes=TRANSACTIONAL_BIT,
    )
    with connected(Server(bootstrap)) as wire:
        asked = wire.produce_request("paid", batch, partition=1, acks=-1, version=11)
        asked.transactional_id = "lost"
        (answer,) = wire.ask(ApiKey.PRODUCE, 11, asked).responses
    assert answer.partition_responses[0].error_code == 0


@contextmanager
def open_transaction(bootstrap: str) -> Generator[None]:
    """Have the transaction open that tools are to find."""
    with sync.Admin(bootstrap) as admin:
        admin.create_topic("paid", partitions=2)
    leave_hanging(bootstrap)
    settings: Any = {"transactional_id": "payments", "transaction_timeout_ms": 600_000}
    with sync.Producer(bootstrap, **settings) as producer:
        transaction = producer.transaction()
        transaction.__enter__()
        transaction.send("paid", b"12", partition=0)
        yield
        with suppress(ProducerFencedError):
            transaction.abort()


def run_all(bootstrap: str, run: Run) -> list[Said]:
    """Run all steps and return what was said."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in FILES.items():
            (folder / file).write_text(json.dumps(content))
        for file, text in TEXTS.items():
            (folder / file).write_text(text)
        said: list[Said] = []
        with ExitStack() as opened:
            for before, step in pairwise((None, *STEPS)):
                assert step is not None
                if step.tool == X and before is not None and before.tool != X:
                    opened.enter_context(open_transaction(bootstrap))
                said.append(run(step.tool, step.arguments(bootstrap, folder), step.stdin))
        return [Said(s.status, normal(s.out).replace(name, "FOLDER"), normal(s.err)) for s in said]


def golden() -> list[Said]:
    """Return what Kafka's tools said."""
    return [Said(**each["said"]) for each in json.loads(GOLDEN.read_text())["steps"]]


def record() -> None:
    """Have Kafka's tools say it once more."""
    java = Java()

    def run(tool: str, words: Sequence[str], stdin: str) -> Said:
        done = java.tool(MAINS[tool], *words, stdin=stdin)
        return Said(done.status, done.stdout, done.stderr)

    try:
        with nodes.quorate(properties=UNVERIFIED) as node:
            said = run_all(node.bootstrap, run)
    finally:
        java.close()
    steps = [
        {
            "tool": step.tool,
            "words": step.words,
            "said": {"status": each.status, "out": each.out, "err": each.err},
        }
        for step, each in zip(STEPS, said, strict=True)
    ]
    GOLDEN.write_text(json.dumps({"kafka": "4.3.1", "steps": steps}, indent=1) + "\n")


if __name__ == "__main__":
    record()
