"""Looks for what keeps clients from a cluster, hop by hop, and for what this machine lacks."""

import ipaddress
import os
import platform
import resource
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import trio

from quorate import __version__
from quorate.broker.log.context import ROOM_BYTES
from quorate.broker.log.directory import META_NAME
from quorate.client.admin import Admin
from quorate.client.admin_results import ClusterDescription
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.model import Endpoint
from quorate.quorum.directory import META, SUBDIRECTORY
from quorate.tools.output import Column, Table, bytes_text

OK: Final = "ok"
WARNING: Final = "warning"
BAD: Final = "bad"

CONNECT_TIMEOUT_S: Final = 3.0
FREE_BYTES_MIN: Final = 1_000_000_000
FREE_SHARE_MIN: Final = 0.05
OPEN_FILES_MIN: Final = 4096
PYTHON_MIN: Final = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is, and what helps if it is not well."""

    check: str
    state: str
    detail: str
    advice: str = ""


def findings_table(findings: Sequence[Finding]) -> Table:
    """Return a row for each finding."""
    columns = (Column("check"), Column("state"), Column("detail"), Column("advice"))
    rows = tuple((f.check, f.state, f.detail, f.advice or None) for f in findings)
    return Table("findings", columns, rows)


def worst(findings: Sequence[Finding]) -> Finding | None:
    """Return the first finding that keeps things from working."""
    return next((finding for finding in findings if finding.state == BAD), None)


# --- doctor connect


async def look_at_connection(endpoint: Endpoint, options: dict[str, Any]) -> list[Finding]:
    """Go the way of a client: name, port, protocol, and each address that brokers advertise."""
    findings = await _reach("bootstrap", endpoint)
    if worst(findings) is not None:
        return findings
    try:
        cluster = await _ask(endpoint, options)
    except QuorateError as error:
        advice = (
            "is it a controller, or another service? A TLS listener wants -X security.protocol=SSL"
        )
        return [*findings, Finding("bootstrap speaks Kafka", BAD, str(error), advice)]
    told = f"cluster {cluster.cluster_id}, {len(cluster.brokers)} brokers"
    findings.append(Finding("bootstrap speaks Kafka", OK, told))
    for broker in cluster.brokers:
        name = f"broker {broker.broker_id}"
        findings += _judge_address(name, broker.endpoint, endpoint)
        reached = await _reach(name, broker.endpoint, advertised=True)
        findings += reached
        if worst(reached) is None:
            findings.append(await _same_cluster(name, broker.endpoint, cluster, options))
    return findings


async def _ask(endpoint: Endpoint, options: dict[str, Any]) -> ClusterDescription:
    async with Admin(str(endpoint), **options) as admin:
        return await admin.describe_cluster()


async def _reach(name: str, endpoint: Endpoint, *, advertised: bool = False) -> list[Finding]:
    """Look a name up, and connect to it."""
    where = "advertised.listeners of that broker" if advertised else "the address"
    try:
        found = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        detail = f"{endpoint.host}: {getattr(error, 'strerror', None) or error}"
        advice = f"correct {where}, or give this machine the name (DNS, /etc/hosts)"
        return [Finding(f"{name} has a name", BAD, detail, advice)]
    addresses = ", ".join(dict.fromkeys(str(each[4][0]) for each in found))
    findings = [Finding(f"{name} has a name", OK, f"{endpoint.host} is {addresses}")]
    try:
        with trio.fail_after(CONNECT_TIMEOUT_S):
            stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
        await stream.aclose()
    except trio.TooSlowError:
        detail = f"{endpoint} does not answer within {CONNECT_TIMEOUT_S:g} s"
        advice = f"a firewall, or a host that is not there: correct {where}, or open the port"
        return [*findings, Finding(f"{name} listens", BAD, detail, advice)]
    except OSError as error:
        detail = f"{endpoint}: {error.strerror or error}"
        advice = f"nobody listens there: start it, or correct {where}"
        return [*findings, Finding(f"{name} listens", BAD, detail, advice)]
    return [*findings, Finding(f"{name} listens", OK, str(endpoint))]


def _judge_address(name: str, advertised: Endpoint, asked: Endpoint) -> list[Finding]:
    """Tell addresses that mean something else on each machine."""
    check = f"{name} advertises"
    if advertised.host in {"0.0.0.0", "::", ""}:  # noqa: S104 - this is what is looked for
        detail = f"{advertised}: an address to listen on, to which nobody can connect"
        advice = "set advertised.listeners to a name that clients know"
        return [Finding(check, BAD, detail, advice)]
    if is_loopback(advertised.host) and not is_loopback(asked.host):
        detail = f"{advertised}: that is whoever asks, while you asked {asked.host}"
        advice = f"set advertised.listeners=PLAINTEXT://{asked.host}:{advertised.port} there"
        return [Finding(check, BAD, detail, advice)]
    return [Finding(check, OK, str(advertised))]


def is_loopback(host: str) -> bool:
    """Whether an address is that of the machine itself, whichever that is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _same_cluster(
    name: str, endpoint: Endpoint, cluster: ClusterDescription, options: dict[str, Any]
) -> Finding:
    """Ask the broker itself: another cluster may listen at the address."""
    try:
        other = await _ask(endpoint, options)
    except QuorateError as error:
        advice = "is the listener of another protocol? Compare listeners and advertised.listeners"
        return Finding(f"{name} answers", BAD, str(error), advice)
    if other.cluster_id != cluster.cluster_id:
        detail = f"{endpoint} is cluster {other.cluster_id}, not {cluster.cluster_id}"
        advice = "its advertised.listeners names somebody else's address"
        return Finding(f"{name} answers", BAD, detail, advice)
    return Finding(f"{name} answers", OK, f"cluster {other.cluster_id}")


# --- doctor


def look_at_machine(directory: Path, port: int) -> list[Finding]:
    """Look at what a node needs of this machine: one that is in a directory, or will be."""
    return [_python(), *_disks(directory), _open_files(), _port(port), _clock()]


def _python() -> Finding:
    version = platform.python_version()
    new_enough = tuple(map(int, platform.python_version_tuple()[:2])) >= PYTHON_MIN
    detail = f"quorate {__version__}, Python {version}, {platform.system()} {platform.release()}"
    return Finding("versions", OK if new_enough else BAD, detail)


def _disks(directory: Path) -> list[Finding]:
    """Look at the disk of a directory, and those of a cluster's nodes in it that have others."""
    wanted = directory.absolute()
    if wanted.name == SUBDIRECTORY and (wanted / META).exists():
        wanted = wanted.parent  # a controller names this one as its own when it starts
    place = next(path for path in (wanted, *wanted.parents) if path.exists())
    if place != wanted:
        return [_disk("disk", place, f", where {wanted} would be")]
    nodes = [path for path in sorted(place.glob("*")) if _is_broker(path) or _is_controller(path)]
    apart = [path for path in nodes if device_of(path) != device_of(place)]
    return [_disk("disk", place), *(_disk(f"disk of {path.name}", path) for path in apart)]


def device_of(path: Path) -> object:
    """Return what tells the disk below a directory from others."""
    return path.stat().st_dev


def _is_broker(path: Path) -> bool:
    return (path / META_NAME).exists()


def _is_controller(path: Path) -> bool:
    return (path / SUBDIRECTORY / META).exists()


def _disk(check: str, place: Path, remark: str = "") -> Finding:
    usage = shutil.disk_usage(place)
    detail = f"{bytes_text(usage.free)} of {bytes_text(usage.total)} free at {place}{remark}"
    if not os.access(place, os.W_OK):
        return Finding(check, BAD, f"{place} cannot be written", "another --dir, or its rights")
    advice = "a full disk refuses records; see retention.bytes"
    if _is_controller(place) and not _is_broker(place):
        advice = "a full disk refuses metadata: make room there, or give it a larger one"
    if usage.free < ROOM_BYTES:
        return Finding(check, BAD, detail, advice)
    if usage.free < FREE_BYTES_MIN or usage.free < usage.total * FREE_SHARE_MIN:
        return Finding(check, WARNING, detail, advice)
    return Finding(check, OK, detail)


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    detail = f"{hard} at most ({soft} before a node raises it)"
    if hard != resource.RLIM_INFINITY and hard < OPEN_FILES_MIN:
        advice = "ulimit -Hn, LimitNOFILE=: two files a partition in use, one a connection"
        return Finding("open files", WARNING, detail, advice)
    return Finding("open files", OK, detail)


def _port(port: int) -> Finding:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        advice = f"that may be a broker: quorate doctor connect 127.0.0.1:{port}"
        return Finding(f"port {port}", WARNING, error.strerror or str(error), advice)
    return Finding(f"port {port}", OK, "free")


def _clock() -> Finding:
    """Tell whether somebody keeps the clock; wrong clocks move times of records and retention."""
    synchronized = Path("/run/systemd/timesync/synchronized").exists()
    keepers = [name for name in ("chronyd", "ntpd") if Path(f"/run/{name}.pid").exists()]
    if synchronized or keepers:
        return Finding("clock", OK, "kept by " + (", ".join(keepers) or "systemd-timesyncd"))
    advice = "retention and times of records go by it: run chrony or systemd-timesyncd"
    return Finding("clock", WARNING, "nobody is seen that keeps it", advice)
