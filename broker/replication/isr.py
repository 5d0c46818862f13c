"""Who is in sync: what a leader knows of its followers, and the ISR while it is being changed.

The rules are Kafka's (classes ``Replica`` and ``Partition``; KIP-497, KIP-841, KIP-903).
"""

from collections.abc import Iterable
from typing import Final

from quorate.errors import ErrorCode
from quorate.model import UNKNOWN_OFFSET

LONG_AGO_MS: Final = -(2**62)
"""When a follower was caught up that never was, as far as its leader knows."""

NEVER_HAPPENED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Refusals of an ISR that say that the leader's view was right, and that nothing was changed."""

NEWS_UNDERWAY: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""Refusals of an ISR that say that the metadata are ahead of us: they will tell what is true."""


class Visits:
    """When one broker fetched last; shared by all partitions that it fetches together.

    A fetch session names only the partitions about which something changed. The others were
    fetched from, too, and this is how they know.
    """

    __slots__ = ("last_ms",)

    def __init__(self, now_ms: int) -> None:
        self.last_ms = now_ms


class Follower:
    """What a leader knows of one follower in its epoch.

    State: how far the follower's log reached when it fetched last, in which registration of its
    broker, and when it last had everything that the leader had.
    """

    __slots__ = (
        "_last_fetch_ms",
        "_leader_end_offset",
        "_visits",
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, *, caught_up_ms: int) -> None:
        """Begin to lead; those in sync get the benefit of the doubt for as long as any lag."""
        self.broker_id = broker_id
        self.broker_epoch: int | None = None
        """Of the registration in which it fetched last; None before it did."""
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = caught_up_ms
        self._last_fetch_ms = LONG_AGO_MS
        self._leader_end_offset = UNKNOWN_OFFSET
        self._visits: Visits | None = None

    def fetched(
        self, offset: int, log_start_offset: int, *, leader_end_offset: int, now_ms: int
    ) -> None:
        """Note that it fetched from ``offset``, and so has everything below.

        It is caught up now if it has all that we have, or was at its fetch before if it has now
        what we had then (``Replica.updateFetchState``): otherwise a follower of a busy leader would
        never be.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self._leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self._leader_end_offset = max(leader_end_offset, self._leader_end_offset)
        self._last_fetch_ms = now_ms

    def visits(self, visits: Visits, broker_epoch: int) -> None:
        """Note in which session, and registration of its broker, it fetches."""
        self._visits = visits
        self.broker_epoch = broker_epoch

    def leader_appends(self) -> None:
        """Note that it had everything until now, at the latest when its broker fetched last."""
        if self._visits is not None:
            self._last_fetch_ms = max(self._last_fetch_ms, self._visits.last_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._last_fetch_ms)

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it has everything, or had not too long ago (``replica.lag.time.max.ms``)."""
        return (
            self.log_end_offset == leader_end_offset
            or now_ms - self.last_caught_up_ms <= lag_max_ms
        )


class InSyncReplicas:
    """The ISR of one partition, as its leader has it.

    State: the ISR that is committed in the metadata, by partition epoch, and the one proposed to
    the controller, if an answer is due. Invariant: :attr:`maximal` is all that either has, because
    either may be in force already: a record that all of these have is committed whichever it is.
    """

    __slots__ = ("committed", "maximal", "partition_epoch", "proposed")

    def __init__(self, committed: tuple[int, ...], partition_epoch: int) -> None:
        self.committed = committed
        self.partition_epoch = partition_epoch
        self.proposed: tuple[int, ...] | None = None
        self.maximal = frozenset(committed)

    @property
    def in_flight(self) -> bool:
        """Whether it is not known yet what became of a change."""
        return self.proposed is not None

    def propose(self, isr: tuple[int, ...]) -> None:
        """Count on either ISR until it is known which one is in force."""
        assert self.proposed is None, "one change at a time"
        self.proposed = isr
        self.maximal = frozenset((*self.committed, *isr))

    def commit(self, isr: tuple[int, ...], partition_epoch: int) -> None:
        """Take over what the metadata say, if that is news."""
        if partition_epoch > self.partition_epoch:
            self.committed, self.partition_epoch, self.proposed = isr, partition_epoch, None
            self.maximal = frozenset(isr)

    def give_up(self) -> None:
        """Forget what was proposed: it is known that it never happened, and never will."""
        self.proposed = None
        self.maximal = frozenset(self.committed)


def without(isr: tuple[int, ...], broker_ids: Iterable[int]) -> tuple[int, ...]:
    """Return the ISR without some of its members."""
    gone = frozenset(broker_ids)
    return tuple(broker_id for broker_id in isr if broker_id not in gone)
