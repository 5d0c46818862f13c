"""What is looked at on the nodes' disks in the end, and what it says if that cannot be read."""

import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from quorate.jepsen.auditing import audit_metadata, audit_replicas, holders
from quorate.jepsen.clients.wire import make_batch
from quorate.jepsen.history import HistoryReader, Operation, operations
from quorate.jepsen.judging import Verdict, judge
from quorate.jepsen.lab.cluster import ClusterView, PartitionView
from quorate.jepsen.recorder import AUDITOR, Recorder, Scribe
from quorate.jepsen.workloads.workload import Topic
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER
from tests.unit.jepsen.golden.making import decided, phase

if TYPE_CHECKING:
    from quorate.jepsen.lab.cluster import Lab
    from quorate.jepsen.lab.hosts import Host

GROWN = Topic("growth", 2, 3, {})
MOVED = replace(GROWN, name="reassign", partitions=1, stays=False)


def led(*replicas: int) -> PartitionView:
    return PartitionView(replicas[0], 0, frozenset(replicas), replicas)


def test_all_partitions_are_audited_that_there_are_in_the_end_where_they_are_then() -> None:
    there = {f"growth-{number}": led(101, 102, 103) for number in range(4)}
    view = ClusterView(1, {**there, "reassign-0": led(104, 105), "__consumer_offsets-0": led(101)})
    assert holders(view, [GROWN, MOVED]) == {
        **dict.fromkeys(there, (101, 102, 103)),
        "reassign-0": (104, 105),
    }


def test_a_partition_that_nobody_tells_of_is_missed() -> None:
    assert holders(ClusterView(None, {}), [MOVED]) == {"reassign-0": ()}


# --- what is read

BROKERS = (101, 102, 103)
BATCHES = 20
OURS = {"against": False}


def log_of(batches: int) -> bytearray:
    data = bytearray()
    for number in range(batches):
        batch = make_batch([b"v"], stamp=NO_PRODUCER, codec=Codec.NONE, now_ms=1)
        data += struct.pack(">q", number) + bytes(batch)[8:]
    return data


class Disks:
    """Three brokers that have ended, each with a replica of one partition."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts = [
            SimpleNamespace(data=folder / str(i), name=f"broker-{i}", node_id=i) for i in BROKERS
        ]
        for host in self.hosts:
            (host.data / "t-0").mkdir(parents=True)
            self.file(host.node_id).write_bytes(log_of(BATCHES))

    def file(self, broker: int) -> Path:
        return self.folder / str(broker) / "t-0" / "00000000000000000000.log"

    def audited(self, replicas: dict[str, Any], ends: dict[str, int]) -> list[Operation]:
        recorder = Recorder(self.folder / "history.cbor", {})
        audit_replicas(cast("Lab", SimpleNamespace(brokers=self.hosts)), recorder, replicas, ends)
        Scribe(recorder, AUDITOR).tell("metadata-log", [])  # as the next one to write does
        recorder.close()
        return read(self.folder / "history.cbor")


def read(path: Path) -> list[Operation]:
    with path.open("rb") as file:
        return list(operations(HistoryReader(file)))


def judged(audit: list[Operation], *more: Operation) -> Verdict:
    return judge(OURS, [phase("load", 0), *more, *audit, phase("end", 1)])


def unmet(verdict: Verdict) -> set[str]:
    return {quota.name for quota in verdict.quotas if not quota.met}


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    return Disks(tmp_path)


def test_what_is_read_is_compared(disks: Disks) -> None:
    verdict = judged(disks.audited({"t-0": BROKERS}, {"t-0": BATCHES}), decided())
    assert (verdict.anomalies.counts, unmet(verdict)) == ({}, set())
    assert verdict.figures["replicas compared"] == len(BROKERS)


def test_a_damaged_batch_below_the_high_watermark_is_an_anomaly(disks: Disks) -> None:
    data = log_of(BATCHES)
    data[len(data) // BATCHES + 8 : len(data) // BATCHES + 12] = b"\xff\xff\xff\xff"
    disks.file(103).write_bytes(data)
    verdict = judged(disks.audited({"t-0": BROKERS}, {"t-0": BATCHES}))
    assert verdict.anomalies.counts == {"replica-damaged": 1}
    assert "replicas-audited" in unmet(verdict)


def test_a_partition_to_which_nothing_was_written_has_no_folder_yet(disks: Disks) -> None:
    verdict = judged(disks.audited({"t-1": BROKERS}, {"t-1": 0}), decided())
    assert (verdict.anomalies.counts, unmet(verdict)) == ({}, set())


def test_what_is_behind_the_high_watermark_may_be_anything(disks: Disks) -> None:
    with disks.file(102).open("ab") as file:
        file.write(b"half of a batch")
    verdict = judged(disks.audited({"t-0": BROKERS}, {"t-0": BATCHES}), decided())
    assert (verdict.anomalies.counts, unmet(verdict)) == ({}, set())


@pytest.mark.parametrize(
    ("replicas", "ends"),
    [
        ({"t-0": BROKERS, "t-1": BROKERS}, {"t-0": BATCHES, "t-1": 1}),  # there are no such files
        ({"t-0": BROKERS, "t-1": BROKERS}, {"t-0": BATCHES}),  # nobody leads
        ({"t-0": BROKERS, "t-1": ()}, {"t-0": BATCHES}),  # nobody says who has it
    ],
)
def test_what_could_not_be_read_is_missed(
    disks: Disks, replicas: dict[str, Any], ends: dict[str, int]
) -> None:
    verdict = judged(disks.audited(replicas, ends), decided())
    assert (verdict.anomalies.counts, unmet(verdict)) == ({}, {"replicas-audited"})


def test_who_audits_nothing_has_seen_too_little() -> None:
    assert unmet(judged([])) == {"replicas-audited", "metadata-read"}


def test_metadata_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "history.cbor", {})
    host = SimpleNamespace(data=tmp_path / "nowhere", name="controller-1", node_id=1)
    audit_metadata(cast("Host", host), recorder)
    recorder.close()
    verdict = judged(read(tmp_path / "history.cbor"))
    assert any(note.startswith("metadata-unread: controller-1") for note in verdict.notes)
