"""quorate doctor: which hop on the way to a cluster is in the way, and what this machine lacks."""

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from quorate.broker.log.directory import META_NAME
from quorate.client.admin_results import BrokerDescription, ClusterDescription
from quorate.errors import ErrorCode, KafkaError
from quorate.model import Endpoint
from quorate.quorum.directory import META, SUBDIRECTORY
from quorate.tools import doctor
from quorate.tools.doctor import (
    BAD,
    OK,
    WARNING,
    Finding,
    findings_table,
    is_loopback,
    look_at_connection,
    look_at_machine,
    worst,
)


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def endpoint_of(listener: socket.socket) -> Endpoint:
    return Endpoint("127.0.0.1", listener.getsockname()[1])


def answer_with(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
    """Have the protocol's answers come from here; names and ports are real."""
    told = list(answers)

    async def ask(endpoint: Endpoint, options: dict[str, Any]) -> ClusterDescription:
        del endpoint, options
        answer = told.pop(0) if len(told) > 1 else told[0]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, ClusterDescription)
        return answer

    monkeypatch.setattr(doctor, "_ask", ask)


def cluster(*endpoints: Endpoint, cluster_id: str = "c") -> ClusterDescription:
    brokers = (BrokerDescription(n, e, None, is_fenced=False) for n, e in enumerate(endpoints, 1))
    return ClusterDescription(cluster_id, 1, tuple(brokers))


async def test_a_cluster_that_can_be_reached_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as listener:
        endpoint = endpoint_of(listener)
        answer_with(monkeypatch, cluster(endpoint))
        findings = await look_at_connection(endpoint, {})
    assert worst(findings) is None
    assert [finding.check for finding in findings] == [
        "bootstrap has a name", "bootstrap listens", "bootstrap speaks Kafka",
        "broker 1 advertises", "broker 1 has a name", "broker 1 listens", "broker 1 answers",
    ]  # fmt: skip


async def test_the_hop_that_is_in_the_way_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("no.such.name.invalid", "a..b"):
        findings = await look_at_connection(Endpoint(host, 9092), {})
        assert [(f.check, f.state) for f in findings] == [("bootstrap has a name", BAD)]
    with listening() as listener:
        endpoint = endpoint_of(listener)
        answer_with(monkeypatch, KafkaError("it hung up", code=ErrorCode.NETWORK_EXCEPTION))
        findings = await look_at_connection(endpoint, {})
        assert worst(findings) == findings[-1]
        assert "security.protocol=SSL" in findings[-1].advice
        answer_with(monkeypatch, cluster(Endpoint("no.such.name.invalid", 9092)))
        findings = await look_at_connection(endpoint, {})
        assert "advertised.listeners" in findings[-1].advice
    found = worst(await look_at_connection(endpoint, {}))
    assert found is not None
    assert found.check == "bootstrap listens"


async def test_an_address_of_another_cluster_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as listener:
        endpoint = endpoint_of(listener)
        answer_with(monkeypatch, cluster(endpoint), cluster(endpoint, cluster_id="other"))
        findings = await look_at_connection(endpoint, {})
        assert findings[-1].detail == f"{endpoint} is cluster other, not c"
        refusal = KafkaError("no", code=ErrorCode.NETWORK_EXCEPTION)
        answer_with(monkeypatch, cluster(endpoint), refusal)
        assert (await look_at_connection(endpoint, {}))[-1].state == BAD


def test_addresses_that_mean_something_else_elsewhere_are_told() -> None:
    asked = Endpoint("b1.example.org", 9092)
    judge = doctor._judge_address  # pyright: ignore[reportPrivateUsage]
    (loopback,) = judge("broker 1", Endpoint("localhost", 9092), asked)
    assert loopback.advice == "set advertised.listeners=PLAINTEXT://b1.example.org:9092 there"
    (anywhere,) = judge("broker 1", Endpoint("0.0.0.0", 9092), asked)
    assert anywhere.state == BAD
    assert judge("broker 1", asked, asked)[0].state == OK
    assert is_loopback("::1")
    assert not is_loopback("b1")


def free_at(monkeypatch: pytest.MonkeyPatch, free: dict[Path, int]) -> None:
    """Let disks have so many bytes left."""
    somewhere = shutil.disk_usage("/")

    def usage(path: Path) -> object:
        return somewhere._replace(total=10**12, free=free.get(path, 10**12))

    monkeypatch.setattr(shutil, "disk_usage", usage)


def disks_at(directory: Path) -> list[Finding]:
    return [f for f in look_at_machine(directory, 0) if f.check.startswith("disk")]


def test_a_full_disk_is_bad_and_the_advice_is_for_the_node_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, broker, both = (tmp_path / name for name in ("c", "b", "cb"))
    for path in (controller, both):
        (path / SUBDIRECTORY).mkdir(parents=True)
        (path / SUBDIRECTORY / META).touch()
    for path in (broker, both):
        path.mkdir(exist_ok=True)
        (path / META_NAME).touch()
    for path, helps, not_here in (
        (controller, "make room", "retention"),
        (broker, "retention.bytes", "controller"),
        (both, "retention.bytes", "controller"),
    ):
        for left, state in ((0, BAD), (2**20 - 1, BAD), (2**20, WARNING), (10**12, OK)):
            free_at(monkeypatch, {path: left})
            (disk,) = disks_at(path)
            assert (path.name, left, disk.state) == (path.name, left, state)
            if state != OK:
                assert helps in disk.advice
                assert not_here not in disk.advice
    free_at(monkeypatch, {controller: 0})
    (disk,) = disks_at(controller / SUBDIRECTORY)
    assert (disk.state, "make room" in disk.advice) == (BAD, True)


def test_the_disks_of_a_clusters_nodes_are_looked_at_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    first, second = tmp_path / "broker-1", tmp_path / "controller-101"
    first.mkdir()
    (first / META_NAME).touch()
    (second / SUBDIRECTORY).mkdir(parents=True)
    (second / SUBDIRECTORY / META).touch()
    (disk,) = disks_at(tmp_path)
    assert disk.check == "disk", "they are on one"
    monkeypatch.setattr(doctor, "device_of", str)
    free_at(monkeypatch, {second: 0})
    found = {f.check: f.state for f in disks_at(tmp_path)}
    assert found == {"disk": OK, "disk of broker-1": OK, "disk of controller-101": BAD}


def test_a_directory_that_is_not_there_yet_is_said_to_be_so(tmp_path: Path) -> None:
    (disk,) = disks_at(tmp_path / "not" / "yet")
    assert disk.detail.endswith(f"free at {tmp_path}, where {tmp_path}/not/yet would be")
    (disk,) = disks_at(tmp_path)
    assert disk.detail.endswith(f"free at {tmp_path}")


def test_the_machine_is_looked_at(tmp_path: Path) -> None:
    with listening() as listener:
        port = endpoint_of(listener).port
        findings = {f.check: f for f in look_at_machine(tmp_path / "not" / "yet", port)}
        assert findings[f"port {port}"].state == WARNING
    assert set(findings) == {"versions", "disk", "open files", f"port {port}", "clock"}
    assert findings["versions"].state == OK
    assert len(findings_table(list(findings.values())).rows) == 5
