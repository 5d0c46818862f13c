"""Mutants of transactions: what ends them, who may, and what others see of them meanwhile."""

# They replace what is private, that is their trade.
# pyright: reportPrivateUsage=false

from typing import Any, Final

from quorate.broker.groups.offsets import CommittedOffsets
from quorate.broker.log.active import ActiveSegment
from quorate.broker.log.producers import ProducerStates
from quorate.broker.log.transactions import AbortedTransaction
from quorate.broker.log.verification import Guard
from quorate.broker.replication.follower import FollowerReplica
from quorate.broker.replication.replica import Replica
from quorate.broker.transactions import deciding
from quorate.broker.transactions.coordinator import TransactionCoordinator
from quorate.broker.transactions.deciding import Init, Outcome, Stay
from quorate.broker.transactions.markers import Markers, _Marker
from quorate.broker.transactions.transaction import Transaction
from quorate.errors import ErrorCode
from quorate.jepsen.mutants.leading import LATE_NOT_SILENT
from quorate.jepsen.mutants.mutant import Mutant, Proof
from quorate.jepsen.mutants.patching import Patches
from quorate.protocol.messages.data import PartitionData
from quorate.records.batch import BatchHeader

UNDECIDED: Final = frozenset(
    {
        "aborted-read",
        "hanging-transaction",
        "lost-commit",
        "money-changed",
        "torn-transaction",
        "uncommitted-read",
    }
)
SHOWN: Final = frozenset({"aborted-read", "uncommitted-read"})


def marker_lost(patches: Patches) -> None:
    """Try markers once, and go on with nothing that another coordinator decided."""
    load: Any = None

    def settled(self: Markers, marker: _Marker, _code: ErrorCode) -> bool:
        self._written(marker)
        return True

    def loaded(self: TransactionCoordinator) -> None:
        carry_out, self._carry_out = self._carry_out, lambda *_: None  # type: ignore[method-assign]
        load(self)
        self._carry_out = carry_out  # type: ignore[method-assign]

    patches.method(Markers, "_settled", settled)
    load = patches.method(TransactionCoordinator, "loaded", loaded)


def lso_ahead(patches: Patches) -> None:
    """Let what is stable end where what is replicated does, whatever is open."""

    def last_stable_offset(self: Replica) -> int:
        return self.high_watermark

    patches.getter(Replica, "last_stable_offset", last_stable_offset)


def aborted_not_rebuilt(patches: Patches) -> None:
    """Keep no index of aborted transactions where another broker leads."""
    take: Any = None
    note: Any = None
    follows = False

    def take_and_forget(self: FollowerReplica, data: PartitionData, now_ms: int) -> bool:
        nonlocal follows
        follows = True
        try:
            return take(self, data, now_ms)  # type: ignore[no-any-return]
        finally:
            follows = False

    def note_aborted(self: ActiveSegment, aborted: AbortedTransaction) -> None:
        if not follows:
            note(self, aborted)

    take = patches.method(FollowerReplica, "take", take_and_forget)
    note = patches.method(ActiveSegment, "note_aborted", note_aborted)


def fencing_skipped(patches: Patches) -> None:
    """Give a producer the epoch of the one that had its transactional id before."""
    begin: Any = None

    def init_producer(before: Transaction | None, init: Init) -> Outcome:
        if before is not None and before.producer_epoch >= 0 and init.expected is None:
            return Stay(before)
        return begin(before, init)  # type: ignore[no-any-return]

    begin = patches.function(deciding, "init_producer", init_producer)


def verification_skipped(patches: Patches) -> None:
    """Begin a transaction in a log without asking whether its coordinator knows of it.

    Where clients say nothing to coordinators (version 2), asking is what tells them.
    """
    begin: Any = None

    def begin_verification(
        self: ProducerStates,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        *,
        adds: bool,
        now_ms: int,
    ) -> Guard | None:
        if not adds:
            return None
        asked = producer_id, producer_epoch, sequence
        return begin(self, *asked, adds=adds, now_ms=now_ms)  # type: ignore[no-any-return]

    def check_guarded(_self: ProducerStates, _header: BatchHeader, _guard: Guard | None) -> None:
        return

    begin = patches.method(ProducerStates, "begin_verification", begin_verification)
    patches.method(ProducerStates, "_check_guarded", check_guarded)


def offsets_outside(patches: Patches) -> None:
    """Commit offsets as soon as a transaction has written them."""

    def replay_pending(
        self: CommittedOffsets, _producer_id: int, key: bytes, value: bytes | None
    ) -> None:
        self.replay(key, value)

    patches.method(CommittedOffsets, "replay_pending", replay_pending)


def _proof(fault: str = "none", seconds: int = 8, options: tuple[str, ...] = ()) -> Proof:
    return Proof(("transactions",), (fault,), seconds, options)


MUTANTS: Final = (
    Mutant(
        "marker-lost",
        "The end of a transaction is lost where a leader or the coordinator has failed.",
        ("T1", "T9"),
        UNDECIDED | {"group-stuck"},  # whose offsets are in the transaction that hangs
        _proof("directed:unmarked-transactions", options=LATE_NOT_SILENT),
        marker_lost,
    ),
    Mutant(
        "lso-ahead",
        "The last stable offset is the high watermark, whatever is open.",
        ("T2",),
        SHOWN,
        _proof(),
        lso_ahead,
    ),
    Mutant(
        "aborted-not-rebuilt",
        "A broker that did not lead does not know which transactions were aborted.",
        ("T1",),
        SHOWN,
        _proof("kill:leader", 10),
        aborted_not_rebuilt,
    ),
    Mutant(
        "fencing-skipped",
        "A producer takes over a transactional id, and the one before it can go on.",
        ("T5",),
        UNDECIDED | {"zombie-transaction", "copied-twice"},
        _proof(),
        fencing_skipped,
    ),
    Mutant(
        "verification-skipped",
        "Records are taken of a transaction that its coordinator knows nothing of.",
        ("T4", "T9"),
        frozenset({"hanging-transaction"}),
        _proof(),
        verification_skipped,
    ),
    Mutant(
        "offsets-outside",
        "Offsets of a transaction are committed though it is aborted.",
        ("T6",),
        frozenset({"copy-missing"}),
        _proof(),
        offsets_outside,
    ),
)
