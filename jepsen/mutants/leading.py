"""Mutants of the leader: what is acknowledged, what is committed, who is in sync."""

# They replace what is private, that is their trade.
# pyright: reportPrivateUsage=false

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import trio

from quorate.broker.handlers import produce
from quorate.broker.handlers.context import Broker
from quorate.broker.log.appended import AppendResult
from quorate.broker.log.directory import UNKNOWN_BROKER_EPOCH
from quorate.broker.log.verification import Guard
from quorate.broker.replication.host import Host
from quorate.broker.replication.isr import Follower
from quorate.broker.replication.leader import LeaderReplica
from quorate.broker.replication.replica import Replica
from quorate.control.partition_messages import ANY_EPOCH, InSyncReplica
from quorate.errors import ErrorCode, KafkaError, OffsetOutOfRangeError
from quorate.jepsen.mutants.mutant import Mutant, Proof
from quorate.jepsen.mutants.patching import Patches
from quorate.promise import Promise
from quorate.quorum.control import partitions
from quorate.quorum.metadata.image import MetadataImage
from quorate.records.batch import BatchHeader, parse_header
from quorate.records.slices import FileSlice

LOST: Final = frozenset(
    {"lost-write", "unseen", "inconsistent-offsets", "ack-before-isr", "stale-leader-accept"}
)
HELD_S: Final = 0.05
"""How long what was acknowledged already is held back from the log."""

SOON_LATE: Final = ("--property", "replica.lag.time.max.ms=1000")
"""So that a leader gives followers up before its clients give it up."""

LATE_NOT_SILENT: Final = (*SOON_LATE, "--property", "broker.session.timeout.ms=8000")
"""So that a follower that sleeps is late, and in service still."""

PATIENT: Final = ("--property", "broker.session.timeout.ms=25000")
"""So that who cannot be heard is in service until another one has come back; the last one holds."""

LATE_FOR_LONG: Final = ("--property", "replica.lag.time.max.ms=10000")
"""So that followers are in sync as long as a scenario cuts them off."""

ONE_COPY: Final = ("--min-insync", "1")

FOUR: Final = ("--brokers", "4", "--replication-factor", "4")

PROXY: Final = ("--network", "proxy")
"""Where what is cut is held back, and links can be late."""


def ack_before_isr(patches: Patches) -> None:
    """Answer as soon as the leader has written."""

    def must_wait(_replica: LeaderReplica, _last_offset: int, _acks: int) -> bool:
        return False

    def at_once(
        _broker: Broker,
        _replica: LeaderReplica,
        _offset: int,
        _timeout_ms: int,
        frame: bytes,
        _refuse: Callable[[ErrorCode], bytes],
    ) -> Promise[bytes]:
        promise: Promise[bytes] = Promise()
        promise.resolve(frame)
        return promise

    patches.function(produce, "_must_wait", must_wait)
    patches.function(produce, "_once_committed", at_once)


def ack_before_append(patches: Patches) -> None:
    """Answer first, append a moment later."""
    held: dict[LeaderReplica, deque[memoryview]] = {}
    append: Any = None

    async def write_later(replica: LeaderReplica, acks: int, now_ms: int) -> None:
        await trio.sleep(HELD_S)
        try:
            append(replica, held[replica].popleft(), acks, now_ms)
        except KafkaError:
            return  # nobody will ever know

    def acknowledge(
        replica: LeaderReplica,
        records: memoryview | None,
        acks: int,
        now_ms: int,
        _sound: BatchHeader | None = None,
        guard: Guard | None = None,
    ) -> AppendResult:
        if not records or guard is not None:
            return append(replica, records, acks, now_ms, None, guard)  # type: ignore[no-any-return]
        waiting = held.setdefault(replica, deque())
        offset = replica.log.log_end_offset
        offset += sum(parse_header(batch, 0).record_count for batch in waiting)
        waiting.append(memoryview(bytearray(records)))
        trio.lowlevel.spawn_system_task(write_later, replica, acks, now_ms)
        last = offset + parse_header(records, 0).record_count - 1
        return AppendResult(offset, last, -1, replica.log.log_start_offset, False)  # noqa: FBT003

    append = patches.function(produce, "_append", acknowledge)
    ack_before_isr(patches)


def hw_is_log_end(patches: Patches) -> None:
    """Commit whatever the leader has."""

    def replicated(_self: LeaderReplica, own: int) -> int:
        return own

    patches.method(LeaderReplica, "_replicated", replicated)


def hw_local_isr(patches: Patches) -> None:
    """Go by the ISR that the leader last heard of, whatever it has proposed and who caught up."""

    def replicated(self: LeaderReplica, own: int) -> int:
        followers = self.followers.values()
        ends = [f.log_end_offset for f in followers if f.broker_id in self.isr.committed]
        return min((own, *ends))

    patches.method(LeaderReplica, "_replicated", replicated)


def isr_shrink_unconfirmed(patches: Patches) -> None:
    """Count without those whom it has just proposed to leave out."""
    propose: Any = None

    def propose_and_apply(self: LeaderReplica, isr: tuple[int, ...]) -> None:
        propose(self, isr)
        self.isr.maximal = frozenset(isr)
        self.advance()

    propose = patches.method(LeaderReplica, "_propose", propose_and_apply)


def join_without_epoch_start(patches: Patches) -> None:
    """Take a follower in that has reached the high watermark, which may lag behind commits."""

    def consider(self: LeaderReplica, follower: Follower) -> None:
        if (
            not self.isr.in_flight
            and follower.log_end_offset >= self.high_watermark
            and self._host.may_join_isr(follower.broker_id, follower.broker_epoch)
        ):
            members = {*self.isr.committed, follower.broker_id}
            self._propose(tuple(b for b in self.state.replicas if b in members))

    patches.method(LeaderReplica, "_consider", consider)


def min_insync_unchecked(patches: Patches) -> None:
    """Commit with however few replicas in sync."""

    def is_under_min_isr(_self: LeaderReplica) -> bool:
        return False

    patches.getter(LeaderReplica, "is_under_min_isr", is_under_min_isr)


def broker_epoch_ignored(patches: Patches) -> None:
    """Take a broker for what it was before it was registered again, here and at the controller."""
    check: Any = None

    def check_eligible(
        image: MetadataImage, replica: InSyncReplica, *, leads: bool, can_wait: bool
    ) -> None:
        check(image, replace(replica, broker_epoch=ANY_EPOCH), leads=leads, can_wait=can_wait)

    def is_stale(_self: Host, _broker_id: int, _broker_epoch: int) -> bool:
        return False

    def may_join_isr(
        self: Host, broker_id: int, broker_epoch: int | None, *, in_need: bool = False
    ) -> bool:
        if broker_epoch is None:
            return False
        return self.image.may_join_isr(broker_id, UNKNOWN_BROKER_EPOCH, in_need=in_need)

    check = patches.function(partitions, "_check_eligible", check_eligible)
    patches.method(Host, "is_stale", is_stale)
    patches.method(Host, "may_join_isr", may_join_isr)


def reads_above_hw(patches: Patches) -> None:
    """Give consumers whatever is in the log."""

    def read(
        self: Replica,
        offset: int,
        *,
        max_bytes: int,
        at_least_one: bool,
        may_wait: bool = True,
        stable: bool = False,
    ) -> FileSlice | None:
        del stable
        self.check_readable(offset)
        if offset >= self.log.log_end_offset:
            return None
        try:
            return self.log.read(
                offset,
                max_bytes=max_bytes,
                limit_offset=self.log.log_end_offset,
                at_least_one=at_least_one,
                may_wait=may_wait,
            )
        except OSError as error:
            raise OffsetOutOfRangeError from error

    patches.method(Replica, "read", read)


MUTANTS: Final = (
    Mutant(
        "ack-before-isr",
        "A leader acknowledges with acks=all what only it has written.",
        ("D1", "E3", "Q3"),
        LOST,
        Proof(("append",), ("directed:sleeping-followers",), 5),
        ack_before_isr,
    ),
    Mutant(
        "ack-before-append",
        "A leader acknowledges what nobody has written yet.",
        ("D1",),
        LOST,
        Proof(("append",), ("directed:killed-leader",), 5),
        ack_before_append,
    ),
    Mutant(
        "hw-is-log-end",
        "The high watermark is where the leader's log ends.",
        ("D9", "D1"),
        LOST,
        Proof(("append",), ("directed:sleeping-followers",), 5),
        hw_is_log_end,
    ),
    Mutant(
        "hw-local-isr",
        "The high watermark goes by the ISR that the leader knows of, not by what it proposed.",
        ("Q3", "D1"),
        LOST,
        Proof(("append",), ("directed:unheard-expansion",), 5, (*ONE_COPY, *LATE_NOT_SILENT)),
        hw_local_isr,
    ),
    Mutant(
        "isr-shrink-unconfirmed",
        "A leader counts without those it left out of the ISR before the controller agreed.",
        ("Q1", "D1"),
        LOST,
        Proof(("append",), ("directed:isolated-leader",), 5, SOON_LATE),
        isr_shrink_unconfirmed,
    ),
    Mutant(
        "join-without-epoch-start",
        "A follower is in sync that has the high watermark but not what was committed before.",
        ("Q4", "D1"),
        LOST,
        Proof(
            ("append",),
            ("directed:early-joiner",),
            5,
            (*ONE_COPY, *FOUR, *PROXY, "--property", "replica.lag.time.max.ms=6000"),
        ),
        join_without_epoch_start,
    ),
    Mutant(
        "min-insync-unchecked",
        "acks=all is granted with fewer replicas in sync than min.insync.replicas.",
        ("D11",),
        LOST,
        Proof(("append",), ("directed:last-in-sync",), 5),
        min_insync_unchecked,
    ),
    Mutant(
        "broker-epoch-ignored",
        "A replica is in sync by what it fetched before its broker came back with an empty disk.",
        ("Q4", "D1"),
        LOST,
        Proof(("append",), ("directed:wiped-joiner",), 5, (*ONE_COPY, *LATE_NOT_SILENT, *PATIENT)),
        broker_epoch_ignored,
    ),
    Mutant(
        "reads-above-hw",
        "Consumers are given records that are not committed.",
        ("D9",),
        frozenset({"dirty-read", "inconsistent-offsets"}),
        Proof(("append",), ("directed:unfollowed-leader",), 5, LATE_FOR_LONG),
        reads_above_hw,
    ),
)
