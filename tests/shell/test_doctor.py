"""quorate doctor: which hop on the way to a cluster is in the way, and what this machine lacks."""

import socket
from pathlib import Path
from typing import Any

import pytest

from quorate.client.admin_results import BrokerDescription, ClusterDescription
from quorate.errors import ErrorCode, KafkaError
from quorate.model import Endpoint
from quorate.tools import doctor
from quorate.tools.doctor import (
    BAD,
    OK,
    WARNING,
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


def test_the_machine_is_looked_at(tmp_path: Path) -> None:
    with listening() as listener:
        port = endpoint_of(listener).port
        findings = {f.check: f for f in look_at_machine(tmp_path / "not" / "yet", port)}
        assert findings[f"port {port}"].state == WARNING
    assert set(findings) == {"versions", "disk", "open files", f"port {port}", "clock"}
    assert findings["versions"].state == OK
    assert len(findings_table(list(findings.values())).rows) == 5
