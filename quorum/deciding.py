"""Turns requests into committed records: decided one after the other, committed together.

While one command is on its way, the requests that arrive are collected.  They are then decided in
order, each on what the ones before it would make, and all their records are one command: so the
disks and the network are waited for once, not once a request, and a command still takes effect as a
whole or not at all.
"""

import logging
import math
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import trio

from quorate.control.frames import LENGTH_BYTES, Frame, decode_frame, encode_frame
from quorate.control.messages import Answer
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, NotControllerError, RequestTimedOutError
from quorate.net.bell import Bell
from quorate.promise import Promise, kept
from quorate.quorum.control.decision import Decision
from quorate.quorum.metadata.applying import draft_records
from quorate.quorum.metadata.image import InconsistentRecordError, MetadataImage
from quorate.quorum.metadata.machine import Committed, Conflict, Refused
from quorate.quorum.metadata.records import MetadataRecord, RequestAnswered
from quorate.quorum.raft.outcomes import Lost, NotLeader, ReadDone, Unknown
from quorate.quorum.raft.rounds import CommandTooLargeError
from quorate.quorum.raft_node import Outcome, RaftNode

logger: Final = logging.getLogger(__name__)

DECISIONS_MAX: Final = 10
"""How often a decision is made again because the image moved on meanwhile."""

TOGETHER_MAX: Final = 128
"""How many requests are carried out by one command."""

RECORDS_TOGETHER_MAX: Final = 2000
"""With so many records, some 20 ms of work, a command takes no further request."""

CROWD_MIN: Final = 8
CROWD_S: Final = 0.001
"""After a command of so many requests, their askers have so long to ask for more.

Those who were answered together ask again one after the other.  A command costs every controller
much the same however many requests it carries, so it is worth to wait for the last of them.
"""

A = TypeVar("A", bound=Answer)
Decide = Callable[[MetadataImage], Decision[A]]


@dataclass(frozen=True, slots=True)
class Asked:
    """How a request was asked.

    ``request_id`` is the same for every try of it (empty: it is never tried again), ``deadline_s``
    is by Trio's clock.
    """

    request_id: bytes
    deadline_s: float


@dataclass(slots=True, eq=False)
class _Pending:
    """A request on its way; ``promise`` gets its answer or the reason why there is none."""

    decide: Decide[Any]
    asked: Asked
    promise: Promise[Answer | KafkaError]


@dataclass(frozen=True, slots=True)
class _Draft:
    """What becomes of some requests if these records are committed on that image.

    ``after`` is the image with the records in it, ``None`` if they contradict it. Of those that are
    ``begun`` only a part is in the records.
    """

    image: MetadataImage
    after: MetadataImage | None
    records: tuple[MetadataRecord, ...]
    outcomes: tuple[tuple[_Pending, Answer | KafkaError], ...]
    put_off: tuple[_Pending, ...]
    begun: tuple[_Pending, ...]


class Decider:
    """Owns the requests that wait to be decided; :meth:`run` must run.

    Invariant: whatever is told rests on an image that was the newest while the request waited.
    """

    def __init__(
        self,
        raft: RaftNode,
        refusal: Callable[[], NotControllerError | None],
        clock_ms: Callable[[], int],
    ) -> None:
        """Decide for a Raft node.

        Args:
            raft: what commits.
            refusal: why this controller does not decide, ``None`` if it does.
            clock_ms: the time of day, for records.
        """
        self._raft = raft
        self._refusal = refusal
        self._clock_ms = clock_ms
        self._waiting: list[_Pending] = []
        self._together: list[_Pending] = []
        self._bell = Bell()
        self._crowd = TOGETHER_MAX
        self._crowded = Bell()
        self._next_late_s = math.inf
        self._earlier = Bell()

    async def run(self) -> None:
        """Carry out requests until cancelled; then all are answered."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._answer_late)
            await self._decide()

    async def _answer_late(self) -> None:
        """Answer whoever's time is up: a timer for each would cost more than to decide does."""
        while True:
            times = (pending.asked.deadline_s for pending in self._unanswered())
            self._next_late_s = min(times, default=math.inf)
            await self._earlier.wait_until(self._next_late_s)
            now_s = trio.current_time()
            late = [p for p in self._unanswered() if p.asked.deadline_s <= now_s]
            _answer_all(late, RequestTimedOutError("not committed in time; it may be later"))

    def _unanswered(self) -> list[_Pending]:
        return [p for p in (*self._together, *self._waiting) if not p.promise.resolved]

    async def _decide(self) -> None:
        try:
            while True:
                await self._bell.wait()
                while self._waiting:
                    together = self._together = self._waiting[:TOGETHER_MAX]
                    del self._waiting[:TOGETHER_MAX]
                    await self._carry_out(together)
                    if len(together) >= CROWD_MIN:
                        await self._wait_for(len(together) + len(self._waiting))
        finally:
            stopping = RequestTimedOutError("the controller stops before it can tell")
            _answer_all(self._together, stopping)
            _answer_all(self._waiting, NotControllerError("the controller stops"))

    async def _wait_for(self, crowd: int) -> None:
        """Wait a moment for so many requests."""
        crowd = min(crowd, TOGETHER_MAX)
        if len(self._waiting) < crowd:
            self._crowd = crowd
            await self._crowded.wait_until(trio.current_time() + CROWD_S)
            self._crowd = TOGETHER_MAX

    def submit(self, decide: Decide[Any], asked: Asked) -> Promise[Answer | KafkaError]:
        """Have something decided and committed; return its answer, or why there is none.

        ``NotControllerError``: nothing was done; ``RequestTimedOutError``: it may be carried out
        all the same.
        """
        refusal = self._refusal()
        if refusal is None:
            return self.begin(decide, asked)
        return kept(refusal)

    def begin(self, decide: Decide[Any], asked: Asked) -> Promise[Answer | KafkaError]:
        """Do what :meth:`submit` does, for who knows that this controller decides."""
        promise: Promise[Answer | KafkaError] = Promise()
        pending = _Pending(decide, asked, promise)
        self._waiting.append(pending)
        self._bell.ring()
        if len(self._waiting) == self._crowd:
            self._crowded.ring()
        if asked.deadline_s < self._next_late_s:
            self._earlier.ring()
        return promise

    async def carry_out(self, decide: Decide[A], asked: Asked) -> A:
        """Commit what is decided, and return its answer.

        Raises:
            KafkaError: the decision's own, or as for :meth:`submit`.
        """
        promise, known = self.submit(decide, asked), trio.Event()
        promise.when_resolved(lambda _: known.set())
        await known.wait()
        outcome: Any = promise.value
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome  # type: ignore[no-any-return]  # a decision answers its own request

    # --- one command

    async def _carry_out(self, together: list[_Pending]) -> None:
        """Answer these requests, whatever it takes."""
        attempts = 0
        while attempts < DECISIONS_MAX:
            now_s = trio.current_time()
            together = [p for p in together if not _expired(p, now_s)]
            if not together:
                return
            refusal = self._refusal()
            if refusal is not None:
                _answer_all(together, refusal)
                return
            draft = self._draft(together)
            if len(draft.records) > RECORDS_TOGETHER_MAX:
                # To encode them takes as long as to decide on them did: others come in between.
                await trio.lowlevel.checkpoint()
            if await self._holds(draft, together):
                for pending, answer in draft.outcomes:
                    if not pending.promise.resolved:
                        pending.promise.resolve(answer)
                together = list(draft.put_off)
                # Behind those who wait already: it may take many commands more.
                self._waiting += draft.begun
            else:
                attempts += 1
        _answer_all(
            together, RequestTimedOutError("the metadata changed again and again meanwhile")
        )

    def _draft(self, together: list[_Pending]) -> _Draft:
        """Decide requests one after the other, without anything being committed."""
        image = before = self._raft.image
        fits = True
        records: list[MetadataRecord] = []
        kept: list[MetadataRecord] = []
        outcomes: list[tuple[_Pending, Answer | KafkaError]] = []
        put_off: list[_Pending] = []
        begun: list[_Pending] = []
        ids: set[bytes] = set()
        for pending in together:
            request_id = pending.asked.request_id
            if request_id in ids or len(records) >= RECORDS_TOGETHER_MAX:
                put_off.append(pending)
                continue
            answered = before.answers.get(request_id)
            if answered is not None:
                outcomes.append((pending, _answer_of(answered)))
                continue
            try:
                decision = decided(pending.decide, image)
            except KafkaError as error:
                outcomes.append((pending, error))
                continue
            try:
                image = draft_records(image, decision.records) if decision.records else image
            except InconsistentRecordError:
                if records:
                    # Two things of one kind that one version cannot hold.
                    put_off.append(pending)
                    continue
                fits = False  # The state machine will say why.
            records += decision.records
            if not decision.completes:
                begun.append(pending)
                continue
            outcomes.append((pending, decision.answer))
            if request_id and decision.records:
                ids.add(request_id)
                kept.append(self._kept(decision, request_id))
        # Once for all: to find out which answers are the oldest takes its time.
        image = draft_records(image, kept) if kept else image
        after = image if fits else None
        return _Draft(
            before, after, (*records, *kept), tuple(outcomes), tuple(put_off), tuple(begun)
        )

    def _kept(self, decision: Decision[Any], request_id: bytes) -> RequestAnswered:
        """Return the record of an answer that may be asked for again."""
        answer = encode_frame(Frame(0, decision.answer))[LENGTH_BYTES:]
        cause = decision.records[0].cause
        return RequestAnswered(cause, self._clock_ms(), request_id, answer)

    async def _holds(self, draft: _Draft, together: list[_Pending]) -> bool:
        """Commit a draft, or find that it needs no commit; return whether its outcomes are true.

        If they are not, the requests must be decided again, as far as they are not answered.
        """
        deadline_s = max(pending.asked.deadline_s for pending in together)
        if not draft.records:
            return self._is_true(await self._raft.read(deadline_s), draft, together)
        outcome: Outcome | CommandTooLargeError
        try:
            outcome = await self._raft.propose(
                draft.image.version, draft.records, deadline_s, draft.after
            )
        except CommandTooLargeError as error:
            outcome = error
        match outcome:
            case Refused() | CommandTooLargeError() if len(together) > 1:
                for pending in together:
                    await self._carry_out([pending])
            case CommandTooLargeError():
                message = f"the change is too large, split it: {outcome}"
                _answer_all(together, KafkaError(message, code=ErrorCode.POLICY_VIOLATION))
            case Refused(reason):
                logger.error("a decision contradicts the metadata, this is a bug: %s", reason)
                _answer_all(together, KafkaError(reason))
            case _:
                return self._is_true(outcome, draft, together)
        return False

    def _is_true(
        self,
        outcome: Committed | Conflict | ReadDone | NotLeader | Lost | Unknown,
        draft: _Draft,
        together: list[_Pending],
    ) -> bool:
        """Return whether a draft is true now, after a commit or a read."""
        match outcome:
            case Committed():
                return True
            case Conflict():
                return False
            case ReadDone():
                return self._raft.image.version == draft.image.version
            case NotLeader() | Lost():
                _answer_all(together, self._refusal() or NotControllerError())
            case Unknown():
                message = "the controller cannot tell in time whether the change is committed"
                _answer_all(together, RequestTimedOutError(message))
        return False


def decided(decide: Decide[A], image: MetadataImage) -> Decision[A]:
    """Return a decision; one that cannot be made for a bug of ours is refused.

    Nothing came of it yet. Ended by it, each controller would meet it again, one after the other,
    as the request is tried again.

    Raises:
        KafkaError: the decision's own, or UNKNOWN_SERVER_ERROR.
    """
    try:
        return decide(image)
    except KafkaError:
        raise
    except Exception as error:
        logger.exception("a request cannot be decided, this is a bug in Quorate")
        raise KafkaError(f"this is a bug in Quorate: {type(error).__name__}") from error


def _expired(pending: _Pending, now_s: float) -> bool:
    """Whether it is answered, or nobody waits for it any more; then it is not carried out."""
    if pending.promise.resolved:
        return True
    if pending.asked.deadline_s > now_s:
        return False
    pending.promise.resolve(RequestTimedOutError("not decided in time"))
    return True


def _answer_all(together: Iterable[_Pending], error: KafkaError) -> None:
    for pending in together:
        if not pending.promise.resolved:
            pending.promise.resolve(error)


def _answer_of(body: bytes) -> Answer:
    """Return the answer that was given to an earlier try of a request."""
    message = decode_frame(body).message
    assert isinstance(message, Answer), "only answers are kept"
    return message
