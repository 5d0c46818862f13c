"""Kafka's tools on a quorum of three controllers."""

import json
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.clients.agent import Java, ToolResult
from tests.integration.controllers import Quorum, broker_of

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.client("Kafka's tools")]

MAIN = "org.apache.kafka.tools.MetadataQuorumCommand"
TABLE_START = "NodeId"


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Generator[Quorum]:
    """Three controllers that vote, and a fourth that follows."""
    with Quorum(tmp_path_factory.mktemp("quorum"), 3) as started:
        started.wait_for(lambda status: status["leader_id"] is not None)
        started.start(4).wait_ready()
        started.wait_for(lambda status: len(status["observers"]) == 1)
        yield started


Tool = Callable[..., ToolResult]


@pytest.fixture(scope="module")
def tool(jvm: Java, quorum: Quorum) -> Generator[Tool]:
    """Run kafka-metadata-quorum on a broker of that quorum."""
    with broker_of(quorum) as bootstrap:

        def run(*words: str, status: int = 0) -> ToolResult:
            done = jvm.tool(MAIN, "--bootstrap-server", bootstrap, *words)
            assert done.status == status, done.stdout + done.stderr
            return done

        yield run


def described(told: str) -> dict[str, str]:
    """The lines of a status, by what stands before the colon."""
    return {
        label: text.strip()
        for label, colon, text in (line.partition(":") for line in told.splitlines())
        if colon
    }


def replicas(told: str) -> list[list[str]]:
    """The rows of a table of replicas: id, directory, log end, lag, two times, role."""
    lines = [line.split("\t") for line in told.splitlines() if line.strip()]
    heading = next(i for i, line in enumerate(lines) if line[0].strip() == TABLE_START)
    return [[cell.strip() for cell in line if cell.strip()] for line in lines[heading + 1 :]]


@pytest.mark.feature("kafka-metadata-quorum describe --status")
def test_the_status_is_that_of_the_quorum(tool: Tool, quorum: Quorum) -> None:
    ours = quorum.wait_for(lambda status: all(voter["lag"] == 0 for voter in status["voters"]))
    status = described(tool("describe", "--status").stdout)
    assert int(status["LeaderId"]) == ours["leader_id"]
    assert int(status["LeaderEpoch"]) == ours["leader_epoch"]
    assert int(status["HighWatermark"]) >= ours["high_watermark"]
    assert status["ClusterId"] == ours["cluster_id"]
    assert int(status["MaxFollowerLag"]) <= 1
    assert int(status["MaxFollowerLagTimeMs"]) < 10_000
    voters: list[dict[str, Any]] = json.loads(status["CurrentVoters"])
    assert [v["id"] for v in voters] == [1, 2, 3]
    assert [v["directoryId"] for v in voters] == [v["directory_id"] for v in ours["voters"]]
    assert [v["endpoints"] for v in voters] == [
        [f"CONTROLLER://{quorum.addresses[node_id]}"] for node_id in (1, 2, 3)
    ]
    (observer,) = json.loads(status["CurrentObservers"])
    assert (observer["id"], observer["directoryId"]) == (4, ours["observers"][0]["directory_id"])


@pytest.mark.feature("kafka-metadata-quorum describe --replication")
def test_every_replica_is_a_row(tool: Tool, quorum: Quorum) -> None:
    ours = quorum.status()
    rows = replicas(tool("describe", "--replication").stdout)
    roles = {int(row[0]): row[-1] for row in rows}
    leader_id = ours["leader_id"]
    assert roles == {
        **{n: "Leader" if n == leader_id else "Follower" for n in (1, 2, 3)},
        4: "Observer",
    }
    for _, directory_id, log_end, lag, last_fetch, last_caught_up, _ in rows:
        assert len(directory_id) == 22
        assert int(log_end) > 0
        assert 0 <= int(lag) <= 1
        assert int(last_fetch) > 0
        assert int(last_caught_up) > 0
    readable = tool("describe", "--replication", "--human-readable").stdout
    assert len(re.findall(r"\d+ ms ago", readable)) == 2 * len(rows)


@pytest.mark.feature("kafka-metadata-quorum add-controller, remove-controller")
def test_a_controller_is_added_and_removed(tool: Tool, quorum: Quorum, tmp_path: Path) -> None:
    (observer,) = quorum.status()["observers"]
    directory_id = observer["directory_id"]
    (tmp_path / "meta.properties").write_text(
        f"version=1\nnode.id=4\ncluster.id={quorum.status()['cluster_id']}\n"
        f"directory.id={directory_id}\n"
    )
    properties = tmp_path / "controller.properties"
    properties.write_text(
        f"process.roles=controller\nnode.id=4\nlog.dirs={tmp_path}\n"
        f"controller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://{quorum.addresses[4]}\n"
    )
    config = ["--command-config", str(properties)]
    added = tool(*config, "add-controller").stdout
    assert f"Added controller 4 with directory id {directory_id}" in added
    voters = [voter["node_id"] for voter in quorum.status()["voters"]]
    assert voters == [1, 2, 3, 4]
    again = tool(*config, "add-controller", status=1)
    assert "already" in (again.stdout + again.stderr).lower()
    which = ["--controller-id", "4", "--controller-directory-id", directory_id]
    assert "Removed" in tool("remove-controller", *which).stdout
    assert [voter["node_id"] for voter in quorum.status()["voters"]] == [1, 2, 3]
    gone = tool("remove-controller", *which, status=1)
    assert "VoterNotFound" in gone.stdout + gone.stderr
