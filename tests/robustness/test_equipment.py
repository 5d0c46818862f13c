"""What lies below the nodes of a lab: networks that are cut, disks that forget, wrong clocks."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from quorate.jepsen.lab import namespaces
from quorate.jepsen.lab.clocks import CLOCK_C, Clock
from quorate.jepsen.lab.equipment import CLOCKS, DISKS, NETWORK, Equipment, EquipmentPlan
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.lab.namespaces import CLIENTS, Namespaces
from quorate.jepsen.lab.native import build_library, compiler
from quorate.jepsen.lab.network import Network
from quorate.jepsen.lab.reaper import Reaper
from quorate.jepsen.lab.refusing import REFUSE_C, Refusals
from quorate.net.ports import LOOPBACK

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler, for what is preloaded"),
]

WAIT_S_MAX = 20.0
ANSWERED_S = 0.3
HOUR_S = 3600.0

ECHO = """
import socket, threading
def serve(sock):
    while data := sock.recv(100):
        sock.sendall(data)
server = socket.create_server(("0.0.0.0", 9092))
while True:
    threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
"""
ASK = """
import socket, sys
sock = socket.create_connection((sys.argv[1], 9092), float(sys.argv[2]))
sock.settimeout(float(sys.argv[2]))
sock.sendall(b"?")
assert sock.recv(1) == b"?"
"""
TALK = """
import errno, socket, sys
held = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def tried(what):
    try:
        what()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
def dial():
    socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()
for line in sys.stdin:
    print(tried(lambda: held.sendall(b"x")), tried(dial), flush=True)
"""
WRITE = """
import os, sys, time
fd = os.open(sys.argv[1] + "/file", os.O_RDWR | os.O_CREAT)
os.write(fd, b"synced ")
os.fsync(fd)
os.fsync(os.open(sys.argv[1], os.O_RDONLY))
os.write(fd, b"not synced")
print("written", flush=True)
time.sleep(100)
"""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline_s, "it never happened"
        time.sleep(0.01)


# --- the proxy


@pytest.fixture
def proxied() -> Iterator[tuple[Network, socket.socket]]:
    """A network of two, and a connection from the first one to the second, which echoes."""
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        network = Network([0, port], [(0, 1)])

        def echo() -> None:
            served, _ = server.accept()
            with served:
                while data := served.recv(100):
                    served.sendall(data)

        threading.Thread(target=echo, daemon=True).start()
        redirected = int(network.redirects(0).partition(":")[2])
        with socket.create_connection((LOOPBACK, redirected)) as dialed:
            dialed.settimeout(WAIT_S_MAX)
            yield network, dialed
        network.close()


def test_what_is_cut_one_way_arrives_after_the_heal(
    proxied: tuple[Network, socket.socket],
) -> None:
    network, dialed = proxied
    network.cut([(1, 0)])
    dialed.sendall(b"?")
    wait_until(lambda: network.held_back > 0)
    dialed.settimeout(ANSWERED_S)
    with pytest.raises(TimeoutError):
        dialed.recv(1)
    dialed.settimeout(WAIT_S_MAX)
    network.heal(hard=False)
    assert dialed.recv(1) == b"?"


def test_a_slow_link_is_slow(proxied: tuple[Network, socket.socket]) -> None:
    network, dialed = proxied
    network.slow({(0, 1): 0.2})
    begun_s = time.monotonic()
    dialed.sendall(b"?")
    assert dialed.recv(1) == b"?"
    assert time.monotonic() - begun_s >= 0.2
    assert network.delayed == 1


def test_a_connection_is_broken(proxied: tuple[Network, socket.socket]) -> None:
    network, dialed = proxied
    dialed.sendall(b"?")
    assert dialed.recv(1) == b"?"
    assert network.reset([(1, 0)]) == 0
    assert network.reset([(0, 1)]) == 1
    with contextlib.suppress(ConnectionResetError):
        assert dialed.recv(1) == b""


# --- namespaces


@pytest.mark.skipif(bool(namespaces.missing()), reason="needs root, ip and nft")
def test_namespaces_are_cut_one_way_from_nodes_and_from_clients_and_leave_nothing() -> None:
    with Reaper() as reaper:
        network = Namespaces(2, reaper)
        echoes = [
            subprocess.Popen([*network.prefix(n), sys.executable, "-c", ECHO]) for n in (0, 1)
        ]

        def is_answered(source: int, target: int, seconds: float = ANSWERED_S) -> bool:
            prefix = [] if source == CLIENTS else network.prefix(source)
            host, _ = network.address(target)
            words = [*prefix, sys.executable, "-c", ASK, host, str(seconds)]
            return subprocess.run(words, capture_output=True, check=False).returncode == 0

        wait_until(lambda: is_answered(0, 1) and is_answered(1, 0) and is_answered(CLIENTS, 0))
        network.cut([(0, 1), (CLIENTS, 0)])
        assert not is_answered(0, 1)
        assert not is_answered(CLIENTS, 0)
        assert is_answered(CLIENTS, 1, WAIT_S_MAX)
        assert network.held_back > 0
        network.heal(hard=True)
        assert is_answered(1, 0, WAIT_S_MAX)
        assert is_answered(CLIENTS, 0, WAIT_S_MAX)
        for echo in echoes:
            echo.kill()
            echo.wait()
        network.close()
    left = [
        subprocess.run(words, capture_output=True, text=True, check=False).stdout
        for words in (["ip", "netns"], ["ip", "-br", "link"], ["nft", "list", "tables"])
    ]
    assert f"qv{os.getpid()}" not in "".join(left)


# --- clocks


def test_a_clock_jumps_for_its_process_only_and_monotonic_time_does_not(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "clock")
    library = build_library(CLOCK_C, tmp_path)

    def shown() -> tuple[float, float]:
        told = subprocess.run(
            [sys.executable, "-c", "import time; print(time.time(), time.monotonic())"],
            env={**os.environ, "LD_PRELOAD": str(library), **clock.variables()},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        now_s = time.clock_gettime(time.CLOCK_REALTIME)
        return float(told[0]) - now_s, float(told[1]) - time.monotonic()

    right = shown()
    clock.set(-HOUR_S)
    behind = shown()
    clock.set(0.0, 10.0)
    time.sleep(0.2)
    fast = shown()
    reads = clock.reads
    clock.close()
    assert abs(right[0]) < 60
    assert -HOUR_S - 60 < behind[0] < -HOUR_S + 60
    assert fast[0] > 0
    assert all(abs(monotonic_s) < 60 for _, monotonic_s in (right, behind, fast))
    assert reads > 0


# --- links


def test_a_process_is_cut_off_from_a_port_and_reaches_it_again_after_that(tmp_path: Path) -> None:
    refusals = Refusals(tmp_path / "links")
    library = build_library(REFUSE_C, tmp_path)
    with (
        socket.create_server((LOOPBACK, 0)) as server,
        subprocess.Popen(
            [sys.executable, "-c", TALK, str(server.getsockname()[1])],
            env={**os.environ, "LD_PRELOAD": str(library), **refusals.variables()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as talking,
    ):
        held, _ = server.accept()

        def tried() -> list[str]:
            assert talking.stdin is not None
            assert talking.stdout is not None
            talking.stdin.write("\n")
            talking.stdin.flush()
            return talking.stdout.readline().split()

        refusals.ports = [1]
        assert tried() == ["done", "done"]
        refusals.ports = [1, server.getsockname()[1]]
        assert refusals.ports == (1, server.getsockname()[1])
        assert tried() == ["ECONNRESET", "EHOSTUNREACH"]
        held.settimeout(WAIT_S_MAX)
        assert (held.recv(100), held.recv(100)) == (b"x", b"")  # this side hears of it, too
        held.close()
        assert refusals.refused == 2
        refusals.ports = []
        assert tried() == ["EPIPE", "done"]
    refusals.close()


# --- all of it, below hosts


def test_a_host_loses_what_it_did_not_sync_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # for runs are kept in a relative folder, usually
    words = ["-c", WRITE, str(tmp_path / "host" / "data")]
    with Reaper() as reaper:
        equipment = Equipment(Path("own"), EquipmentPlan(1, 0, frozenset({DISKS})), reaper)
        address = equipment.address(0)
        host = Host("host", 1, Path("host"), address, words, [sys.executable])
        host.data.mkdir(parents=True)
        equipment.equip(0, host)
        outcomes: set[bytes] = set()
        for seed in range(12):
            host.start()
            wait_until(lambda: host.log_text().count("written") == host.starts)
            host.cut_power(Random(seed))
            outcomes.add((host.data / "file").read_bytes())
            host.wipe()
        host.start()
        wait_until(lambda: host.log_text().count("written") == host.starts)
        host.kill()
        assert (host.data / "file").read_bytes() == b"synced not synced"
        equipment.close()
    assert all(outcome.startswith(b"synced ") for outcome in outcomes)
    assert b"synced " in outcomes
    assert b"synced not synced" in outcomes


def test_what_several_owners_cut_is_mended_one_by_one(tmp_path: Path) -> None:
    with Reaper() as reaper:
        plan = EquipmentPlan(2, 1, frozenset({NETWORK, CLOCKS}))
        equipment = Equipment(tmp_path, plan, reaper)
        assert isinstance(equipment.network, Network)
        first, second = object(), object()
        equipment.cut(first, frozenset({(0, 1), (0, 2)}))
        equipment.cut(second, frozenset({(0, 1)}))
        equipment.mend(first, hard=True)
        assert equipment.network.cuts == {(0, 1)}
        equipment.mend(first, hard=False)
        equipment.mend(second, hard=False)
        assert equipment.network.cuts == frozenset()
        equipment.close()
