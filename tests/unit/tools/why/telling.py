"""A small language for pasts: records of metadata, as a controller decides them."""

from collections.abc import Iterable

from quorate.model import NO_LEADER, Endpoint
from quorate.quorum.metadata import records as r
from quorate.records.record import Record
from quorate.tools.metadata.decided import Batch, Decided, Reader
from quorate.tools.why.answer import METADATA, Answer, name_of

TOPIC_ID = bytes(16)
ENDPOINTS = {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}
NOBODY = NO_LEADER


class Diary:
    """Writes records, a batch at an offset each; a second passes with each."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def write(self, *records: r.MetadataRecord) -> None:
        self.batches.append(Batch(10 + len(self.batches), 1, records))

    @property
    def now_ms(self) -> int:
        return 1_000 * (len(self.batches) + 1)

    def topic(
        self, *replicas: tuple[int, ...], name: str = "t", topic_id: bytes = TOPIC_ID
    ) -> None:
        cause, now = "CreateTopics by User:a", self.now_ms
        self.write(
            r.TopicCreated(cause, now, name, topic_id),
            *(
                r.PartitionCreated(cause, now, topic_id, number, each, each, each[0])
                for number, each in enumerate(replicas)
            ),
        )

    def grow(self, number: int, *replicas: int, topic_id: bytes = TOPIC_ID) -> None:
        cause, now = "CreatePartitions by User:a", self.now_ms
        self.write(
            r.PartitionCreated(cause, now, topic_id, number, replicas, replicas, replicas[0])
        )

    def fence(self, broker_id: int, *changes: r.PartitionChanged) -> None:
        self.write(
            r.BrokerFenced(f"broker {broker_id} is gone", self.now_ms, broker_id, 5), *changes
        )

    def unfence(self, broker_id: int, *changes: r.PartitionChanged) -> None:
        cause = f"broker {broker_id} has caught up"
        self.write(r.BrokerUnfenced(cause, self.now_ms, broker_id, 5), *changes)

    def change(
        self,
        leader_id: int,
        epoch: int,
        isr: tuple[int, ...],
        cause: str = "a cause",
        *,
        elr: tuple[int, ...] | None = None,
        last: int | None = None,
        replicas: tuple[int, ...] | None = None,
        adding: tuple[int, ...] | None = None,
        topic_id: bytes = TOPIC_ID,
        partition: int = 0,
    ) -> r.PartitionChanged:
        return r.PartitionChanged(
            cause, self.now_ms, topic_id, partition, leader_id, epoch, isr, elr=elr,
            last_known_leader=last, replicas=replicas, adding_replicas=adding,
        )  # fmt: skip

    def decided(self) -> list[Decided]:
        reader = Reader()
        return [decided for batch in self.batches for decided in reader.read(batch)]


def registered(
    broker_id: int, now_ms: int, *, fenced: bool = True, cause: str = ""
) -> r.BrokerRegistered:
    return r.BrokerRegistered(
        cause or f"broker {broker_id} registered", now_ms, broker_id, 5, bytes(16), b"", ENDPOINTS,
        None, fenced,
    )  # fmt: skip


def texts(answer: Answer) -> list[str]:
    return [line.text for line in answer.lines]


def check_citations(answer: Answer, decided: Iterable[Decided]) -> None:
    """Every line of metadata names a record that is there, with the time that it bears."""
    there = {(each.offset, each.time_ms) for each in decided}
    for line in answer.lines:
        if line.log == METADATA:
            assert (line.offset, line.time_ms) in there, line


def check_measured(
    answer: Answer, asked: Iterable[tuple[str, int]], records: Iterable[Record] = ()
) -> None:
    """Every other line names a record that was read, or who answered what, at a time it did."""
    answers = set(asked)
    read = {(name_of(r.topic_partition), r.offset, r.timestamp_ms) for r in records}
    for line in answer.lines:
        if line.offset is None:
            assert (line.log, line.time_ms) in answers, line
        elif line.log != METADATA:
            assert (line.log, line.offset, line.time_ms) in read, line
