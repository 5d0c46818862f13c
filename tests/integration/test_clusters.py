"""quorate up, status and down with clusters of real processes, as people use them."""

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from quorate.client.sync import Admin, Producer
from quorate.jepsen.lab.native import compiler
from tests.integration.controllers import COMMAND, TIMEOUT_S, Done, environment, quorate

pytestmark = pytest.mark.integration

POLL_S = 0.05
SHOW_CURSOR = b"\x1b[?25h"


class Cluster:
    """A cluster's directory, and commands on it; whatever a test leaves running is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "cluster"
        self.foreground: list[subprocess.Popen[str]] = []

    def run(self, *words: str) -> Done:
        return quorate(*words, "--dir", str(self.path))

    def status(self) -> dict[str, Any]:
        (status,) = self.run("status", "--json").items()
        return status

    def pids(self) -> dict[str, int]:
        """The processes written down, by node."""
        try:
            document = json.loads((self.path / "pids.json").read_text())
        except FileNotFoundError:
            return {}
        return {name: pid for name, (pid, _) in document["nodes"].items()}

    def up(self, *words: str) -> dict[str, Any]:
        """Start a cluster in the foreground; return what it says when it is ready."""
        command = [*COMMAND, "up", "--dir", str(self.path), *words, "--format", "jsonl"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        self.foreground.append(process)
        return self.event("ready")

    def event(self, kind: str) -> dict[str, Any]:
        """Return the next event of a kind that the last one in the foreground tells."""
        process = self.foreground[-1]
        assert process.stdout is not None
        for line in process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == kind:
                return event
        _, told = process.communicate(timeout=TIMEOUT_S)
        raise AssertionError(f"it ended: {told}")

    def ends(self) -> str:
        """Wait for the last one in the foreground to end well; return what it said."""
        process = self.foreground[-1]
        _, told = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, told
        assert "Traceback" not in told
        return told

    def clean_up(self) -> None:
        for process in self.foreground:
            process.kill()
            process.communicate()
        for pid in self.pids().values():
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


def is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def states(status: dict[str, Any]) -> dict[str, str]:
    return {f"{node['role']} {node['id']}": node["state"] for node in status["nodes"]}


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.clean_up()


def test_a_detached_cluster_runs_serves_and_ends_without_a_trace(cluster: Cluster) -> None:
    done = cluster.run("up", "--brokers", "2", "--controllers", "1", "--port", "0", "--detach")
    assert done.code == 0, done.err
    bootstrap = re.search(r"^bootstrap servers (\S+)$", done.out, re.MULTILINE)
    assert bootstrap
    assert f"quorate topics create appLogs -p 6 -r 2 -b {bootstrap[1].split(',')[0]}" in done.out
    b = ("-b", bootstrap[1])
    assert quorate("topics", "create", "t", "-p", "4", "-r", "1", *b).code == 0
    assert quorate("produce", "t", *b, stdin="one\ntwo\n").code == 0
    assert quorate("consume", "t", "--from-beginning", "-n", "2", *b).code == 0

    status = cluster.status()
    assert status["good"], status
    assert status["partitions"] == {
        "topics": 1, "partitions": 4, "offline": 0, "under_replicated": 0, "under_min_isr": 0,
        "at_min_isr": 0,
    }  # fmt: skip
    assert [node["leads"] for node in status["nodes"]] == [None, 2, 2]
    assert states(status) == {
        "controller 101": "leader", "broker 1": "in service", "broker 2": "in service",
    }  # fmt: skip
    asked = quorate("status", *b)
    assert asked.code == 0, asked.err
    assert "4 partitions in 1 topic: all led, all replicas in sync" in asked.err
    assert [line.split()[0] for line in asked.out.splitlines()] == ["ID", "1", "2"]
    lines = cluster.run("status").out
    assert "4 partitions in 1 topic: all led, all replicas in sync" in lines

    pids = cluster.pids()
    addresses = [node["address"] for node in status["nodes"]]
    assert all(map(is_running, pids.values()))
    assert cluster.run("down").out == f"ended 3 nodes of {cluster.path}\n"
    assert not any(map(is_running, pids.values()))
    assert not any(map(is_listening, addresses))
    assert not (cluster.path / "pids.json").exists()
    for log in (cluster.path / "logs").iterdir():
        assert log.read_text().rstrip().endswith("stopped cleanly"), log
    assert cluster.run("down").out == f"nothing runs of {cluster.path}\n"
    assert cluster.run("status").code == 3


def test_ports_stay_and_data_is_there_when_it_is_started_again(cluster: Cluster) -> None:
    first = cluster.up("--brokers", "1", "--controllers", "1", "--port", "0")
    assert quorate("topics", "create", "t", "-b", first["bootstrap"]).code == 0
    cluster.foreground[-1].send_signal(signal.SIGTERM)
    cluster.ends()
    again = cluster.up()
    assert (again["bootstrap"], again["controllers"]) == (first["bootstrap"], first["controllers"])
    assert quorate("topics", "list", "-b", again["bootstrap"]).out == "t\n"
    cluster.foreground[-1].send_signal(signal.SIGINT)
    cluster.ends()


def test_a_node_that_dies_is_told_of_and_started_by_another_up(cluster: Cluster) -> None:
    ready = cluster.up("--brokers", "2", "--controllers", "1", "--port", "0")
    assert len(ready["nodes"]) == 3
    assert cluster.run("chaos", "kill", "2").code == 2  # nobody is there to be asked
    assert cluster.run("chaos", "kill", "2", "--dry-run").out == "would kill broker 2\n"
    assert cluster.run("chaos", "kill", "2", "-y").out == "killed broker 2\n"
    assert cluster.event("change")["text"] == (
        "broker 2 is dead: killed by SIGKILL; the others go on"
    )
    status = cluster.run("status", "--json")
    assert status.code == 3
    assert states(status.items()[0])["broker 2"] == "dead"
    assert "broker 2 is dead" in status.err

    refused = cluster.run("chaos", "kill", "controller-101", "-y")
    assert refused.code == 5
    assert "nothing can be decided any more" in refused.err
    started = cluster.run("chaos", "start", "broker-2")
    assert started.out == "started broker 2\n", started.err
    wait_for(lambda: states(cluster.status())["broker 2"] == "in service")
    assert "all of its nodes are there" in cluster.run("up").err
    assert cluster.run("up", "--brokers", "3").code == 0
    wait_for(lambda: states(cluster.status()).get("broker 3") == "in service")

    alive = cluster.pids()
    assert len(alive) == 4
    assert cluster.run("down").code == 0
    cluster.ends()
    assert not any(map(is_running, alive.values()))


def test_all_nodes_end_when_up_is_killed_and_another_up_takes_over(cluster: Cluster) -> None:
    cluster.up("--brokers", "1", "--controllers", "1", "--port", "0")
    pids = cluster.pids()
    cluster.foreground[-1].kill()
    wait_for(lambda: not any(map(is_running, pids.values())))
    for log in (cluster.path / "logs").iterdir():
        assert log.read_text().rstrip().endswith("stopped cleanly"), log

    cluster.up()
    cluster.foreground[-1].kill()
    done = cluster.run("up", "--detach")  # at once, while the nodes of the one before are ending
    assert done.code == 0, done.err
    assert cluster.status()["good"]
    assert cluster.run("down").code == 0


def test_down_ends_what_hangs_and_what_is_half_dead(cluster: Cluster) -> None:
    assert cluster.run("up", "--brokers", "1", "--detach", "--port", "0").code == 0
    pids = cluster.pids()
    assert cluster.run("chaos", "pause", "broker-1", "-y").out == "paused broker 1\n"
    assert cluster.run("chaos", "resume", "1").out == "resumed broker 1\n"
    assert states(cluster.status())["broker 1"] == "in service"
    assert cluster.run("chaos", "pause", "broker-1", "-y").code == 0
    assert states(cluster.run("status", "--json").items()[0])["broker 1"] == "paused"
    os.kill(pids["controller-101"], signal.SIGKILL)
    assert cluster.run("down").out == f"ended 1 nodes of {cluster.path}\n"
    assert not any(map(is_running, pids.values()))


def test_what_is_missing_of_a_detached_cluster_is_started(cluster: Cluster) -> None:
    assert cluster.run("up", "--brokers", "2", "--detach", "--port", "0").code == 0
    os.kill(cluster.pids()["broker-1"], signal.SIGKILL)
    wait_for(lambda: states(cluster.run("status", "--json").items()[0])["broker 1"] == "dead")
    done = cluster.run("chaos", "start", "1")
    assert done.code == 0, done.err
    assert cluster.run("chaos", "start", "1").code == 1  # it runs
    refused = cluster.run("chaos", "slow-disk", "1")
    assert refused.code == 1
    assert "not started with --chaos" in refused.err
    wait_for(lambda: cluster.status()["good"])
    assert "all nodes run already" in cluster.run("up").err
    assert cluster.run("down").code == 0


def test_a_taken_port_is_told_and_the_next_one_used(cluster: Cluster) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        words = ("--brokers", "1", "--port", str(port), "--detach")
        done = cluster.run("up", *words)
        assert done.code == 0, done.err
        told = re.search(rf"port {port} is taken, so broker 1 listens on (\d+) instead", done.err)
        assert told
        assert f"bootstrap servers 127.0.0.1:{told[1]}\n" in done.out
        assert cluster.run("down").code == 0
    layout = json.loads((cluster.path / "cluster.json").read_text())
    (controller,) = (node for node in layout["nodes"] if node["role"] == "controller")
    with closing(socket.create_server(("127.0.0.1", controller["port"]))):
        done = cluster.run("up", "--detach")
    assert done.code == 1
    assert f"port {controller['port']}, on which controller 101 has to listen, is taken" in done.err


def test_directories_of_others_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    words = ("up", "--brokers", "1", "--detach", "--port", "0")
    done = quorate("status", "--dir", str(tmp_path))
    assert (done.code, done.err.splitlines()[0]) == (1, f"error: there is no cluster in {tmp_path}")
    assert quorate("down", "--dir", str(tmp_path)).code == 1

    assert cluster.run(*words).code == 0
    elsewhere = tmp_path / "copy"
    elsewhere.mkdir()
    (elsewhere / "cluster.json").write_text((cluster.path / "cluster.json").read_text())
    (elsewhere / "broker-1").symlink_to(cluster.path / "broker-1")
    done = quorate("up", "--detach", "--dir", str(elsewhere))
    assert done.code == 1, "its controller's port is in use"
    assert cluster.run("down").code == 0

    (tmp_path / "single" / "controller").mkdir(parents=True)
    done = quorate(*words, "--dir", str(tmp_path / "single"))
    assert done.code == 5
    assert "has the data of a single node, not of a cluster" in done.err
    (tmp_path / "file").write_text("")
    assert quorate(*words, "--dir", str(tmp_path / "file")).code == 1


def test_a_broker_that_does_not_start_is_told_with_what_it_said(cluster: Cluster) -> None:
    words = ("--brokers", "1", "--detach", "--port", "0")
    assert cluster.run("up", *words).code == 0
    assert cluster.run("down").code == 0
    meta = cluster.path / "broker-1" / "meta.json"
    meta.write_text(meta.read_text()[:-20])
    done = cluster.run("up", "--detach")
    assert done.code == 3
    assert "error: broker 1 did not start; the others run" in done.err
    assert "meta.json" in done.err
    assert cluster.run("down").out == f"ended 1 nodes of {cluster.path}\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--controllers", "2"), 2, "2 controllers are no better than 1"),
        (("--brokers", "1", "-X", "node.id=7"), 1, "cannot be the same for all nodes"),
        (("--brokers", "0"), 2, "Invalid value for '--brokers'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    cluster: Cluster, words: tuple[str, ...], code: int, told: str
) -> None:
    done = cluster.run("up", *words)
    assert (done.code, told in done.err) == (code, True), done.err


def test_a_cluster_becomes_larger_but_not_smaller(cluster: Cluster) -> None:
    first = ("up", "--brokers", "2", "--racks", "a,b", "--detach", "--port", "0")
    assert cluster.run(*first).code == 0
    assert cluster.run("up", "--brokers", "1").code == 5
    assert cluster.run("up", "--controllers", "3").code == 5
    bootstrap = cluster.status()["bootstrap"]
    told = quorate("brokers", "list", "--json", "-b", bootstrap).items()
    assert [(b["id"], b["rack"], b["state"]) for b in told] == [
        (1, "a", "in service"), (2, "b", "in service"),
    ]  # fmt: skip
    assert cluster.run("down").code == 0


def test_the_screen_of_a_terminal_is_left_as_it_was(cluster: Cluster) -> None:
    main, other = pty.openpty()
    command = [*COMMAND, "up", "--brokers", "1", "--port", "0", "--dir", str(cluster.path)]
    with subprocess.Popen(
        command, stdout=other, stderr=other, stdin=other, env=environment(TERM="xterm"),
        start_new_session=True,
    ) as process:  # fmt: skip
        os.close(other)
        seen, interrupted = b"", False
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while time.monotonic() < deadline:
                if select.select([main], [], [], POLL_S)[0]:
                    try:
                        seen += os.read(main, 1 << 16)
                    except OSError:
                        break
                if b"in service" in seen and not interrupted:
                    interrupted = True
                    process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
            os.close(main)
    assert b"Ctrl-C ends all nodes" in seen
    assert b"stopped cleanly" in seen
    assert SHOW_CURSOR in seen
    assert cluster.pids() == {}


def greatest_lag_ms(producer: Producer) -> int:
    """How far the clocks of the leaders of two partitions are behind at most."""
    now_ms = time.time_ns() // 1_000_000
    return max(now_ms - producer.send("t", b"x", partition=n).timestamp_ms for n in (0, 1))


@pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for what is preloaded")
def test_a_clock_goes_wrong_a_disk_is_slow_a_link_is_cut_and_all_is_healed(
    cluster: Cluster,
) -> None:
    words = ("up", "--brokers", "2", "--controllers", "1", "--detach", "--port", "0", "--chaos")
    done = cluster.run(*words, "--format", "jsonl")
    assert done.code == 0, done.err
    (brokers,) = [
        e["bootstrap"] for e in map(json.loads, done.out.splitlines()) if "bootstrap" in e
    ]
    assert cluster.run("chaos", "skew", "1", "--by", "-2h", "-y").code == 0
    slowed = cluster.run("chaos", "slow-disk", "controller-101", "--by", "400ms")
    assert slowed.out == "controller 101: each sync 400ms longer\n"
    with Admin(brokers) as admin, Producer(brokers) as producer:
        stamped = {"message.timestamp.type": "LogAppendTime"}
        admin.create_topic("t", partitions=2, replication_factor=1, configs=stamped)
        assert greatest_lag_ms(producer) == pytest.approx(7_200_000, abs=60_000)

        begun_s = time.monotonic()
        admin.create_topic("slowly")
        assert time.monotonic() - begun_s >= 0.4

        assert cluster.run("chaos", "partition", "2", "-y").out.splitlines() == [
            "controller 101: each sync 400ms longer, cut off from broker-2",
            "broker 1: clock 2h behind, cut off from broker-2",
            "broker 2: cut off from controller-101 broker-1",
        ]
        wait_for(lambda: states(cluster.run("status", "--json").items()[0])["broker 2"] == "fenced")
        assert cluster.run("chaos", "kill", "1", "-y").code == 0
        assert cluster.run("chaos", "heal").out == (
            "set right what is below controller-101, broker-1, broker-2\nstarted broker-1\n"
        )
        wait_for(lambda: cluster.status()["good"])
        assert abs(greatest_lag_ms(producer)) < 60_000
    assert cluster.run("down").code == 0
