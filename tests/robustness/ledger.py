"""What producers sent and were told, and whether a broker's logs agree with it."""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

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


class Ledger:
    """Everything sent to some partitions and everything acknowledged; for several threads.

    No value is sent twice, except by an idempotent producer that got no answer: so no value may lie
    in a log twice.
    """

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        self.partitions = tuple(partitions)
        self.sent: dict[TopicPartition, set[Digest]] = {each: set() for each in partitions}
        self.acked: dict[TopicPartition, list[Acked]] = {each: [] for each in partitions}
        self.problems: list[str] = []
        self._lock = threading.Lock()

    def send(self, where: TopicPartition, digests: Sequence[Digest]) -> None:
        """Note values before they are sent."""
        with self._lock:
            self.sent[where].update(digests)

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
            WrongLogError: acknowledged records are missing or changed, others are there twice or
                were never sent, or an answer was wrong.
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
        self.problems += disagreements(where, content, self.sent[where], self.acked[where])
        return content.high_watermark


def disagreements(
    where: TopicPartition, content: Content, sent: set[Digest], acked: Sequence[Acked]
) -> list[str]:
    """Say what of a partition's content is wrong."""
    found = {offset: digest(value) for offset, value in content.records(where) if value is not None}
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
    unknown = set(found.values()) - sent
    if unknown:
        problems.append(f"{where}: {len(unknown)} records were never sent")
    twice = [value for value, count in Counter(found.values()).items() if count > 1]
    if twice:
        problems.append(f"{where}: {len(twice)} records are there twice")
    return problems
