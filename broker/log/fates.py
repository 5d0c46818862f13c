"""Fates: how transactions ended, for who walks through segments (``CleanedTransactionMetadata``).

Compaction treats records of an aborted transaction as if they had never been written, and removes a
marker only when nothing of its transaction is left, some time later.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from quorate.broker.log.files import Files
from quorate.broker.log.segment import Segment
from quorate.broker.log.transactions import AbortedTransaction
from quorate.dataclass import dataclass
from quorate.records.batch import BatchHeader
from quorate.records.control import EndMarker
from quorate.setting_fields import LONG_MAX


@dataclass(frozen=True, slots=True)
class AbortedSource:
    """Where a log said, at a moment, which transactions were aborted."""

    segments: Sequence[Segment]
    """The closed segments with an index."""
    newest: Sequence[AbortedTransaction]
    """Those with markers in the active segment."""

    def load(self, files: Files) -> list[AbortedTransaction]:
        """Return all, in the order of their markers; may run in a worker thread.

        Raises:
            OSError: a segment is not there any more, or the disk fails.
        """
        found: list[AbortedTransaction] = []
        for segment in self.segments:
            found += segment.through(files).aborted_between(0, LONG_MAX)[0]
        return [*found, *self.newest]


NO_ABORTED = AbortedSource((), ())


class Fates:
    """What became of the transactions in a row of segments.

    State: what was seen so far, in the order of the log: the aborted transactions that a batch was
    seen of, by their markers' offsets; the producers of which one was seen that was not aborted.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted: dict[int, deque[AbortedTransaction]] = {}
        for each in sorted(aborted, key=lambda each: each.first_offset):
            self._aborted.setdefault(each.producer_id, deque()).append(each)
        self._seen: set[int] = set()
        self._committed: set[int] = set()

    def see(self, header: BatchHeader) -> bool:
        """Return whether the next batch, which is no control batch, is of an aborted transaction.

        Its transaction must have ended, or else it counts as one that will be committed.
        """
        if not header.is_transactional:
            return False
        aborted = self._aborted_at(header.producer_id, header.base_offset)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        self._seen.add(aborted.last_offset)
        return True

    def end(
        self, header: BatchHeader, marker: EndMarker | None
    ) -> tuple[bool, AbortedTransaction | None]:
        """Take note of the next batch, which is a control batch.

        Returns:
            Whether it is needed, because there was something left of its transaction; and what the
            index says of that, if it was aborted.
        """
        if marker is None:
            return False, None
        producer_id, offset = header.producer_id, header.base_offset
        is_needed = producer_id in self._committed or offset in self._seen
        self._committed.discard(producer_id)
        self._seen.discard(offset)
        aborted = self._aborted_at(producer_id, offset)
        return is_needed, aborted

    def _aborted_at(self, producer_id: int, offset: int) -> AbortedTransaction | None:
        waiting = self._aborted.get(producer_id)
        while waiting and waiting[0].last_offset < offset:
            waiting.popleft()
        return waiting[0] if waiting and waiting[0].first_offset <= offset else None
