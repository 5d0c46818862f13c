"""Host: what all replicas of a broker share: who it is, whom it knows, and the news of a turn."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from quorate.broker.log.directory import UNKNOWN_BROKER_EPOCH
from quorate.broker.replication.throttle import FOLLOWING, LEADING, Throttle
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage

if TYPE_CHECKING:
    from quorate.broker.replication.leader import LeaderReplica
    from quorate.broker.replication.replica import Replica
    from quorate.broker.replication.sessions import FollowerSession

LAG_TIME_MAX_MS: Final = 30_000


Aside = Callable[[Callable[[], None], Callable[[], None]], None]
"""Runs the first in another thread, and when it is through the second on the loop."""


def here_and_now(run: Callable[[], None], then: Callable[[], None], /) -> None:
    """Let everybody wait, where there is nobody to wait."""
    run()
    then()


class News:
    """What happened to replicas in this turn of the loop, for the shell to act on at its end.

    All are ordered sets: in which order they are acted on must not differ between processes.

    Attributes:
        progressed: those whose readers shall look again.
        unsynced: those with as many unsynced records as ``flush.messages`` allows.
        sessions: the followers' fetches that have something to send.
        alterations: those with a change of their ISR to propose to the controller.
    """

    __slots__ = ("alterations", "progressed", "sessions", "unsynced")

    def __init__(self) -> None:
        self.progressed: dict[Replica, None] = {}
        self.unsynced: dict[LeaderReplica, None] = {}
        self.sessions: dict[FollowerSession, None] = {}
        self.alterations: dict[LeaderReplica, None] = {}


class Host:
    """A broker as its replicas know it.

    Attributes:
        now_ms: a monotonic time, as of the current turn of the loop; lag is measured by it.
        image: the metadata last followed.
        broker_epoch: of this broker's registration.
        aside: does what may take the disk.
        fetching: how fast replicas here that follow may fetch.
        sending: how fast replicas here that lead may send to who is not in sync.
    """

    __slots__ = (
        "aside",
        "broker_epoch",
        "fetching",
        "image",
        "lag_time_max_ms",
        "news",
        "node_id",
        "now_ms",
        "sending",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.news = News()
        self.image: MetadataImage = EMPTY_IMAGE
        self.now_ms = 0
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.lag_time_max_ms = LAG_TIME_MAX_MS
        self.aside: Aside = here_and_now
        self.fetching = Throttle(node_id, FOLLOWING)
        self.sending = Throttle(node_id, LEADING)

    def may_join_isr(
        self, broker_id: int, broker_epoch: int | None, *, in_need: bool = False
    ) -> bool:
        """Whether a follower that fetched in this registration may be called in sync (KIP-903)."""
        if broker_epoch is None:
            return False
        return self.image.may_join_isr(broker_id, broker_epoch, in_need=in_need)

    def cannot_write(self, broker_id: int) -> bool:
        """Whether the disk of a broker is full or broken, or was a moment ago."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.cannot_write

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker was registered again since it had that epoch."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            return False
        return UNKNOWN_BROKER_EPOCH < broker_epoch < broker.broker_epoch
