"""Three real controllers, and what is done to them: kills, farewells, new disks, strangers."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

from quorate.control import messages as m
from quorate.errors import ErrorCode, KafkaError, NotControllerError
from quorate.net.control import connect_control
from quorate.tools.controllers import ask_once
from tests.integration.controllers import (
    COMMAND,
    POLL_S,
    TIMEOUT_S,
    Node,
    Quorum,
    broker_of,
    endpoint,
    environment,
    free_addresses,
    quorate,
)

pytestmark = pytest.mark.integration

REGISTER = m.ConfigChange("num.partitions", m.ConfigOperation.SET)


@pytest.fixture
def quorum(tmp_path: Path) -> Generator[Quorum]:
    """Three controllers of the test's own."""
    with Quorum(tmp_path, 3) as own:
        own.wait_for(lambda status: status["leader_id"] is not None)
        yield own


def ask(addresses: str, request: m.Request[Any], timeout_s: float = TIMEOUT_S) -> Any:
    """Ask whichever controller may answer."""
    return trio.run(ask_once, [endpoint(a) for a in addresses.split(",")], request, timeout_s)


def described(
    addresses: str, holds: Callable[[m.DescribeQuorumAnswer], bool]
) -> m.DescribeQuorumAnswer:
    """Return the first description of a quorum for which something holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        told: m.DescribeQuorumAnswer = ask(addresses, m.DescribeQuorum())
        if holds(told):
            return told
        assert time.monotonic() < deadline, told
        time.sleep(POLL_S)


def compare_and_set(expected: str | None, value: str) -> m.AlterConfigs:
    """Change one property of all brokers from one value to another."""
    change = m.ConfigChange("num.partitions", m.ConfigOperation.SET, value, m.Expected(expected))
    return m.AlterConfigs((m.ResourceChanges("broker", "", (change,)),))


def failure(answer: m.AlterConfigsAnswer) -> int:
    (resource,) = answer.resources
    return resource.failure.code


async def tell(address: str, request: m.Request[Any], request_id: bytes) -> Any:
    """Send a request to one certain controller, under an id of the test's choice."""
    where = endpoint(address)
    stream = await trio.open_tcp_stream(where.host, where.port)
    connection = await connect_control(stream, m.Hello("", m.NO_NODE))
    answer: Any = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        try:
            answer = await connection.request(request, request_id=request_id, timeout_ms=20_000)
        except KafkaError as error:
            answer = error
        nursery.cancel_scope.cancel()
    return answer


# --- deaths and farewells


def test_the_deaths_of_leaders_cost_nothing_that_was_acknowledged(quorum: Quorum) -> None:
    value: str | None = None
    terms: list[int] = []
    for number in range(3):
        for step in range(10):
            expected, value = value, str(10 * number + step + 1)
            assert failure(ask(quorum.join, compare_and_set(expected, value))) == 0
        before = ask(quorum.join, m.DescribeQuorum())
        terms.append(before.leader_epoch)
        quorum.nodes[before.leader_id].kill()
        expected, value = value, str(10 * number + 100)
        assert failure(ask(quorum.join, compare_and_set(expected, value))) == 0
        quorum.start(before.leader_id).wait_ready()
    assert terms == sorted(set(terms))


def test_a_retry_is_answered_by_another_leader_as_by_the_first(quorum: Quorum) -> None:
    leader_id = quorum.status()["leader_id"]
    request = compare_and_set(None, "7")
    first = trio.run(tell, quorum.addresses[leader_id], request, b"the same")
    assert failure(first) == 0
    quorum.nodes[leader_id].kill()
    new = quorum.wait_for(lambda status: status["leader_id"] not in (None, leader_id))
    again = trio.run(tell, quorum.addresses[new["leader_id"]], request, b"the same")
    assert again == first
    another = trio.run(tell, quorum.addresses[new["leader_id"]], request, b"another")
    assert failure(another) == ErrorCode.INVALID_UPDATE_VERSION


def test_a_leader_that_is_told_to_stop_hands_over_first(quorum: Quorum) -> None:
    before = ask(quorum.join, m.DescribeQuorum())
    quorum.nodes[before.leader_id].stop()
    after = ask(quorum.join, m.DescribeQuorum())
    assert after.leader_id != before.leader_id
    assert after.leader_epoch == before.leader_epoch + 1, "one election, and it was won"


def test_all_that_was_acknowledged_is_there_after_all_were_killed(quorum: Quorum) -> None:
    assert failure(ask(quorum.join, compare_and_set(None, "5"))) == 0
    before = ask(quorum.join, m.DescribeQuorum())
    for node in quorum.nodes.values():
        node.kill()
    for node_id in quorum.addresses:
        quorum.start(node_id).wait_ready()
    assert failure(ask(quorum.join, compare_and_set("5", "6"))) == 0
    after = ask(quorum.join, m.DescribeQuorum())
    assert after.leader_epoch > before.leader_epoch
    assert after.metadata_version > before.metadata_version


def test_a_broker_survives_leaders_and_serves_without_a_majority(quorum: Quorum) -> None:
    with broker_of(quorum) as address:
        assert quorate("topics", "create", "first", "-b", address).code == 0
        # The broker gets producer ids, which it could not without a majority.
        assert quorate("produce", "first", "-b", address, stdin="a\n").code == 0
        leader_id = quorum.status()["leader_id"]
        quorum.nodes[leader_id].kill()
        assert quorate("topics", "create", "second", "-b", address).code == 0
        next_id = quorum.status()["leader_id"]
        quorum.nodes[next_id].kill()
        assert quorate("produce", "first", "-b", address, stdin="b\n").code == 0
        found = quorate("consume", "first", "-o", "start", "-e", "-b", address)
        assert found.out == "a\nb\n"
        soon = ["-X", "request.timeout.ms=3000"]
        refused = quorate("topics", "create", "third", "-b", address, *soon)
        assert refused.code == 4, (refused.out, refused.err)
        quorum.start(leader_id).wait_ready()
        assert quorate("topics", "create", "fourth", "-b", address).code == 0


# --- who may serve what


def test_followers_serve_metadata_and_send_everything_else_to_the_leader(quorum: Quorum) -> None:
    leader_id = quorum.status()["leader_id"]
    follower_id = next(node_id for node_id in quorum.addresses if node_id != leader_id)
    follower = quorum.addresses[follower_id]
    refusal = trio.run(tell, follower, compare_and_set(None, "5"), b"")
    assert isinstance(refusal, NotControllerError)
    assert refusal.leader_id == leader_id
    assert refusal.leader_endpoint == endpoint(quorum.addresses[leader_id])
    assert failure(ask(follower, compare_and_set(None, "5"))) == 0, "a client follows"
    version = ask(quorum.join, m.DescribeQuorum()).metadata_version
    news = trio.run(tell, follower, m.FetchMetadata(version - 1, 20_000), b"")
    assert news.version == version


def test_a_new_disk_is_a_new_controller_that_votes_when_it_is_told_to(quorum: Quorum) -> None:
    leader_id = quorum.status()["leader_id"]
    wiped_id = next(node_id for node_id in quorum.addresses if node_id != leader_id)
    quorum.nodes[wiped_id].kill()
    shutil.rmtree(quorum.directory(wiped_id))
    quorum.start(wiped_id).wait_ready()

    def observes(told: m.DescribeQuorumAnswer) -> bool:
        # Where it listens is known while a connection from it is open.
        return any(o.node_id == wiped_id and o.endpoint is not None for o in told.observers)

    before = described(quorum.join, observes)
    (old,) = [v for v in before.voters if v.node_id == wiped_id]
    (new,) = [o for o in before.observers if o.node_id == wiped_id]
    assert old.directory_id != new.directory_id
    with pytest.raises(KafkaError) as caught:
        ask(quorum.join, m.AddVoter(wiped_id))
    assert caught.value.code == ErrorCode.DUPLICATE_VOTER
    assert ask(quorum.join, m.TransferLeadership()).leader_id != leader_id
    ask(quorum.join, m.RemoveVoter(wiped_id, old.directory_id))
    described(quorum.join, observes)  # the new leader has heard of it, too
    voters = ask(quorum.join, m.AddVoter(wiped_id)).voters
    assert m.Member(wiped_id, new.directory_id, new.endpoint) in voters
    assert len(voters) == 3
    quorum.nodes[ask(quorum.join, m.DescribeQuorum()).leader_id].kill()
    assert failure(ask(quorum.join, compare_and_set(None, "5"))) == 0, "the new disk votes"


# --- what cannot be


def start_wrongly(*words: str) -> subprocess.CompletedProcess[str]:
    """Start a controller that must end by itself, with a complaint of three lines."""
    done = subprocess.run(
        [*COMMAND, "controller", "start", *words], capture_output=True, text=True,
        timeout=TIMEOUT_S, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done


def test_a_second_controller_with_an_id_that_is_taken_does_not_start(
    quorum: Quorum, tmp_path: Path
) -> None:
    words = ["--id", "1", "--dir", str(tmp_path / "twin"), "--listen", "127.0.0.1:0"]
    done = start_wrongly(*words, "--join", quorum.join)
    assert "two controllers have the id 1" in done.stderr


def test_a_controller_for_another_cluster_does_not_start(quorum: Quorum, tmp_path: Path) -> None:
    words = ["--id", "4", "--dir", str(tmp_path / "four"), "--listen", "127.0.0.1:0"]
    done = start_wrongly(*words, "--join", quorum.join, "--cluster-id", "other")
    assert "not other" in done.stderr


def test_a_listener_beyond_this_host_needs_tls(tmp_path: Path) -> None:
    done = start_wrongly("--dir", str(tmp_path / "c"), "--listen", "0.0.0.0:0")
    assert "only with TLS" in done.stderr
    allowed = ["-X", "quorate.controller.insecure.listener=true"]
    done = start_wrongly("--dir", str(tmp_path / "c"), "--listen", "0.0.0.0:0", *allowed)
    assert "quorate.controller.advertised.listener" in done.stderr
    done = start_wrongly(
        *("--dir", str(tmp_path / "c"), "--listen", "127.0.0.1:0"),
        *("-X", "quorate.controller.security.protocol=SSL"),
    )
    assert "listener.name.controller.ssl.keystore.location" in done.stderr


def test_controllers_and_brokers_prove_to_each_other_who_they_are(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    identity = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
    identity.write_to_path(str(tmp_path / "node.pem"))
    tls = ["-X", "quorate.controller.security.protocol=SSL"]
    tls += ["-X", f"listener.name.controller.ssl.keystore.location={tmp_path / 'node.pem'}"]
    tls += ["-X", f"listener.name.controller.ssl.truststore.location={tmp_path / 'ca.pem'}"]
    addresses = free_addresses(3)
    join = ",".join(addresses)
    nodes = [
        Node(
            [*("controller", "start", "--id", str(number), "--listen", address, "--join", join),
             *("--dir", str(tmp_path / f"c{number}")), *tls],
            tmp_path / f"c{number}.log",
        )
        for number, address in enumerate(addresses, 1)
    ]  # fmt: skip
    try:
        words = ["broker", "start", "--id", "9", "--port", "0", "--controllers", join]
        nodes.append(Node([*words, "--dir", str(tmp_path / "b"), *tls], tmp_path / "b.log"))
        bootstrap = nodes[-1].wait_ready()["listeners"]["PLAINTEXT"]
        assert quorate("topics", "create", "t", "-b", bootstrap).code == 0
        with pytest.raises(KafkaError) as caught:
            ask(join, m.DescribeQuorum(), 1)
        assert caught.value.retriable
        for node in reversed(nodes):
            node.stop()
    finally:
        for node in nodes:
            node.process.send_signal(signal.SIGKILL)
            node.process.wait(TIMEOUT_S)
