"""A network of namespaces on one bridge, as root: packets between any two are dropped by nftables.

Unlike the proxy's network it is a real one: connections back off, and clients can be cut off, too.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from quorate.errors import QuorateError
from quorate.jepsen.lab.network import Pair
from quorate.jepsen.lab.reaper import Reaper

CLIENTS: Final = -1
"""The place of everybody on this machine who is no node."""

PREFIX: Final = "qv"
NETWORKS: Final = range(1, 255)
CLIENTS_HOST: Final = 254
PORT: Final = 9092

RULES: Final = """
table bridge {name} {{
  set cut {{ type ipv4_addr . ipv4_addr; }}
  set lossy {{ type ipv4_addr . ipv4_addr; }}
  counter held {{ }}
  counter lost {{ }}
  chain faults {{
    ip saddr . ip daddr @cut counter name held drop
    ip saddr . ip daddr @lossy numgen random mod 100 < 20 counter name lost drop
  }}
  chain passing {{ type filter hook forward priority 0; policy accept; jump faults; }}
  chain coming {{ type filter hook input priority 0; policy accept; jump faults; }}
  chain going {{ type filter hook output priority 0; policy accept; jump faults; }}
}}
"""
"""Of a run's bridge: both sets hold who sends and who does not receive."""


class NoNetworkError(QuorateError):
    """The kernel or its tools refuse to make the network."""


class Namespaces:
    """Owns a bridge, a namespace for each node and a table of nftables, all named after a run."""

    def __init__(self, count: int, reaper: Reaper) -> None:
        """Make the network for so many nodes; the reaper removes what we do not.

        Raises:
            NoNetworkError: something of it cannot be had; nothing is left of it.
        """
        sweep()
        self._name = f"{PREFIX}{os.getpid()}"
        self._count = count
        for command in self._removal():
            reaper.undo(*command)
        try:
            self._prefix = self._make_bridge()
            for place in range(count):
                self._make_namespace(place)
            _run("nft", "-f", "-", stdin=RULES.format(name=self._name))
        except NoNetworkError:
            self.close()
            raise

    @property
    def has_clients(self) -> bool:
        """Clients are on the bridge."""
        return True

    def address(self, place: int) -> tuple[str, int]:
        """Return where the node of a place listens."""
        return self._host(place), PORT

    def prefix(self, place: int) -> list[str]:
        """Return the words before the command of a node's process.

        Not ``ip netns exec``, which makes a namespace of mounts, too.
        """
        return ["nsenter", f"--net=/run/netns/{self._namespace(place)}"]

    def variables(self, place: int) -> dict[str, str]:
        """Return what a node's process must have in its environment: nothing."""
        del place
        return {}

    def cut(self, pairs: Iterable[Pair]) -> None:
        """From now on, what these send to those is dropped; everything else arrives."""
        self._replace("cut", pairs)

    def slow(self, delays_s: Mapping[Pair, float]) -> None:
        """From now on, every fifth packet that these send to those is lost, and is sent again."""
        self._replace("lossy", delays_s)

    def reset(self, pairs: Collection[Pair]) -> int:
        """Break the connections between these and those; return how many."""
        return sum(
            self._break(source, self._host(target)) for source, target in pairs if source != CLIENTS
        )

    def heal(self, *, hard: bool) -> None:
        """Let through what was cut; ``hard`` breaks all connections instead of delivering late."""
        if hard:
            for place in range(self._count):
                self._break(place, f"{self._prefix}.0/24")
        self.cut(())

    @property
    def held_back(self) -> int:
        """How many packets did not arrive because of a cut."""
        return self._counter("held")

    @property
    def delayed(self) -> int:
        """How many packets were lost by chance."""
        return self._counter("lost")

    def close(self) -> None:
        """Remove everything."""
        for command in self._removal():
            _try(*command)

    def _removal(self) -> list[list[str]]:
        """Return the commands that remove what may be there."""
        places = range(self._count)
        return [
            # A namespace may live on for a moment, its device must not.
            *(["ip", "link", "del", self._device(place)] for place in places),
            *(["ip", "netns", "del", self._namespace(place)] for place in places),
            ["ip", "link", "del", self._name],
            ["nft", "delete", "table", "bridge", self._name],
        ]

    def _make_bridge(self) -> str:
        """Make the bridge with the address of clients; return what addresses begin with."""
        taken = _run("ip", "-o", "-4", "addr")
        first = os.getpid() % len(NETWORKS)  # so that two runs do not choose the same
        for number in (*NETWORKS[first:], *NETWORKS[:first]):
            prefix = f"10.77.{number}"
            if f" {prefix}." not in taken:
                _run("ip", "link", "add", self._name, "type", "bridge")
                host = f"{prefix}.{CLIENTS_HOST}/24"
                _run("ip", "addr", "add", host, "dev", self._name)
                _run("ip", "link", "set", self._name, "up")
                return prefix
        raise NoNetworkError("all of 10.77.0.0/16 is taken: do runs leave networks behind?")

    def _make_namespace(self, place: int) -> None:
        namespace, device = self._namespace(place), self._device(place)
        _run("ip", "netns", "add", namespace)
        peer = ("peer", "name", "eth0", "netns", namespace)
        _run("ip", "link", "add", device, "type", "veth", *peer)
        _run("ip", "link", "set", device, "master", self._name, "up")
        _run("ip", "-n", namespace, "addr", "add", f"{self._host(place)}/24", "dev", "eth0")
        for each in ("lo", "eth0"):
            _run("ip", "-n", namespace, "link", "set", each, "up")

    def _namespace(self, place: int) -> str:
        return f"{self._name}-{place}"

    def _device(self, place: int) -> str:
        return f"{self._name}n{place}"

    def _host(self, place: int) -> str:
        return f"{self._prefix}.{CLIENTS_HOST if place == CLIENTS else place + 1}"

    def _replace(self, chosen: str, pairs: Iterable[Pair]) -> None:
        """Change a set, at once."""
        elements = ", ".join(f"{self._host(a)} . {self._host(b)}" for a, b in sorted(pairs))
        add = f"add element bridge {self._name} {chosen} {{ {elements} }}\n" if elements else ""
        _run("nft", "-f", "-", stdin=f"flush set bridge {self._name} {chosen}\n{add}")

    def _break(self, place: int, whom: str) -> int:
        """Break a node's connections; return how many there were."""
        killed = _run(*self.prefix(place), "ss", "-HKtn", "dst", whom)
        return len(killed.splitlines())

    def _counter(self, name: str) -> int:
        listed = json.loads(_run("nft", "-j", "list", "counter", "bridge", self._name, name))
        entries: Sequence[Mapping[str, Any]] = listed["nftables"]
        return sum(int(entry["counter"]["packets"]) for entry in entries if "counter" in entry)


def sweep() -> list[str]:
    """Remove what runs left that were killed together with what cleans up after them.

    Returns their names.
    """
    listed = _run("ip", "netns", "list") + "\n" + _run("nft", "list", "tables")
    devices = " ".join(device.name for device in Path("/sys/class/net").iterdir())
    names = set(re.findall(rf"\b({PREFIX}\d+)(?=\b|n\d|-)", f"{listed} {devices}"))
    dead = sorted(name for name in names if not Path("/proc", name.removeprefix(PREFIX)).exists())
    for name in dead:
        for device in re.findall(rf"\b{name}n\d+\b", devices):
            _try("ip", "link", "del", device)
        for namespace in re.findall(rf"^{name}-\d+", listed, re.MULTILINE):
            _try("ip", "netns", "del", namespace)
        _try("ip", "link", "del", name)
        _try("nft", "delete", "table", "bridge", name)
    return dead


def missing() -> str:
    """Return why there can be no such network here; empty if there can."""
    for program, package in (("ip", "iproute2"), ("nft", "nftables"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            return f"there is no {program} (Debian: apt-get install {package})"
    if os.geteuid() != 0:
        return "this is not root, who alone may cut the network of a machine"
    probe = f"{PREFIX}{os.getpid()}-probe"
    works = not _try("ip", "netns", "add", probe) and not _try(
        "ip", "netns", "exec", probe, "nft", "add", "table", "bridge", "probe"
    )
    _try("ip", "netns", "del", probe)
    return "" if works else "the kernel has no namespaces, or no nftables for bridges, for us"


def _run(*words: str, stdin: str = "") -> str:
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoNetworkError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _try(*words: str) -> int:
    return subprocess.run(words, capture_output=True, check=False).returncode
