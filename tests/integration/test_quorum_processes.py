"""A cluster is its processes: what runs, what listens, who belongs to it, and how many may fail."""

import shutil
import time
from pathlib import Path

import pytest
import trio

from quorate.control import messages as m
from quorate.tools.controllers import ask_once
from tests.integration.controllers import (
    POLL_S,
    TIMEOUT_S,
    Quorum,
    broker_of,
    broker_process_of,
    endpoint,
    quorate,
)

pytestmark = pytest.mark.integration

LISTENING = "0A"
RARE_BEATS = ("-X", "broker.heartbeat.interval.ms=20000")
SESSION_TIMEOUT = ("-X", "broker.session.timeout.ms=3000")


def children_of(pid: int) -> list[str]:
    """Return the processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [child for task in tasks for child in (task / "children").read_text().split()]


def listening_ports_of(pid: int) -> set[int]:
    """Return the TCP ports that a process listens on."""
    links = [link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()]
    sockets = {str(link)[8:-1] for link in links if str(link).startswith("socket:[")}
    ports: set[int] = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in sockets:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_a_cluster_is_controllers_and_brokers_and_nothing_else(tmp_path: Path) -> None:
    with Quorum(tmp_path, 3) as quorum, broker_process_of(quorum) as broker:
        expected = {n.process.pid: port_of(quorum.addresses[i]) for i, n in quorum.nodes.items()}
        expected[broker.process.pid] = port_of(broker.wait_ready()["listeners"]["PLAINTEXT"])
        for pid, port in expected.items():
            assert children_of(pid) == []
            assert listening_ports_of(pid) == {port}


def test_brokers_are_in_service_while_they_are_heard(tmp_path: Path) -> None:
    with Quorum(tmp_path, 1, *SESSION_TIMEOUT) as quorum:
        with broker_process_of(quorum) as broker:
            wait_until_fenced(quorum, expected="false")
            broker.kill()
            wait_until_fenced(quorum, expected="true")
        with broker_process_of(quorum):
            wait_until_fenced(quorum, expected="false")


def wait_until_fenced(quorum: Quorum, *, expected: str) -> None:
    """Wait until the metadata says so of the broker."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        told = quorum.run("metadata", "shell", "cat", "/brokers/100/fenced")
        if told.out.strip() == expected:
            return
        assert time.monotonic() < deadline, (told.out, told.err)
        time.sleep(POLL_S)


def test_two_of_five_controllers_may_fail(tmp_path: Path) -> None:
    with Quorum(tmp_path, 5) as quorum, broker_of(quorum) as address:
        leader_id = quorum.wait_for(lambda status: status["leader_id"] is not None)["leader_id"]
        follower_id = next(node_id for node_id in quorum.nodes if node_id != leader_id)
        quorum.nodes[leader_id].kill()
        quorum.nodes[follower_id].kill()
        created = quorate("topics", "create", "t", "-b", address)
        assert created.code == 0, (created.out, created.err)


def test_a_controller_begins_no_cluster_among_a_brokers_records(tmp_path: Path) -> None:
    with Quorum(tmp_path, 1) as quorum, broker_process_of(quorum) as broker:
        directory = Path(broker.wait_ready()["directory"])
        words = ("controller", "start", "--id", "5", "--listen", "127.0.0.1:0")
        refused = quorate(*words, "--dir", str(directory))
        assert (refused.code, "belongs to broker 100 of cluster" in refused.err) == (1, True)
        assert not (directory / "controller").exists()


def test_a_broker_does_not_go_on_with_controllers_of_another_past(tmp_path: Path) -> None:
    """They went back to a copy, and have decided so much since that they seem to be ahead."""
    with Quorum(tmp_path, 1) as quorum, broker_process_of(quorum, *RARE_BEATS) as broker:
        address = str(broker.wait_ready()["listeners"]["PLAINTEXT"])
        quorum.nodes[1].stop()
        shutil.copytree(quorum.directory(1), tmp_path / "copy")
        quorum.start(1).wait_ready()
        assert quorate("topics", "create", "later", "-b", address).code == 0
        assert quorate("produce", "later", "-b", address, stdin="kept\n").code == 0
        quorum.nodes[1].stop()
        shutil.rmtree(quorum.directory(1))
        (tmp_path / "copy").rename(quorum.directory(1))
        quorum.start(1).wait_ready()
        trio.run(decide_much, quorum)
        assert broker.process.wait(TIMEOUT_S) == 1, broker.said
        assert "Traceback" not in broker.said
        assert "set aside" in broker.said
    assert any(b"kept" in log.read_bytes() for log in tmp_path.glob("b100/later-0/*.log"))


async def decide_much(quorum: Quorum) -> None:
    """Have the controllers commit more than they lack."""
    everyone = [endpoint(address) for address in quorum.addresses.values()]
    for count in range(1, 21):
        change = m.ConfigChange("num.partitions", m.ConfigOperation.SET, str(count))
        await ask_once(
            everyone, m.AlterConfigs((m.ResourceChanges("broker", "", (change,)),)), TIMEOUT_S
        )
