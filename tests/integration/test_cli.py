"""The quorate command against a node, each in a process of its own, as a person uses them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import Producer

from quorate.tools.arguments import DEFAULT_TIMEOUT_S
from quorate.tools.cli import run_command
from quorate.tools.combined_node import PORTS_TRIED
from quorate.tools.nearby import LISTENING_NAME
from tests.integration.brokers import wait_until

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60
DEFAULT_PORT = 9092
COMMAND = [sys.executable, "-m", "quorate.tools.cli"]

pytestmark = pytest.mark.integration


def environment(bootstrap: str = "") -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "QUORATE_BOOTSTRAP": bootstrap, "COLUMNS": "100"}


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def quorate(*words: str, stdin: str = "", bootstrap: str = "", cwd: Path | None = None) -> Done:
    done = subprocess.run(
        [*COMMAND, *words], input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S,
        env=environment(bootstrap), cwd=cwd, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@contextmanager
def node(
    *words: str, cwd: Path, ends_by: signal.Signals = signal.SIGINT, ends_with: int = 0
) -> Generator[dict[str, Any]]:
    """Run a node until the block ends; then it must stop cleanly, or have been killed.

    What it said to people is then in what was yielded, too: as "told".
    """
    with subprocess.Popen(
        [*COMMAND, *words, "--format", "jsonl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment(), cwd=cwd,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                _, told = process.communicate(timeout=TIMEOUT_S)
                pytest.fail(f"the node did not start: {told}")
            ready = json.loads(line)
            yield ready
            process.send_signal(ends_by)
            _, told = process.communicate(timeout=TIMEOUT_S)
            ready["told"] = told
            assert process.returncode == ends_with, told
            assert "Traceback" not in told
        finally:
            process.kill()


def plaintext(ready: dict[str, Any]) -> str:
    return str(ready["listeners"]["PLAINTEXT"])


Run = Callable[..., Done]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


@pytest.fixture(scope="module")
def bootstrap(folder: Path) -> Generator[str]:
    with node("up", "--port", "0", cwd=folder) as ready:
        yield plaintext(ready)


@pytest.fixture(scope="module")
def run(bootstrap: str, folder: Path) -> Run:
    def on_node(*words: str, stdin: str = "") -> Done:
        return quorate(*words, stdin=stdin, bootstrap=bootstrap, cwd=folder)

    return on_node


def test_topics_are_created_and_exactly_those_are_listed(run: Run) -> None:
    before = run("topics", "list").out.split()
    assert run("topics", "create", "appLogs", "ingressLogs", "dbLogs", "-p", "4").out == (
        "Created topic appLogs.\nCreated topic ingressLogs.\nCreated topic dbLogs.\n"
    )
    listed = run("topic", "ls").out.split()
    assert sorted(listed) == sorted([*before, "appLogs", "dbLogs", "ingressLogs"])
    again = run("topics", "create", "--topic", "appLogs")
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert run("topics", "create", "--topic", "appLogs", "--if-not-exists").code == 0
    described = run("topics", "desc", "appLogs").out.splitlines()
    assert described[0].startswith("Topic: appLogs\tTopicId: ")
    assert "\tPartitionCount: 4\tReplicationFactor: 1\tConfigs: " in described[0]
    assert len(described) == 5


def test_what_is_produced_is_consumed_from_any_place(run: Run) -> None:
    run("topics", "create", "numbers", "-p", "1")
    sent = run("produce", "numbers", stdin="".join(f"{n}\n" for n in range(100)))
    assert (sent.code, sent.err) == (0, "100 records acknowledged by numbers\n")

    def values(*words: str) -> list[int]:
        return [int(line) for line in run("consume", "numbers", *words).out.split()]

    assert values("-o", "start", "-e") == list(range(100))
    assert values("--from-beginning", "--max-messages", "3") == [0, 1, 2]
    assert values("-o", "-10", "-e") == list(range(90, 100))
    assert values("-o", "50", "-n", "2") == [50, 51]
    assert values("-o", "5:8") == [5, 6, 7]
    assert values("-o", "end", "-e") == []


def test_times_bound_what_is_consumed_at_both_ends(
    run: Run, bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("topics", "create", "dated", "-p", "1")
    minute_ms = 60_000
    now_ms = time.time_ns() // 1_000_000
    ten_ms = int(datetime(2020, 3, 1, 10, tzinfo=UTC).timestamp() * 1000)
    dated = {
        "nine": ten_ms - 60 * minute_ms,
        "ten": ten_ms,
        "half past ten": ten_ms + 30 * minute_ms,
        "eleven": ten_ms + 60 * minute_ms,
        "90 minutes ago": now_ms - 90 * minute_ms,
        "30 minutes ago": now_ms - 30 * minute_ms,
        "in 30 minutes": now_ms + 30 * minute_ms,
    }
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value, timestamp_ms in dated.items():
        producer.produce("dated", value, partition=0, timestamp=timestamp_ms)
    assert producer.flush(TIMEOUT_S) == 0

    def values(*words: str) -> list[str]:
        assert run_command(["-b", bootstrap, "consume", "dated", *words]) == 0
        return capsys.readouterr().out.splitlines()

    assert values("-o", "@-2h:@-1h") == ["90 minutes ago"]
    assert values("-o", "@-1h:now") == ["30 minutes ago"]
    assert values("-o", "@-1h:end") == ["30 minutes ago", "in 30 minutes"]
    assert values("-o", "@now", "-e") == ["in 30 minutes"]
    assert values("-o", "@2020-03-01T10:00", "-e") == list(dated)[1:]
    assert values("-o", "@2020-03-01T10:00:2020-03-01T11:00") == ["ten", "half past ten"]
    assert values("-o", "@2020-03-01T10:00:01:1h") == ["half past ten", "eleven"]
    assert values("-o", ":@2020-03-01T10:00") == ["nine"]


def test_from_the_end_comes_only_what_is_produced_after_it_began(run: Run, bootstrap: str) -> None:
    run("topics", "create", "endless", "-p", "1")
    run("produce", "endless", stdin="before\n")
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    with subprocess.Popen(
        [*COMMAND, "consume", "endless", "-o", "end", "-n", "3"], stdout=subprocess.PIPE,
        text=True, env=environment(bootstrap),
    ) as process:  # fmt: skip
        try:
            for number in range(1000):  # nobody says when it has begun
                producer.produce("endless", str(number))
                producer.flush(TIMEOUT_S)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.05)
                    break
        finally:
            process.kill()
        assert process.stdout is not None
        seen = [int(line) for line in process.stdout.read().split()]
    assert process.returncode == 0
    assert seen == list(range(seen[0], seen[0] + 3))


def test_topics_are_apart(run: Run) -> None:
    for topic in ("audit", "debug"):
        run("topics", "create", topic, "-p", "4")
        run("produce", topic, stdin="".join(f"{topic} {n}\n" for n in range(50)))
    for topic in ("audit", "debug"):
        read = run("consume", topic, "-o", "start", "-e").out.splitlines()
        assert sorted(read) == sorted(f"{topic} {n}" for n in range(50))


def test_an_offset_that_is_not_there_is_an_error_and_never_another_record(run: Run) -> None:
    run("topics", "create", "few")
    run("produce", "few", stdin="a\n")
    words = ["consume", "few", "-p", "0", "-o", "7", "-n", "1"]
    gone = run(*words)
    assert (gone.code, gone.out) == (1, "")
    assert "OFFSET_OUT_OF_RANGE" in gone.err
    assert run(*words, "-X", "auto.offset.reset=none").code == 1
    assert run(*words, "-X", "auto.offset.reset=earliest").out == "a\n"
    silent = run(*words, "-X", "auto.offset.reset=latest", "--timeout-ms", "300")
    assert (silent.code, silent.out) == (0, "")
    behind = run("consume", "few", "-o", "7", "-e")
    assert behind.code == 1
    assert "offset 7 of few-0 lies behind its end, 1" in behind.err
    at_the_end = run("consume", "few", "-o", "1", "-e")
    assert (at_the_end.code, at_the_end.out) == (0, "")
    nothing = run("consume", "few", "-e")
    assert (nothing.code, nothing.out, "--from-beginning" in nothing.err) == (0, "", True)


def test_a_record_that_is_refused_is_told_before_the_next_one_comes(
    run: Run, bootstrap: str
) -> None:
    run("topics", "create", "compacted", "-c", "cleanup.policy=compact")
    with subprocess.Popen(
        [*COMMAND, "produce", "compacted"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=environment(bootstrap),
    ) as process:  # fmt: skip
        try:
            assert process.stdin is not None
            process.stdin.write("no key\n")
            process.stdin.flush()
            assert process.wait(TIMEOUT_S) == 1
            assert process.stderr is not None
            assert "INVALID_RECORD" in process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("topics list -b 127.0.0.1:99999", 2, "'127.0.0.1:99999' is not an address"),
        ("topics list -b http://127.0.0.1:9092", 2, "'http://127.0.0.1:9092' is not an address"),
        ("quorum status -C a:0", 2, "'a:0' is not an address"),
        ("consume few --isolation-level clean", 2, "expected one of read_uncommitted"),
        ("consume few -o 5:3 -e", 2, "'5:3' ends before it begins"),
        ("consume few --group=", 2, "a group has a name"),
        ("configs describe broker/7", 1, "the cluster has no broker 7 that is alive"),
        ("produce few --file .", 1, ".: Is a directory"),
        ("up --port 1 -X listeners=PLAINTEXT://127.0.0.1:2", 2, "--port and listeners contradict"),
        ("up --dir a -X log.dir=b", 2, "--dir and log.dir contradict"),
    ],
)
def test_what_makes_no_sense_is_told_in_three_lines(
    words: str, code: int, told: str, run: Run
) -> None:
    done = run(*words.split())
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert [line[:6] for line in done.err.splitlines()] == ["error:", "  why:", "  try:"]


def test_keys_headers_nulls_and_partitions_round_trip(run: Run) -> None:
    run("topics", "create", "keyed", "-p", "4")
    run("produce", "keyed", "-K", ":", "-H", "trace=1", "-p", "2", stdin="k1:v1\nk2:\n")
    run("produce", "keyed", "-Z", "-p", "2", stdin="\n")
    lines = run("consume", "keyed", "-o", "start", "-e", "--json").out.splitlines()
    records = [json.loads(line) for line in lines]
    assert [(r["partition"], r["key"], r["value"], r["headers"]) for r in records] == [
        (2, "k1", "v1", [["trace", "1"]]),
        (2, "k2", "", [["trace", "1"]]),
        (2, None, None, []),
    ]
    printed = run("consume", "keyed", "-o", "start", "-n", "1", "-f", r"%t %p %o %k=%v %h\n").out
    assert printed == "keyed 2 0 k1=v1 trace=1\n"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_hold_many_records_in_any_codec(run: Run, codec: str) -> None:
    topic = f"packed-{codec}"
    run("topics", "create", topic)
    run("produce", topic, "-z", codec, "-X", "linger.ms=50", stdin="x\n" * 500)
    dumped = run("log", "dump", f".quorate/{topic}-0", "--format", "jsonl").out.splitlines()
    batches = [json.loads(line) for line in dumped]
    assert sum(b["records"] for b in batches) == 500
    assert max(b["records"] for b in batches) > 1
    assert {b["codec"] for b in batches} == {codec}
    assert run("consume", topic, "-o", "start", "-e").out == "x\n" * 500


def test_an_unknown_topic_or_partition_is_told_and_nothing_is_written(run: Run) -> None:
    run("topics", "create", "one")
    for words in (["nope"], ["one", "-p", "99"]):
        refused = run("produce", *words, stdin="x\n")
        assert refused.code == 1
        assert "UNKNOWN_TOPIC_OR_PARTITION" in refused.err
    assert run("offsets", "one", "--format", "kafka").out == "one:0:0\n"


@pytest.mark.parametrize(
    "words",
    [
        "consume waited --from-beginning",
        "consume waited -g waiting --from-beginning",
    ],
)
def test_ctrl_c_ends_what_waits_without_a_word_of_python(
    words: str, run: Run, bootstrap: str
) -> None:
    if "-beginning" in words:
        run("topics", "create", "waited", "--if-not-exists")
        assert run("produce", "waited", stdin="one\n").code == 0
    with subprocess.Popen(
        [*COMMAND, *words.split()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=environment(bootstrap),
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it waits for more after the first"
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert process.returncode == 130, told
    assert "Traceback" not in told


def test_segments_have_the_size_that_was_asked_for(run: Run) -> None:
    run("topics", "create", "rolled", "-c", "segment.bytes=64K")
    line = "x" * 1000
    run("produce", "rolled", "-X", "batch.size=4000", stdin=f"{line}\n" * 300)
    verified = run("log", "verify", ".quorate/rolled-0", "--json")
    assert verified.code == 0
    segments = json.loads(verified.out)["items"]
    closed = segments[:-1]
    assert len(closed) >= 3
    assert all(65_536 - 5_000 < s["size_bytes"] <= 65_536 for s in closed)
    assert [Path(s["segment"]).stem for s in segments] == [
        f"{s['first_offset']:020d}" for s in segments
    ]


def test_configurations_are_set_read_and_reset(run: Run) -> None:
    run("topics", "create", "tuned")
    assert run("configs", "set", "topic/tuned", "retention.ms=1d", "flush.messages=1").code == 0
    assert run("configs", "get", "topic/tuned", "retention.ms").out == "86400000\n"
    assert "Durability: fsync" in run("topics", "describe", "tuned", "--format", "wide").out
    assert run("configs", "unset", "topic/tuned", "retention.ms").code == 0
    assert run("configs", "get", "topic/tuned", "retention.ms").out == "604800000\n"
    wrong = run("configs", "set", "topic/tuned", "retenton.ms=1d")
    assert wrong.code == 1
    assert "retention.ms" in wrong.err
    assert "INVALID_CONFIG" in wrong.err


def test_a_name_that_no_setting_has_is_not_taken_back_by_mistake(run: Run) -> None:
    run("topics", "create", "mistaken")
    for words in (
        ("configs", "unset", "topic/mistaken", "retenton.ms"),
        ("topics", "alter", "mistaken", "-p", "3", "--delete-config", "retenton.ms"),
    ):
        wrong = run(*words)
        assert (wrong.code, "did you mean retention.ms?" in wrong.err) == (1, True)
    assert "PartitionCount: 1" in run("topics", "describe", "mistaken").out


def test_a_group_is_configured_by_itself(run: Run) -> None:
    setting = "consumer.session.timeout.ms"
    assert run("configs", "set", "group/billing", f"{setting}=50s").code == 0
    assert run("configs", "get", "group/billing", setting).out == "50000\n"
    (row,) = json.loads(run("configs", "describe", "group/billing", "--json").out)["items"]
    assert (row["name"], row["value"], row["source"]) == (setting, "50000", "group")
    wrong = run("configs", "set", "group/billing", f"{setting}=61s")
    assert (wrong.code, "group.consumer.max.session.timeout.ms=60000" in wrong.err) == (1, True)
    assert run("configs", "unset", "group/billing", setting).code == 0
    assert run("configs", "get", "group/billing", setting).out == "45000\n"


def test_topics_grow_shrink_never_and_go(run: Run) -> None:
    run("topics", "create", "changing")
    grown = run("topics", "alter", "changing", "--partitions", "3")
    assert grown.code == 0
    assert "keys" in grown.err
    assert "INVALID_PARTITIONS" in run("topics", "alter", "changing", "--partitions", "2").err
    assert run("topics", "delete", "changing").code == 2
    assert "changing" in run("topics", "list").out.split()
    assert run("topics", "delete", "changing", "--dry-run").out == "Would delete topic changing.\n"
    assert run("topics", "rm", "changing", "-y").out == "Deleted topic changing.\n"
    assert "changing" not in run("topics", "list").out.split()
    assert run("topics", "rm", "changing", "-y", "--if-exists").code == 0


def test_a_trim_deletes_what_stands_before_an_offset(run: Run) -> None:
    run("topics", "create", "trimmed")
    run("produce", "trimmed", stdin="a\nb\nc\n")
    assert run("topics", "trim", "trimmed", "--before", "2").code == 2
    assert run("topics", "trim", "trimmed", "--before", "2", "--yes").code == 0
    assert run("consume", "trimmed", "-o", "start", "-e").out == "c\n"
    assert (
        run("offsets", "trimmed", "--time", "earliest", "--format", "kafka").out == "trimmed:0:2\n"
    )


def test_what_controllers_decided_can_be_read_from_their_journal(run: Run) -> None:
    run("topics", "create", "decided")
    lines = run("log", "dump", "--metadata", ".quorate", "--format", "jsonl").out.splitlines()
    created = [r for line in lines if (r := json.loads(line))["type"] == "TopicCreated"]
    (cause,) = {record["cause"] for record in created if record["name"] == "decided"}
    assert cause == "CreateTopics by User:ANONYMOUS"


def test_a_broker_tells_how_the_quorum_is(run: Run) -> None:
    (status,) = json.loads(run("quorum", "status", "--json").out)["items"]
    assert (status["leader_id"], len(status["voters"])) == (1, 1)
    assert status["high_watermark"] > 0


def test_a_list_of_topics_starts_quickly_because_it_imports_little() -> None:
    code = (
        "import sys; before = set(sys.modules); from quorate.tools.cli import run_command;"
        "run_command(['topics', 'list', '--timeout', '0.1']);"
        "print('\\n'.join(sys.modules.keys() - before), file=sys.stderr)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env=environment("127.0.0.1:1"), timeout=TIMEOUT_S,
    ).stderr.split()  # fmt: skip
    heavy = {
        "rich", "textual", "pyspark", "pydantic", "quorate.client.producer",
        "quorate.client.consumer", "quorate.broker.app", "quorate.quorum.controller",
    }  # fmt: skip
    assert not heavy & set(loaded)
    # Promised are 300 ms on a machine that has nothing else to do; tests run on busy ones.
    assert "quorate.client.admin" in loaded
    assert len(loaded) < 380, "importing them is what takes the time"


def test_a_status_that_nobody_gives_is_soon_told(capsys: pytest.CaptureFixture[str]) -> None:
    begun_s = time.monotonic()
    assert run_command(["-b", "127.0.0.1:1", "status"]) == 4
    assert time.monotonic() - begun_s < DEFAULT_TIMEOUT_S
    told = capsys.readouterr().err
    assert "no broker at 127.0.0.1:1" in told
    assert "  try: 'quorate up', or check the address" in told


def test_a_taken_port_that_was_asked_for_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        chosen = quorate("up", "--port", str(port), cwd=tmp_path)
        assert chosen.code == 1
        assert f"cannot listen on 127.0.0.1:{port}" in chosen.err
        assert "--port" in chosen.err


def test_a_taken_port_that_nobody_asked_for_is_told_and_the_next_free_one_used(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        with suppress(OSError):  # somebody else has it: that will do
            stack.enter_context(socket.create_server(("127.0.0.1", DEFAULT_PORT)))
        with node("up", cwd=tmp_path) as ready:
            port = int(plaintext(ready).removeprefix("127.0.0.1:"))
            assert DEFAULT_PORT < port <= DEFAULT_PORT + PORTS_TRIED
            assert run_command(["-b", plaintext(ready), "topics", "create", "t"]) == 0
            assert quorate("topics", "list", cwd=tmp_path).out == "t\n", "found beside its data"
    told = f"port {DEFAULT_PORT} is taken, so this node listens on {port} instead\n"
    assert ready["told"].startswith(told)


def test_a_directory_that_cannot_be_used_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = quorate("up", "--port", "0", "--dir", "file/data", cwd=tmp_path)
    assert refused.code == 1
    assert "file" in refused.err
    assert "Traceback" not in refused.err


@contextmanager
def when_hung_up(action: signal.Handlers) -> Generator[None]:
    """Have processes that are started in the block inherit what SIGHUP does."""
    before = signal.signal(signal.SIGHUP, action)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_node_stops_cleanly_when_its_terminal_is_closed(tmp_path: Path) -> None:
    words = ("up", "--port", "0")
    with (
        when_hung_up(signal.SIG_DFL),
        node(*words, cwd=tmp_path, ends_by=signal.SIGHUP) as ready,
    ):
        assert not (tmp_path / ".quorate" / ".clean").exists()
    assert "stopped cleanly" in ready["told"]
    assert (tmp_path / ".quorate" / ".clean").exists()


def test_a_node_that_is_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    # as nohup has it
    with when_hung_up(signal.SIG_IGN), node("up", "--port", "0", cwd=tmp_path) as ready:
        os.kill(ready["pid"], signal.SIGHUP)
        assert quorate("topics", "list", cwd=tmp_path).code == 0


def test_a_data_directory_belongs_to_one_process_and_one_node(tmp_path: Path) -> None:
    with node("up", "--port", "0", cwd=tmp_path):
        second = quorate("up", "--port", "0", cwd=tmp_path)
        assert second.code == 1
        assert "in use" in second.err
    other = quorate("up", "--port", "0", "-X", "node.id=7", cwd=tmp_path)
    assert other.code == 1
    assert "node 1" in other.err


def test_data_of_another_cluster_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        with node("up", "--port", "0", "--dir", name, cwd=tmp_path):
            pass
    (tmp_path / "other" / "meta.json").rename(tmp_path / "one" / "meta.json")
    foreign = quorate("up", "--port", "0", "--dir", "one", cwd=tmp_path)
    assert foreign.code == 1
    assert "belongs to cluster" in foreign.err
    assert "--dir" in foreign.err


def test_records_without_their_metadata_are_refused_and_no_cluster_is_made(tmp_path: Path) -> None:
    with node("up", "--port", "0", cwd=tmp_path):
        pass
    controller = tmp_path / ".quorate" / "controller"
    controller.rename(tmp_path / "away")
    for _ in range(2):
        refused = quorate("up", "--port", "0", cwd=tmp_path)
        assert refused.code == 1
        assert "controller/meta.json is missing" in refused.err
        assert len(refused.err.splitlines()) == 3
        assert not controller.exists()
    (tmp_path / "away").rename(controller)
    with node("up", "--port", "0", cwd=tmp_path):
        pass


def test_clients_speak_tls_to_a_tls_listener(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    identity = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
    identity.write_to_path(str(tmp_path / "node.pem"))
    words = ["up", "-X", "listeners=SSL://127.0.0.1:0", "-X", "ssl.keystore.location=node.pem"]
    with node(*words, cwd=tmp_path) as ready:
        secure = ["-b", ready["listeners"]["SSL"], "-X", "security.protocol=SSL"]
        secure += ["-X", "ssl.ca.location=ca.pem"]
        assert quorate("topics", "create", "s", *secure, cwd=tmp_path).code == 0
        assert quorate("produce", "s", *secure, stdin="x\n", cwd=tmp_path).code == 0
        assert quorate("consume", "s", "-o", "start", "-e", *secure, cwd=tmp_path).out == "x\n"
        assert quorate("topics", "list", *secure[:2], "--timeout", "0.5").code == 4


def test_records_outlive_a_restart_and_a_kill(tmp_path: Path) -> None:
    with node("up", "--port", "0", cwd=tmp_path) as ready:
        quorate("topics", "create", "kept", bootstrap=plaintext(ready))
        quorate("produce", "kept", stdin="a\nb\n", bootstrap=plaintext(ready))
    with node("up", "--port", "0", ends_with=-signal.SIGKILL, cwd=tmp_path) as ready:
        quorate("produce", "kept", stdin="c\n", bootstrap=plaintext(ready))
        os.kill(ready["pid"], signal.SIGKILL)
    with node("up", "--port", "0", cwd=tmp_path) as ready:
        found = quorate("consume", "kept", "-o", "start", "-e", bootstrap=plaintext(ready))
        assert found.out == "a\nb\nc\n"


def test_controller_and_broker_run_as_processes_of_their_own(tmp_path: Path) -> None:
    with node(
        "controller", "start", "--listen", "127.0.0.1:0", "--dir", "c", cwd=tmp_path
    ) as controller:
        address = str(controller["listeners"]["CONTROLLER"])
        words = ["broker", "start", "--id", "2", "--controllers", address, "--port", "0"]
        with node(*words, "--dir", "b", "--rack", "r1", cwd=tmp_path) as broker:
            bootstrap = plaintext(broker)
            assert quorate("topics", "create", "t", bootstrap=bootstrap).code == 0
            quorate("produce", "t", stdin="x\n", bootstrap=bootstrap)
            assert quorate("consume", "t", "-o", "start", "-e", bootstrap=bootstrap).out == "x\n"
            (only,) = json.loads(quorate("brokers", "ls", "--json", bootstrap=bootstrap).out)[
                "items"
            ]
            assert (only["id"], only["rack"], only["fenced"]) == (2, "r1", False)
            asked = quorate("quorum", "status", "--json", bootstrap=bootstrap)
            assert json.loads(asked.out)["items"][0]["leader_id"] == 1
        status = json.loads(quorate("quorum", "status", "-C", address, "--json").out)
        assert status["items"][0]["leader_id"] == 1


def test_a_broker_without_controllers_says_what_it_lacks(tmp_path: Path) -> None:
    told = quorate("broker", "start", "--port", "0", cwd=tmp_path)
    assert told.code == 2
    assert "--controllers" in told.err


def processes_of(folder: Path) -> list[str]:
    """Return the processes that run with this folder for what is temporary."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={folder}\0".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


def test_the_demo_compares_all_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    shown = quorate("demo", "--json", cwd=tmp_path)
    assert shown.code == 0, shown.err
    report = json.loads(shown.out)
    assert report["ok"] is True
    assert len(report["partitions"]) == 12
    assert sum(p["records"] for p in report["partitions"]) > 0
    assert not list(tmp_path.iterdir())
    assert processes_of(tmp_path) == []


def test_a_demo_that_is_interrupted_leaves_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen(
        [*COMMAND, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(), start_new_session=True,
    ) as process:  # fmt: skip
        try:
            wait_until(lambda: any(tmp_path.glob("*/data/*/appLogs-0")), "records are sent")
            assert len(processes_of(tmp_path)) > 6
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            _, told = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert (process.returncode, "Traceback" in told) == (130, False), told
    assert not list(tmp_path.iterdir())
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_what_is_printed_goes_nowhere_if_output_is_closed(closed: str) -> None:
    command = f"exec {sys.executable} -m quorate.tools.cli storage random-uuid {closed}"
    done = subprocess.run(["bash", "-c", command], env=environment(), check=False)
    assert done.returncode == 0


def test_no_file_of_a_node_gets_the_number_of_an_output_that_is_closed(tmp_path: Path) -> None:
    words = f"up --port 0 --dir {tmp_path / 'data'}"
    command = f"exec {sys.executable} -m quorate.tools.cli {words} <&- >&- 2>&-"
    node = subprocess.Popen(["bash", "-c", command], env=environment())
    try:
        wait_until((tmp_path / "data" / LISTENING_NAME).exists, "the node serves")
        numbers = [str(Path(f"/proc/{node.pid}/fd/{number}").readlink()) for number in range(3)]
    finally:
        node.terminate()
    assert numbers == [os.devnull] * 3
    assert node.wait(TIMEOUT_S) == 0
