"""What is on the disks of a cluster that has ended: all replicas' batches, all metadata records."""

import base64
import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from quorate.broker.log.files import OsFileSystem
from quorate.broker.log.scan import scan_headers
from quorate.errors import QuorateError
from quorate.jepsen.clients.wire import LATEST, Client, ClosedError, WrongLogError, find_offset
from quorate.jepsen.history import Kind
from quorate.jepsen.lab.cluster import NOBODY, ClusterView, Lab
from quorate.jepsen.lab.hosts import ROOT, Host
from quorate.jepsen.recorder import AUDITOR, Recorder, Scribe
from quorate.jepsen.workloads.workload import Topic
from quorate.model import Endpoint, TopicPartition

DIGEST_BYTES: Final = 16
BATCHES_AT_ONCE: Final = 2_000
RECORDS_AT_ONCE: Final = 500
CAT_S_MAX: Final = 60.0
LED_S_MAX: Final = 10.0
AGAIN_S: Final = 0.1
NOT_FIELDS: Final = frozenset({"offset", "term", "time", "type", "cause", "topic"})


T = TypeVar("T")


class UnreadError(QuorateError):
    """The metadata of a controller that has ended cannot be read; says why."""


def patiently(ask: Callable[[], T | None], deadline_s: float) -> T | None:
    """Ask until somebody knows, or the time is over: who leads may be known in a moment only."""
    found = ask()
    while found is None and time.monotonic() < deadline_s:
        time.sleep(AGAIN_S)
        found = ask()
    return found


def high_watermarks(lab: Lab, partitions: Iterable[str]) -> dict[str, int]:
    """Return the high watermark of each partition, from its leader.

    Those are left out, and missed when replicas are audited, that have no leader for long.
    """
    deadline_s = time.monotonic() + LED_S_MAX
    found: dict[str, int] = {}
    for name in partitions:
        end = patiently(partial(_high_watermark, lab, name), deadline_s)
        if end is not None:
            found[name] = end
    return found


def _high_watermark(lab: Lab, name: str) -> int | None:
    leader = lab.leader_of(name)
    topic, _, number = name.rpartition("-")
    if leader is None or not leader.answers:
        return None
    try:
        with Client(Endpoint(*leader.address)) as client:
            return find_offset(client, TopicPartition(topic, int(number)), LATEST)
    except (ClosedError, WrongLogError):
        return None


def holders(view: ClusterView, topics: Sequence[Topic]) -> dict[str, Sequence[int]]:
    """Return who has the partitions that these topics have by now; nobody, if nobody says."""
    found: dict[str, Sequence[int]] = {
        name: () for topic in topics for name in topic.partition_names()
    }
    names = {topic.name for topic in topics}
    for name, state in view.partitions.items():
        if name.rpartition("-")[0] in names:
            found[name] = state.replicas
    return found


def audit_replicas(
    lab: Lab, recorder: Recorder, replicas: Mapping[str, Sequence[int]], ends: Mapping[str, int]
) -> None:
    """Write down what is below these ends on the disks of who has replicas.

    First of all what there is to be audited, so that it is missed if it is not: a partition of
    which nobody says who has it as that of nobody.
    """
    if not lab.brokers:
        return
    scribe = Scribe(recorder, AUDITOR)
    scribe.tell("audit", [[name, i] for name, ids in replicas.items() for i in ids or (NOBODY,)])
    for name, broker_ids in replicas.items():
        for host in lab.brokers:
            if host.node_id in broker_ids and name in ends:
                _audit_replica(scribe, name, host, ends[name])


def _audit_replica(scribe: Scribe, name: str, host: Host, end: int) -> None:
    folder = host.data / name
    batches: list[list[Any]] = []
    scribe.begin("replica", None)
    try:
        if end:  # or there need not be a folder yet
            folder.stat()
        for batch in _batches(folder, end):
            batches.append(batch)
            if len(batches) == BATCHES_AT_ONCE:
                scribe.end(Kind.OK, "replica", [name, host.node_id, batches])
                batches = []
                scribe.begin("replica", None)
    except OSError as error:
        scribe.end(Kind.FAIL, "replica", [name, host.node_id, str(error)])
    except QuorateError as error:
        scribe.end(Kind.FAIL, "replica", [name, host.node_id, str(error)])
        where = f"{name} of {host.name}, whose high watermark is {end}"
        scribe.tell("complaint", ["replica-damaged", f"{where}: {error}"])
    else:
        scribe.end(Kind.OK, "replica", [name, host.node_id, batches])


def _batches(folder: Path, end: int) -> Iterator[list[Any]]:
    for path in sorted(folder.glob("*.log")):
        file = OsFileSystem().open(str(path), create=False)
        for position, header in scan_headers(file, 0, file.size_bytes()):
            if header.base_offset >= end:
                return  # what is behind may have been written by halves
            if header.next_offset <= end:
                data = file.read_at(header.size_bytes, position)
                digest = hashlib.sha256(data).digest()[:DIGEST_BYTES]
                place = [header.base_offset, header.next_offset, header.leader_epoch]
                yield [*place, digest, [header.producer_id, header.producer_epoch]]
            if header.next_offset >= end:
                return


def audit_metadata(controller: Host, recorder: Recorder) -> None:
    """Write down what controllers decided, from the disk of one that led them in the end."""
    scribe = Scribe(recorder, AUDITOR)
    try:
        records = _metadata_records(controller)
    except (UnreadError, subprocess.TimeoutExpired) as error:
        scribe.tell("complaint", ["metadata-unread", f"{controller.name}: {error}"])
        return
    for at in range(0, len(records), RECORDS_AT_ONCE):
        scribe.tell("metadata-log", records[at : at + RECORDS_AT_ONCE])


def _metadata_records(host: Host) -> list[list[Any]]:
    words = ["metadata", "cat", "--dir", str(host.data), "--format", "jsonl"]
    done = subprocess.run(
        [sys.executable, "-m", "quorate.tools.cli", *words],
        capture_output=True,
        check=False,
        timeout=CAT_S_MAX,
        cwd=ROOT,
    )
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip()
        raise UnreadError(f"{' '.join(words)} ended with {done.returncode}: {told}")
    return [_metadata_record(json.loads(line)) for line in done.stdout.splitlines()]


def _metadata_record(record: Mapping[str, Any]) -> list[Any]:
    fields = {name: value for name, value in record.items() if name not in NOT_FIELDS}
    if "topic_id" in fields:
        text = fields["topic_id"]
        fields["topic_id"] = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return [record["offset"], record["type"], fields, record["cause"]]
