"""What producers sent and were told, and whether a broker's logs agree with it."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

from quorate.jepsen.clients.wire import Client, Content, WrongLogError, read_partition
from quorate.model import TopicPartition

Digest = bytes

SHOWN_AFTER_S_MAX: Final = 5.0
"""How long acknowledged records may take to be seen after a start."""


def digest(value: bytes) -> Digest:
    """Return what stands for a value here."""
    return sha256(value).digest()


@dataclass(frozen=True, slots=True)
class Acked:
    """Records that the broker answered for."""

    base_offset: int
    digests: tuple[Digest, ...]

    @property
    def end_offset(self) -> int:
        """The offset behind them."""
        return self.base_offset + len(self.digests)


class Place(NamedTuple):
    """Who sent a value, as which of its values for a partition."""

    producer: str
    number: int


class Ledger:
    """Everything sent to some partitions, acknowledged and shown; for several threads.

    No value is sent twice, except by an idempotent producer that got no answer: so no value may lie
    in a log twice.
    """

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        self.partitions = tuple(partitions)
        self.sent: dict[TopicPartition, dict[Digest, Place]] = {each: {} for each in partitions}
        self.acked: dict[TopicPartition, list[Acked]] = {each: [] for each in partitions}
        self.shown: dict[TopicPartition, dict[int, Digest]] = {each: {} for each in partitions}
        """By offset: what there was when it was read last."""
        self.problems: list[str] = []
        self._lock = threading.Lock()

    def send(self, producer: str, where: TopicPartition, digests: Iterable[Digest]) -> None:
        """Note values before they are sent, or sent again."""
        with self._lock:
            sent = self.sent[where]
            for each in digests:
                sent.setdefault(each, Place(producer, len(sent)))

    def ack(self, where: TopicPartition, base_offset: int, digests: tuple[Digest, ...]) -> None:
        """Note that the broker has them, and where."""
        with self._lock:
            self.acked[where].append(Acked(base_offset, digests))

    def complain(self, problem: str) -> None:
        """Note that the broker gave an answer that it must not give."""
        with self._lock:
            self.problems.append(problem)

    @property
    def acked_records(self) -> int:
        """How many records were acknowledged."""
        return sum(len(acked.digests) for each in self.acked.values() for acked in each)

    def check(self, port: int) -> int:
        """Read everything; return how many records there are.

        Raises:
            WrongLogError: records that were acknowledged or shown are missing or changed, others
                are there twice, out of order or were never sent, or an answer was wrong.
        """
        with Client(port) as client:
            deadline_s = time.monotonic() + SHOWN_AFTER_S_MAX
            records = sum(self._check_one(client, where, deadline_s) for where in self.partitions)
        if self.problems:
            raise WrongLogError("; ".join(self.problems[:10]))
        return records

    def _check_one(self, client: Client, where: TopicPartition, deadline_s: float) -> int:
        # With flush.messages=1, what a crash left is synced again before it is shown.
        acked_end = max((each.end_offset for each in self.acked[where]), default=0)
        content = read_partition(client, where)
        while content.high_watermark < acked_end and time.monotonic() < deadline_s:
            time.sleep(0.02)
            content = read_partition(client, where)
        self.compare(where, content)
        return content.high_watermark

    def compare(self, where: TopicPartition, content: Content) -> None:
        """Note what of a partition's content is wrong, and what consumers have been shown."""
        values = ((offset, value) for offset, value in content.records(where) if value is not None)
        found = {offset: digest(value) for offset, value in values}
        self.problems += disagreements(where, content, found, self.sent[where], self.acked[where])
        gone = sum(found.get(offset) != value for offset, value in self.shown[where].items())
        if gone:
            self.problems.append(f"{where}: {gone} records that were shown are lost or changed")
        self.shown[where] = found


def disagreements(
    where: TopicPartition,
    content: Content,
    found: Mapping[int, Digest],
    sent: Mapping[Digest, Place],
    acked: Sequence[Acked],
) -> list[str]:
    """Say what of a partition's content, found by offset, is wrong."""
    problems: list[str] = []
    if sorted(found) != list(range(content.high_watermark)):
        problems.append(f"{where}: {len(found)} records below {content.high_watermark}")
    lost = sum(
        found.get(each.base_offset + number) != value
        for each in acked
        for number, value in enumerate(each.digests)
    )
    if lost:
        end = max(each.end_offset for each in acked)
        problems.append(
            f"{where}: {lost} acknowledged records are lost or changed"
            f" (acknowledged up to {end}, the log ends at {content.high_watermark})"
        )
    unknown = set(found.values()) - sent.keys()
    if unknown:
        problems.append(f"{where}: {len(unknown)} records were never sent")
    twice = [value for value, count in Counter(found.values()).items() if count > 1]
    if twice:
        problems.append(f"{where}: {len(twice)} records are there twice")
    late = _late(sent[found[offset]] for offset in sorted(found) if found[offset] in sent)
    if late:
        problems.append(f"{where}: {late} records stand behind later ones of their producer")
    return problems


def _late(places: Iterable[Place]) -> int:
    """Return how many values, in the order of a log, follow one that was sent after them."""
    last: dict[str, int] = {}
    late = 0
    for producer, number in places:
        late += number < last.get(producer, number)
        last[producer] = max(number, last.get(producer, number))
    return late
