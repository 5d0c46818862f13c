"""What is on the disks of a cluster that has ended: all replicas' batches, all metadata records."""

import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from quorate.broker.log.files import OsFileSystem
from quorate.broker.log.scan import scan_headers
from quorate.errors import QuorateError
from quorate.jepsen.clients.wire import LATEST, Client, ClosedError, WrongLogError, find_offset
from quorate.jepsen.history import Kind
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import ROOT, Host
from quorate.jepsen.recorder import AUDITOR, Recorder, Scribe
from quorate.model import Endpoint, TopicPartition

DIGEST_BYTES: Final = 16
BATCHES_AT_ONCE: Final = 2_000
RECORDS_AT_ONCE: Final = 500
CAT_S_MAX: Final = 60.0
NOT_FIELDS: Final = frozenset({"offset", "term", "time", "type", "cause", "topic"})


def high_watermarks(lab: Lab, partitions: Iterable[str]) -> dict[str, int]:
    """Return the high watermark of each partition, from its leader; those without are left out."""
    found: dict[str, int] = {}
    for name in partitions:
        leader = lab.leader_of(name)
        topic, _, number = name.rpartition("-")
        if leader is not None and leader.answers:
            try:
                with Client(Endpoint(*leader.address)) as client:
                    found[name] = find_offset(client, TopicPartition(topic, int(number)), LATEST)
            except (ClosedError, WrongLogError):
                continue
    return found


def audit_replicas(lab: Lab, recorder: Recorder, ends: Mapping[str, int]) -> None:
    """Write down what is on the brokers' disks below these ends."""
    scribe = Scribe(recorder, AUDITOR)
    for name, end in ends.items():
        for host in lab.brokers:
            folder = host.data / name
            if folder.is_dir():
                _audit_replica(scribe, name, host, folder, end)


def _audit_replica(scribe: Scribe, name: str, host: Host, folder: Path, end: int) -> None:
    batches: list[list[Any]] = []
    scribe.begin("replica", None)
    try:
        for batch in _batches(folder, end):
            batches.append(batch)
            if len(batches) == BATCHES_AT_ONCE:
                scribe.end(Kind.OK, "replica", [name, host.node_id, batches])
                batches = []
                scribe.begin("replica", None)
    except (QuorateError, OSError) as error:
        scribe.end(Kind.INFO, "replica", f"{name} of {host.name}: {error}")
    else:
        scribe.end(Kind.OK, "replica", [name, host.node_id, batches])


def _batches(folder: Path, end: int) -> Iterator[list[Any]]:
    for path in sorted(folder.glob("*.log")):
        file = OsFileSystem().open(str(path), create=False)
        for position, header in scan_headers(file, 0, file.size_bytes()):
            if header.next_offset <= end:
                data = file.read_at(header.size_bytes, position)
                digest = hashlib.sha256(data).digest()[:DIGEST_BYTES]
                place = [header.base_offset, header.next_offset, header.leader_epoch]
                yield [*place, digest, [header.producer_id, header.producer_epoch]]


def audit_metadata(controller: Host, recorder: Recorder) -> None:
    """Write down what controllers decided, from the disk of one that led them in the end."""
    scribe = Scribe(recorder, AUDITOR)
    records = _metadata_records(controller)
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
    return [_metadata_record(json.loads(line)) for line in done.stdout.splitlines()]


def _metadata_record(record: Mapping[str, Any]) -> list[Any]:
    fields = {name: value for name, value in record.items() if name not in NOT_FIELDS}
    if "topic_id" in fields:
        text = fields["topic_id"]
        fields["topic_id"] = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return [record["offset"], record["type"], fields, record["cause"]]
