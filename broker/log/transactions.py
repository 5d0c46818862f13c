"""Transactions: which are open in one partition's log, and how far its records are decided.

The rules are Kafka's (class ``ProducerStateManager``). A record is stable when it is known how its
transaction ended, and the marker that says so is replicated. Consumers that read what is committed
see records below the last stable offset (LSO): the first one that is not stable, at most the high
watermark.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    """A producer's records from the first to the last offset are aborted.

    As in Kafka's index of them (class ``AbortedTxn``).
    """

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""
    last_stable_offset: int
    """As far as everything was decided with this marker: no record below it belongs to a
    transaction that ends behind it."""


class Completed(NamedTuple):
    """A transaction that ended."""

    last_offset: int
    """Of the marker."""
    first_offset: int


class Transactions:
    """The transactions of one log that are not known to be decided for good.

    State: the open ones, by first offset, oldest first; of those that ended with a marker that may
    not be replicated yet, the ones that matter: later markers, later first offsets. Others that
    ended before one of them and began behind it hold nothing back that it does not.
    """

    __slots__ = ("_unreplicated", "open")

    def __init__(self) -> None:
        self.open: OrderedDict[int, int] = OrderedDict()
        """Producer ids by first offset."""
        self._unreplicated: deque[Completed] = deque()

    @property
    def unreplicated(self) -> Iterable[Completed]:
        """The ended ones that hold something back until their markers are replicated."""
        return self._unreplicated

    def restore(self, unreplicated: Iterable[Completed]) -> None:
        """Take over those of a snapshot."""
        self._unreplicated.extend(unreplicated)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """A producer's first record of a transaction was written there, behind all others."""
        self.open[first_offset] = producer_id

    def end(self, first_offset: int, marker_offset: int) -> int:
        """A marker was written; return the offset below which all is decided then."""
        del self.open[first_offset]
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[-1].first_offset >= first_offset:
            unreplicated.pop()
        unreplicated.append(Completed(marker_offset, first_offset))
        return next(iter(self.open), marker_offset + 1)

    def replicated(self, high_watermark: int) -> None:
        """Take note that markers below the high watermark are replicated."""
        unreplicated = self._unreplicated
        while unreplicated and unreplicated[0].last_offset < high_watermark:
            unreplicated.popleft()

    def first_unstable(self, stable_offset: int) -> int:
        """Return the first offset that is not stable; the one given if none is before it."""
        first_open = next(iter(self.open), stable_offset)
        if self._unreplicated:
            return min(first_open, self._unreplicated[0].first_offset, stable_offset)
        return min(first_open, stable_offset)
