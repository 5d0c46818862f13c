"""Those who send in transactions: writers, copiers, and the owner of a bank; a thread each.

Each has one transactional id, under which one producer comes after the other: it dies in the
middle, is thrown out by its successor and tries to commit all the same, or is closed.
"""

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from random import Random
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.errors import KafkaError
from quorate.jepsen.checkers.transactions import BALANCE, COPY
from quorate.jepsen.clients import committed
from quorate.jepsen.clients.committed_reading import NOT_NOW, read_chunk, read_committed
from quorate.jepsen.clients.raw import Raw
from quorate.jepsen.clients.rereading import UnreadableError
from quorate.jepsen.clients.transacting import OutgoingRecord, SpoiledError, Transactor
from quorate.jepsen.clients.values import encode, value_of
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe
from quorate.model import TopicPartition

ABORT_ODDS: Final = 0.15
DIE_ODDS: Final = 0.03
"""How often a producer ends in the middle of a transaction, without a word."""
ZOMBIE_ODDS: Final = 0.03
"""How often it is thrown out in the middle, and commits all the same."""
HOLD_ODDS: Final = 0.3
HOLD_S: Final = 0.3
"""How often, and how long, a transaction is open though all of it is written."""
AGAIN_S: Final = 0.3
RECORDS_MAX: Final = 6
COPIED_MAX: Final = 50
ACCOUNTS: Final = 6
OPENED_WITH: Final = 100
BALANCES_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """What all of them share.

    Attributes:
        make: Returns a producer for a transactional id.
        numbers: Of transactions.
        succeeds: Whether who has died has a successor in the end, too; else what it left open ends
            by its timeout.
    """

    recorder: Recorder
    bootstrap: str
    make: Callable[[str], Transactor]
    numbers: Iterator[int] = field(default_factory=itertools.count)
    succeeds: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A transaction to be: where to write which values, of what they are made, whom it moves."""

    writes: tuple[tuple[TopicPartition, tuple[Any, ...]], ...]
    group: str = ""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])


class Transacting(ABC):
    """A thread with one transaction after the other, from its making until :meth:`stop`.

    State: which instance has the transactional id, and how many records were sent.
    """

    def __init__(self, place: Place, transactional_id: str, rng: Random, pause_s: float) -> None:
        self.errors: list[str] = []
        self.place: Final = place
        self.rng: Final = rng
        self._id = transactional_id
        self._pause_s = pause_s
        self._scribe = Scribe(place.recorder)
        self._number = place.recorder.process()  # and never given back
        self._sent = 0
        self._instance = 0
        self._transactor: Transactor | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def halt(self) -> None:
        """Begin no other transaction."""
        self._stopping.set()

    def join(self, seconds_max: float) -> None:
        """Return when the last one has ended, or after so long."""
        self._thread.join(seconds_max)
        if self._thread.is_alive():
            self.errors.append(f"{self._id} did not end its last transaction in time")

    @abstractmethod
    def draft(self) -> Draft | None:
        """Return the next transaction; None if there is nothing to do now."""

    def opened(self) -> None:  # noqa: B027 - writers have nothing to do then
        """A new producer has the transactional id."""

    def ended(self, draft: Draft, kind: Kind) -> None:  # noqa: B027 - nor then
        """A transaction ended so."""

    def close(self) -> None:  # noqa: B027 - nor then
        """There is no transaction any more."""

    # --- one after the other

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._pause_s):
                self._go_on()
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self.errors.append(f"{self._id} failed: {error!r}")
        finally:
            self._end()

    def _end(self) -> None:
        if self._transactor is None and self.place.succeeds:
            self._open()
        self._give_up()
        self.close()

    def _go_on(self) -> None:
        if self._transactor is None and not self._open():
            self._stopping.wait(AGAIN_S)
            return
        draft = self.draft()
        if draft is None:
            self._stopping.wait(AGAIN_S)
        else:
            self.ended(draft, self._carry_out(draft))

    def _open(self) -> bool:
        """Have the next producer take the transactional id; return whether it did."""
        transactor = self.place.make(self._id)
        instance = self.place.recorder.process()  # and never given back
        self._scribe.begin("init-producer", [self._id, instance])
        try:
            transactor.open()
        except SpoiledError as error:
            self._scribe.end(Kind.INFO, "init-producer", str(error))
            return False
        self._scribe.end(Kind.OK, "init-producer")
        self._transactor, self._instance = transactor, instance
        try:
            self.opened()
        except UnreadableError:
            self._give_up()
            return False
        return True

    def _carry_out(self, draft: Draft) -> Kind:
        transactor = self._transactor
        assert transactor is not None, "it is open"
        begun_ns = time.monotonic_ns()
        values = [self._next_value() for _ in draft.writes]
        records = [
            OutgoingRecord(where, encode(value))
            for (where, _), value in zip(draft.writes, values, strict=True)
        ]
        writes = [
            [str(where), value, *note]
            for (where, note), value in zip(draft.writes, values, strict=True)
        ]
        asked = [next(self.place.numbers), self._id, self._instance, begun_ns, writes]
        chance = self.rng.random()
        try:
            offsets = transactor.write(records)
            if draft.offsets:
                transactor.send_offsets(draft.group, draft.offsets)
        except SpoiledError as error:
            return self._abort(asked, str(error))
        if self.rng.random() < HOLD_ODDS:
            self._stopping.wait(self.rng.random() * HOLD_S)
        if chance < ABORT_ODDS:
            return self._abort(asked, "on purpose")
        if chance < ABORT_ODDS + DIE_ODDS:
            self._fail(asked, "it died")
            transactor.die()
            self._transactor = None
            return Kind.FAIL
        if chance < ABORT_ODDS + DIE_ODDS + ZOMBIE_ODDS:
            return self._commit_too_late(transactor, asked, offsets)
        return self._commit(transactor, asked, offsets)

    def _commit(self, transactor: Transactor, asked: Any, offsets: Sequence[int | None]) -> Kind:
        self._scribe.begin("txn", asked)
        kind = transactor.commit()
        self._scribe.end(kind, "txn", list(offsets) if kind is Kind.OK else None)
        if kind is Kind.INFO and transactor is self._transactor:
            self._give_up()  # the next one waits until it is decided
        return kind

    def _commit_too_late(
        self, transactor: Transactor, asked: Any, offsets: Sequence[int | None]
    ) -> Kind:
        """Commit when another producer has the transactional id."""
        self._transactor = None
        is_fenced = self._open()
        kind = self._commit(transactor, asked, offsets)
        transactor.close()
        return Kind.FAIL if is_fenced and kind is not Kind.OK else kind

    def _abort(self, asked: Any, why: str) -> Kind:
        self._fail(asked, why)
        if self._transactor is not None and not self._transactor.abort():
            self._give_up()
        return Kind.FAIL

    def _fail(self, asked: Any, why: str) -> None:
        """Note a transaction whose commit nobody has asked for, or ever will."""
        self._scribe.begin("txn", asked)
        self._scribe.end(Kind.FAIL, "txn", why)

    def _give_up(self) -> None:
        transactor, self._transactor = self._transactor, None
        if transactor is not None:
            transactor.close()

    def _next_value(self) -> int:
        value = value_of(self._number, self._sent)
        self._sent += 1
        return value


class Writer(Transacting):
    """Writes to some partitions at once."""

    def __init__(
        self,
        place: Place,
        transactional_id: str,
        rng: Random,
        pause_s: float,
        partitions: Sequence[TopicPartition],
    ) -> None:
        super().__init__(place, transactional_id, rng, pause_s)
        self._partitions = partitions

    def draft(self) -> Draft:
        """Return some records for some partitions."""
        count = self.rng.randint(1, RECORDS_MAX)
        return Draft(tuple((self.rng.choice(self._partitions), ()) for _ in range(count)))


class Copier(Transacting):
    """Consumes partitions and writes what is in them elsewhere, with its group's offsets.

    State: where it is in each partition; unknown when another producer has begun, or a transaction
    was not committed.
    """

    def __init__(
        self,
        place: Place,
        transactional_id: str,
        rng: Random,
        pause_s: float,
        group: str,
        copies: Mapping[TopicPartition, TopicPartition],
    ) -> None:
        super().__init__(place, transactional_id, rng, pause_s)
        self._group = group
        self._copies = copies
        self._next: dict[TopicPartition, int] = {}
        self._raw = Raw(place.bootstrap)

    def opened(self) -> None:
        """Begin where the group is: the producer before this one may have come farther."""
        self._next = {}

    def close(self) -> None:
        """Close all connections."""
        self._raw.close()

    def ended(self, draft: Draft, kind: Kind) -> None:
        """Begin where the group is, unless it is certain."""
        if kind is Kind.OK:
            self._next.update(draft.offsets)
        else:
            self._next = {}

    def draft(self) -> Draft | None:
        """Return what to copy next, of all partitions."""
        writes: list[tuple[TopicPartition, tuple[Any, ...]]] = []
        offsets: dict[TopicPartition, int] = {}
        try:
            if not self._next:
                told = committed.fetch(self._raw, self._group, list(self._copies), stable=True)
                self._next = {where: max(0, offset) for where, (offset, _) in told.items()}
            for where, place in self._next.items():
                chunk = read_chunk(self._raw, where, place)
                taken = list(zip(chunk.offsets, chunk.values, strict=True))[:COPIED_MAX]
                writes += [(self._copies[where], (COPY, self._group, value)) for _, value in taken]
                if taken:
                    offsets[where] = taken[-1][0] + 1
                else:  # only markers, such as at the end of a segment
                    self._next[where] = chunk.following
        except (*NOT_NOW, KafkaError):
            for where in self._copies:
                self._raw.forget(where.topic)
            return None
        return Draft(tuple(writes), self._group, offsets) if writes else None


class Banker(Transacting):
    """Moves money between accounts, which are in partitions that nobody else writes to.

    State: what each account has, by what was committed.
    """

    def __init__(
        self,
        place: Place,
        transactional_id: str,
        rng: Random,
        pause_s: float,
        partitions: Sequence[TopicPartition],
    ) -> None:
        super().__init__(place, transactional_id, rng, pause_s)
        self._partitions = partitions
        self._written: dict[int, tuple[str, int]] = {}
        """By value: which account was to have how much."""
        self._balances: dict[str, int] = {}

    def opened(self) -> None:
        """Read what the accounts have: nobody else may change it now."""
        self._balances = {}
        self._scribe.begin("balances", [self._id, ACCOUNTS * OPENED_WITH])
        try:
            with Raw(self.place.bootstrap) as raw:
                for where in self._partitions:
                    for value in read_committed(raw, where, BALANCES_S_MAX).values():
                        account, amount = self._written.get(value, ("?", 0))
                        self._balances[account] = amount
        except UnreadableError as error:
            self._scribe.end(Kind.FAIL, "balances", str(error))
            raise
        self._scribe.end(Kind.OK, "balances", [list(each) for each in self._balances.items()])

    def ended(self, draft: Draft, kind: Kind) -> None:
        """Take over what is certain."""
        if kind is Kind.OK:
            for _, (_, _, account, amount, _) in draft.writes:
                self._balances[account] = amount

    def draft(self) -> Draft:
        """Return an amount to move, or what all have in the beginning."""
        if not self._balances:
            return self._draft({str(number): OPENED_WITH for number in range(ACCOUNTS)})
        one, other = self.rng.sample(sorted(self._balances), 2)
        amount = self.rng.randint(1, OPENED_WITH)
        return self._draft(
            {one: self._balances[one] - amount, other: self._balances[other] + amount}
        )

    def _draft(self, balances: Mapping[str, int]) -> Draft:
        total = ACCOUNTS * OPENED_WITH
        writes: list[tuple[TopicPartition, tuple[Any, ...]]] = []
        for at, (account, amount) in enumerate(balances.items()):
            where = self._partitions[int(account) % len(self._partitions)]
            self._written[value_of(self._number, self._sent + at)] = (account, amount)
            writes.append((where, (BALANCE, self._id, account, amount, total)))
        return Draft(tuple(writes))
