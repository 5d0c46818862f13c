"""A history's verdict: what all checkers found, and whether enough was seen to believe them.

Valid is only what was earned: enough was acknowledged, faults were seen to bite, everything was
read in the end (the quotas). What the history's header says to be possible is told and set aside.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from quorate.dataclass import dataclass
from quorate.jepsen.checkers.acceptance import AcceptanceChecker
from quorate.jepsen.checkers.anomalies import Anomalies, Checker
from quorate.jepsen.checkers.availability import AvailabilityChecker
from quorate.jepsen.checkers.groups import GroupChecker
from quorate.jepsen.checkers.insync import InsyncChecker
from quorate.jepsen.checkers.log import ACKS_ALL, LogChecker
from quorate.jepsen.checkers.meanings import MEANINGS
from quorate.jepsen.checkers.metadata import MetadataChecker
from quorate.jepsen.checkers.quorum import QuorumChecker
from quorate.jepsen.checkers.registers import RegisterChecker
from quorate.jepsen.checkers.replicas import ReplicaChecker
from quorate.jepsen.checkers.topics import TopicChecker
from quorate.jepsen.checkers.transactions import TransactionChecker
from quorate.jepsen.history import Kind, Operation, TruncatedHistoryError

UNDECIDED_PERCENT_MAX: Final = 1
COMPLAINT: Final = "complaint"
"""Told ``[name, sentence]`` by whoever ran it: an anomaly, or a reason not to trust the run."""
CHANGES: Final = frozenset({"put", "cas", "create", "delete"})
DURATION: Final = "duration_s"
"""Headers of runs have it, which come to their end or are cut off; other histories just end."""
CUT_OFF: Final = "the history ends before its run did: it is judged as far as it goes"
NOTHING_DONE: Final = "nothing was done in it"

Figures = dict[str, int | float | str]


class Validity(StrEnum):
    """What is to be thought of a history."""

    VALID = "valid"
    INVALID_SAFETY = "invalid-safety"
    INVALID_LIVENESS = "invalid-liveness"
    UNKNOWN = "unknown"


EXIT_CODES: Final = {
    Validity.VALID: 0,
    Validity.INVALID_SAFETY: 3,
    Validity.INVALID_LIVENESS: 3,
    Validity.UNKNOWN: 4,
}


class Quota(NamedTuple):
    """Something that must have happened for a history to show anything."""

    name: str
    needed: int
    got: int

    @property
    def met(self) -> bool:
        """Whether it has."""
        return self.got >= self.needed


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be thought of a history, and why.

    Attributes:
        anomalies: those that must not be.
        allowed: those that are documented as possible where this history comes from.
        notes: reasons why nothing is certain, in sentences.
    """

    validity: Validity
    anomalies: Anomalies
    allowed: Anomalies
    quotas: tuple[Quota, ...]
    figures: Figures
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """What a program that judges ends with."""
        return EXIT_CODES[self.validity]

    def as_plain(self) -> dict[str, Any]:
        """Return it as JSON and CBOR have it."""
        return {
            "validity": self.validity.value,
            "exit_code": self.exit_code,
            "anomalies": dict(sorted(self.anomalies.counts.items())),
            "allowed": dict(sorted(self.allowed.counts.items())),
            "cases": {name: _plain_cases(self.anomalies, name) for name in self.anomalies.counts},
            "allowed_cases": {
                name: _plain_cases(self.allowed, name) for name in self.allowed.counts
            },
            "quotas": [{**quota._asdict(), "met": quota.met} for quota in self.quotas],
            "figures": self.figures,
            "notes": list(self.notes),
        }


def _plain_cases(anomalies: Anomalies, name: str) -> list[dict[str, Any]]:
    return [
        {
            "what": case.what,
            "evidence": list(case.evidence),
            "where": case.where,
            "offsets": list(case.offsets),
            "processes": list(case.processes),
            "at_ns": list(case.at_ns),
        }
        for case in anomalies.cases[name]
    ]


def allowed_for(
    *, acks: str, idempotent: bool, unclean: bool = False, repeats: bool = False
) -> list[str]:
    """Return the anomalies that are documented as possible with these settings.

    Without acks=all the leader's word is all there is. Who is not idempotent repeats what it heard
    nothing of, and may be overtaken by itself. Unclean elections lose what only others had. Some
    clients (``repeats``) give themselves another epoch, and send again what may be there.
    """
    names = set[str]()
    if acks != ACKS_ALL:
        names.add("acked-by-leader-only")
    if not idempotent:
        names |= {"duplicate", "nonmonotonic-send"}
    if repeats:
        names.add("repeated-by-client")
    if unclean:
        names |= {"unclean-election", "lost-write", "dirty-read", "inconsistent-offsets"}
        names |= {"stale-leader-accept", "commit-regression", "stale-committed-offset"}
    return sorted(names)


def judge(
    header: Mapping[str, Any],
    operations: Iterable[Operation],
    *,
    is_cut_off: Callable[[], bool] = lambda: False,
) -> Verdict:
    """Judge a history, given its header and its operations, in the order of their ends.

    Args:
        header: what the history says of itself; all that this looks for may be missing.
        operations: may end with a TruncatedHistoryError.
        is_cut_off: asked behind the last operation, whether that should not have been the last.

    Raises:
        HistoryError: it is no history of what somebody could have done.
    """
    judges = _Judges(header)
    add = judges.add
    torn = False
    try:
        for operation in operations:
            add(operation)
    except TruncatedHistoryError:
        torn = True
    return judges.verdict(torn=torn or is_cut_off())


class _Judges:
    """All checkers, each of which hears of the operations that mean something to it."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self._header = header
        acks = str(header.get("acks", ACKS_ALL))
        self._log = LogChecker(acks)
        brokers = int(header.get("brokers") or 0)
        self._acceptance = AcceptanceChecker(acks, header.get("clock"), brokers)
        replicas = int(header.get("replication_factor") or 0)
        min_insync = int(header.get("min_insync") or 0)
        self._insync = InsyncChecker(brokers, min_insync, acks, replicas)
        self._availability = AvailabilityChecker(header.get("liveness", {}))
        self._metadata = MetadataChecker()
        self._quorum = QuorumChecker()
        self._replicas = ReplicaChecker(header.get("compacted", ()))
        self._groups = GroupChecker()
        self._topics = TopicChecker()
        self._transactions = TransactionChecker()
        self._registers = RegisterChecker()
        self._phases: list[str] = []
        self._changes = 0
        self._is_anything_done = False
        self._complaints = Anomalies()
        self._notes: list[str] = []
        self._hear: dict[str, list[Callable[[Operation], None]]] = defaultdict(list)
        for checker, names in self._checkers():
            for name in names.split():
                self._hear[name].append(checker.add)

    def _checkers(self) -> Iterator[tuple[Checker, str]]:
        yield self._log, "send txn poll read read-end high-watermark replica delete"
        yield self._acceptance, "send fault heal replica metadata-log"
        yield self._insync, "send fault heal metadata-log"
        yield self._availability, "send txn fault heal phase delete"
        yield self._metadata, "phase view high-watermark metadata-log create delete"
        yield self._quorum, "view"
        yield self._replicas, "replica audit"
        yield self._groups, "assign poll commit reset committed"
        yield self._topics, "create delete describe send poll read"
        yield self._registers, "get put cas"
        yield self._transactions, "init-producer txn read read-end position balances"

    def add(self, operation: Operation) -> None:
        """Tell those of an operation whom it concerns."""
        name = operation.name
        self._is_anything_done |= operation.kind is Kind.OK
        if name == "phase":
            self._phases.append(operation.told)
        elif name == COMPLAINT:
            self._complain(*operation.told)
        elif name in CHANGES:
            self._changes += operation.kind is Kind.OK
        for hear in self._hear.get(name, ()):
            hear(operation)

    def _complain(self, name: str, sentence: str) -> None:
        if name in MEANINGS:
            self._complaints.add(name, sentence)
        else:
            self._notes.append(f"{name}: {sentence}")

    def verdict(self, *, torn: bool) -> Verdict:
        """Judge."""
        is_run = bool(self._phases) or DURATION in self._header
        cut_off = torn or (is_run and self._phases[-1:] != ["end"])
        found = self._complaints
        for checker, _ in self._checkers():
            if checker is self._log:
                found.merge(self._log.finish(complete=not cut_off))
            else:
                found.merge(checker.finish())
        allowed = frozenset(self._header.get("allowed", ()))
        anomalies = found.only(found.counts.keys() - allowed)
        quotas = (*self._quotas(), *self._implied_quotas(cut_off=cut_off))
        why = [CUT_OFF] if cut_off else [] if self._is_anything_done else [NOTHING_DONE]
        notes = why + self._notes
        return Verdict(
            _validity(anomalies, is_certain=not notes and all(quota.met for quota in quotas)),
            anomalies,
            found.only(allowed),
            quotas,
            self._figures(),
            tuple(notes),
        )

    def _quotas(self) -> Iterator[Quota]:
        """Yield those that the header asks for; what it may ask for has a name here."""
        got = {
            "acks": self._availability.acks,
            "acks-under-fault": self._availability.acks_under_fault,
            "leader-changes": self._metadata.leader_changes,
            "faults": self._availability.verified,
            "refusals": self._insync.refused,
            "changes": self._changes,
            "commits": self._transactions.commits,
            "commits-under-fault": self._availability.commits_under_fault,
        }
        for name, needed in self._header.get("quotas", {}).items():
            yield Quota(name, needed, got.get(name, 0))

    def _implied_quotas(self, *, cut_off: bool) -> Iterator[Quota]:
        """Yield those without which no history is believed."""
        faults = self._availability.faults
        if faults:
            yield Quota("faults-verified", faults, self._availability.verified)
        begun = faults + self._availability.failed_faults  # which may have happened, or a part
        if begun and not cut_off:
            yield Quota("faults-healed", begun, begun - self._availability.not_healed)
        written, read = self._log.read_to_the_end()
        if written and not cut_off:
            yield Quota("final-reads", written, read)
        if self._header.get("against") is False and not cut_off:  # the nodes are ours
            yield Quota("replicas-audited", *self._replicas.audited)
            yield Quota("metadata-read", 1, int(self._metadata.is_read))
        keys, undecided = self._undecided()
        if keys:
            needed = keys - keys * UNDECIDED_PERCENT_MAX // 100
            yield Quota("keys-decided", needed, keys - undecided)

    def _undecided(self) -> tuple[int, int]:
        """Return how many histories of registers there were, and of how many nobody knows."""
        registers = self._registers.histories, self._topics.histories
        keys, undecided = self._groups.undecided
        keys += sum(histories.keys for histories in registers)
        return keys, undecided + sum(len(histories.undecided) for histories in registers)

    def _figures(self) -> Figures:
        of: Sequence[Callable[[], Figures]] = (
            self._log.figures,
            self._availability.figures,
            self._metadata.figures,
            self._quorum.figures,
            self._acceptance.figures,
            self._insync.figures,
            self._replicas.figures,
            self._groups.figures,
            self._transactions.figures,
        )
        figures: Figures = {}
        for each in of:
            figures |= each()
        keys, undecided = self._undecided()
        return {**figures, "registers judged": keys, "registers undecided": undecided}


def _validity(anomalies: Anomalies, *, is_certain: bool) -> Validity:
    kinds = {MEANINGS[name].kind for name in anomalies.counts}
    if "safety" in kinds:
        return Validity.INVALID_SAFETY
    if "liveness" in kinds:
        return Validity.INVALID_LIVENESS
    return Validity.VALID if is_certain else Validity.UNKNOWN
