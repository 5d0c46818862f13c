"""Trio shell: the transactions of one producer, carried to the coordinator and to their end."""

from __future__ import annotations

import logging
from copy import copy
from typing import TYPE_CHECKING, Any, Final

import trio

from quorate.client.connections import RETRY, now_ms
from quorate.client.coordinators import TRANSACTION_KEY, Coordinators
from quorate.client.errors import (
    NoTransactionError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
    error_for,
    in_words,
)
from quorate.client.sending.accumulator import ProducerIdentity
from quorate.client.transactions.accumulator import CONCURRENT_PAUSE_MS
from quorate.client.transactions.machine import Step, TransactionMachine
from quorate.client.transactions.requests import (
    ADD_PARTITIONS_VERSION_MAX,
    END_VERSION_MAX_V1,
    NO_PRODUCER_ID,
    OFFSETS_VERSION_MAX_V1,
    add_offsets_request,
    add_partitions_request,
    added_codes,
    end_request,
    init_request,
    offset_codes,
    offsets_request,
    worst_of,
)
from quorate.client.transactions.states import Event, State
from quorate.client.transactions.verdicts import (
    Verdict,
    verdict_of_coordinator,
    verdict_of_leader,
)
from quorate.errors import MEANINGS, ErrorCode, KafkaError, RequestTimedOutError, known_code
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.transactions import DescribeTransactionsRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from quorate.client.connections import Cluster
    from quorate.client.groups.results import OffsetAndMetadata
    from quorate.client.membership.identity import GroupMetadata
    from quorate.client.transactions.accumulator import TransactionalAccumulator
    from quorate.errors import QuorateError
    from quorate.model import TopicPartition
    from quorate.protocol.messages.transactions import (
        DescribeTransactionsResponse,
        EndTxnResponse,
        InitProducerIdResponse,
    )

logger = logging.getLogger(__name__)

FEATURE: Final = "transaction.version"

IN_FLIGHT_WAIT_S: Final = 2.0
"""How long an abort waits for the answers to what was sent."""

CANCELLED_COMMIT_S: Final = 5.0
"""How long a commit that was asked for is waited for when it is cancelled."""

ABORT_S: Final = 5.0
"""How long an abort may take when an exception or a cancellation ends a transaction."""

CLOSE_S: Final = 5.0
"""How long what was not resolved before may take when the producer is closed."""

DESCRIBE_S: Final = 1.0
"""How long to look for who has fenced a producer."""


class Ending:
    """The end of one transaction, which is asked for in the background.

    State: whether it is over, and whether the transaction ended as was asked for; whether it may
    have been asked for before, in a request without an answer.
    """

    __slots__ = ("in_doubt", "over", "reached")

    def __init__(self) -> None:
        self.over = trio.Event()
        self.reached = self.in_doubt = False


class Transactions:
    """Carries a producer's transactions to their coordinator; one at a time.

    What to do :class:`TransactionMachine` decides. An end that was asked for is asked for in the
    background until the answer is known, whether somebody still waits for it or not: until the
    producer is closed, or fenced.
    """

    def __init__(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        patience_ms: int,
        cluster: Cluster,
        accumulator: TransactionalAccumulator,
        nursery: trio.Nursery,
    ) -> None:
        """Keep the parts.

        Args:
            transactional_id: Whose transactions these are.
            timeout_ms: How long one may stay open.
            patience_ms: How long to wait for a coordinator's answer before that is an error.
            cluster: Whom to ask.
            accumulator: What holds the records.
            nursery: Where to ask in the background.
        """
        self.transactional_id = transactional_id
        self.machine = TransactionMachine()
        self.wake_sender: Callable[[], None] = _nothing
        self.settled = trio.lowlevel.ParkingLot()
        """Wakes those who wait for answers to what was sent."""

        self.asked_to_commit = False
        """Whether the coordinator was, or may have been, asked to commit the last transaction."""

        self.last_ending = Ending()

        self._timeout_ms = timeout_ms
        self._patience_ms = patience_ms
        self._cluster = cluster
        self._accumulator = accumulator
        self._nursery = nursery
        self._coordinators = Coordinators(cluster, TRANSACTION_KEY)
        self._groups = Coordinators(cluster)
        self._announcing: trio.CancelScope | None = None
        self._ending: Ending | None = None
        self._began_ms = 0
        accumulator.on_loss = self._on_loss
        accumulator.on_start = self.machine.writing
        self._bar()

    def _bar(self) -> None:
        self._accumulator.bar(
            NoTransactionError(
                f"the producer with transactional_id={self.transactional_id!r} sends in"
                " transactions only: 'async with producer.transaction() as tx'"
            )
        )

    async def open(self) -> None:
        """Get a producer id: earlier producers with the same transactional id are fenced.

        What they left open is aborted, or carried to its end, before this returns.

        Raises:
            KafkaError: The coordinator refuses, or does not answer in time.
        """
        error: KafkaError | None = None
        attempts = 0
        with trio.move_on_after(self._patience_ms / 1000):
            while True:
                told = await self._initialize(None)
                if isinstance(told, ProducerIdentity):
                    self.machine.identified(told)
                    return
                error = told
                if verdict_of_coordinator(error.code) is not Verdict.RETRY:
                    raise error
                attempts += 1
                await trio.sleep(self._pause_s(error, attempts))
        raise error or self._too_slow()

    async def begin(self) -> None:
        """Open a transaction.

        Raises:
            NoTransactionError: Another one is open.
            RequestTimedOutError: What became of the last one is not known yet: try again.
            KafkaError: The producer is fenced, or failed otherwise.
        """
        # Who is cancelled here has not opened it, so there must be no other chance to be.
        await trio.lowlevel.checkpoint()
        if self._ending is not None:
            with trio.move_on_after(self._patience_ms / 1000) as patience:
                await self._ending.over.wait()
            if patience.cancelled_caught:
                raise self._too_slow()
        self._raise_failure()
        if self.machine.state is not State.READY:
            raise NoTransactionError(
                f"the producer with transactional_id={self.transactional_id!r} has a transaction"
                " open: it has one at a time"
            )
        level = self._cluster.finalized_level(FEATURE)
        self.machine.begin(version=2 if level >= 2 else 1)
        self.asked_to_commit = False
        self._accumulator.identity = self.machine.identity
        self._accumulator.unbar()
        self._began_ms = now_ms()

    def _raise_failure(self) -> None:
        if self.machine.state is State.FAILED:
            assert self.machine.reason is not None
            raise copy(self.machine.reason)

    # What takes part

    def admits(self, partition: TopicPartition) -> bool:
        """Whether records of a partition may be sent; if not yet, it is announced."""
        if self.machine.admits(partition):
            return True
        if self._announcing is None and self.machine.state is State.OPEN:
            self._announcing = trio.CancelScope()
            self._nursery.start_soon(self._announce, self._announcing)
        return False

    async def _announce(self, scope: trio.CancelScope) -> None:
        """Tell the coordinator of partitions, all that there are together."""
        machine, attempts = self.machine, 0
        with scope:
            while machine.wanted and machine.state is State.OPEN:
                asked = set(machine.wanted)
                assert machine.identity is not None
                machine.announcing()
                error = await self._ask(
                    ApiKey.ADD_PARTITIONS_TO_TXN,
                    add_partitions_request(self.transactional_id, machine.identity, asked),
                    lambda told: added_codes(told).values(),
                    version_max=ADD_PARTITIONS_VERSION_MAX,
                )
                if not isinstance(error, KafkaError):
                    machine.announced(asked)
                    attempts = 0
                elif verdict_of_coordinator(error.code) is Verdict.RETRY:
                    attempts += 1
                    await trio.sleep(self._pause_s(error, attempts))
                else:
                    await self._give_up(error)
        self._announcing = None
        self.wake_sender()
        self.settled.unpark_all()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Have a group's offsets committed with the transaction.

        Raises:
            TransactionAbortedError: The group has gone on without this member, for example.
            KafkaError: The producer is fenced, or failed otherwise.
        """
        self._check_open()
        if not offsets:
            return
        machine = self.machine
        if machine.version == 1 and group.group_id not in machine.groups:
            machine.announcing()
            await self._until_done(lambda: self._announce_group(group.group_id))
        machine.groups.add(group.group_id)
        left = dict(offsets)
        await self._until_done(lambda: self._send_offsets(left, group))

    async def _announce_group(self, group_id: str) -> KafkaError | None:
        assert self.machine.identity is not None
        told = await self._ask(
            ApiKey.ADD_OFFSETS_TO_TXN,
            add_offsets_request(self.transactional_id, self.machine.identity, group_id),
            _code,
        )
        return told if isinstance(told, KafkaError) else None

    async def _send_offsets(
        self, left: dict[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> KafkaError | None:
        """Send what is left of the offsets; return why some of them still are."""
        machine = self.machine
        assert machine.identity is not None
        try:
            response = await self._groups.call(
                group.group_id,
                ApiKey.TXN_OFFSET_COMMIT,
                offsets_request(self.transactional_id, machine.identity, group, left),
                lambda told: offset_codes(told).values(),
                version_max=OFFSETS_VERSION_MAX_V1 if machine.version == 1 else None,
            )
        except KafkaError as error:
            return error
        codes = offset_codes(response)
        for partition, code in codes.items():
            if code == ErrorCode.NONE:
                left.pop(partition, None)
        worst = worst_of(codes.values())
        if worst == ErrorCode.NONE and left:
            worst = ErrorCode.REQUEST_TIMED_OUT
        if worst == ErrorCode.NONE:
            return None
        return error_for(worst, f"offsets of group {group.group_id!r}: {MEANINGS[worst]}")

    async def _until_done(self, attempt: Callable[[], Awaitable[KafkaError | None]]) -> None:
        """Try until it works; what will not work spoils the transaction."""
        error: KafkaError | None = None
        attempts = 0
        with trio.move_on_after(self._patience_ms / 1000):
            while (error := await attempt()) is not None:
                if verdict_of_coordinator(error.code) is not Verdict.RETRY:
                    break
                attempts += 1
                await trio.sleep(self._pause_s(error, attempts))
                self._check_open()
            if error is None:
                return
        await self._give_up(error or self._too_slow())
        self._check_open()

    def _check_open(self) -> None:
        """Raise why nothing can be added to the transaction, if so."""
        self._raise_failure()
        if self.machine.state is State.SPOILED:
            raise self.aborted()
        if self.machine.state is not State.OPEN:
            raise NoTransactionError("the transaction has ended: open another one")

    def aborted(self) -> TransactionAbortedError:
        """Return the error that says that the transaction is aborted, and why."""
        reason = self.machine.reason
        why = f": {in_words(reason)}" if reason is not None else ""
        error = TransactionAbortedError(f"the transaction was aborted{why}")
        error.__cause__ = reason
        return error

    # What went wrong

    def _on_loss(self, error: KafkaError) -> None:
        """Records were lost, so all of the transaction is."""
        verdict = verdict_of_leader(error.code)
        if verdict is Verdict.FENCED:
            self._fail(self._fenced(error, ""))
        elif verdict is Verdict.FAIL:
            self._fail(error)
        else:
            self._spoil(error, verdict)

    async def _give_up(self, error: KafkaError, verdict: Verdict | None = None) -> None:
        """Take a coordinator's refusal: spoil the transaction, or fail."""
        verdict = verdict or verdict_of_coordinator(error.code)
        if verdict is Verdict.FENCED:
            self._fail(await self._explain(error))
        elif verdict is Verdict.FAIL:
            self._fail(error)
        else:
            self._spoil(error, Verdict.ABORT if verdict is Verdict.RETRY else verdict)

    def spoil(self, error: KafkaError) -> None:
        """Have the transaction aborted in the end, for that reason."""
        self._spoil(error, Verdict.ABORT)

    def _spoil(self, error: KafkaError, verdict: Verdict) -> None:
        self.machine.spoil(error, verdict)
        if self.machine.state is State.SPOILED:
            self._accumulator.bar(self.aborted())
            self._accumulator.drop_all(self.aborted())
        self.settled.unpark_all()

    def _fail(self, error: KafkaError) -> None:
        self.machine.fail(error)
        self._accumulator.fail_all(error)
        self.settled.unpark_all()

    async def _explain(self, error: KafkaError) -> ProducerFencedError:
        """Find out who has fenced this producer, if somebody says."""
        whom = ""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        with trio.move_on_after(DESCRIBE_S):
            response: DescribeTransactionsResponse | KafkaError = await self._ask(
                ApiKey.DESCRIBE_TRANSACTIONS,
                request,
                lambda told: [each.error_code for each in told.transaction_states],
            )
            if not isinstance(response, KafkaError) and response.transaction_states:
                now = response.transaction_states[0]
                whom = (
                    f"; it belongs to producer id {now.producer_id} with epoch {now.producer_epoch}"
                    f" now, which is in state {now.transaction_state}"
                )
        return self._fenced(error, whom)

    def _fenced(self, error: KafkaError, whom: str) -> ProducerFencedError:
        ours = self.machine.identity
        name = "" if ours is None else f", producer id {ours.producer_id} with epoch {ours.epoch},"
        open_ms = now_ms() - self._began_ms
        why = f"transactional_id={self.transactional_id!r} was taken over by another producer"
        too_long = open_ms >= self._timeout_ms and self.machine.state is not State.UNIDENTIFIED
        if too_long:
            why = (
                f"its transaction was open for {open_ms} ms, longer than"
                f" transaction_timeout_ms={self._timeout_ms}; the coordinator has aborted it"
            )
        fenced = ProducerFencedError(f"this producer{name} is fenced: {why}{whom}")
        fenced.__cause__ = error
        fenced.took_too_long = too_long
        return fenced

    # The end

    async def commit(self, settle_all: Callable[[], Awaitable[None]]) -> None:
        """Commit the transaction, once all its records are acknowledged.

        Cancelling aborts it, until the coordinator is asked to commit. From then on this waits for
        the outcome for a while, cancelled or not: if it returns, the transaction is committed.

        Args:
            settle_all: Waits until no record waits for its acknowledgement.

        Raises:
            TransactionAbortedError: It is spoiled: the caller aborts it.
            TransactionOutcomeUnknownError: Nobody has said in time what became of it.
            KafkaError: The producer is fenced, or failed otherwise.
        """
        await settle_all()
        if self.machine.state is State.OPEN:
            self._bar()
            self.machine.on(Event.COMMIT)
            self.asked_to_commit = True
            await self._await_commit(self._end())
        if self.machine.state is State.SPOILED:
            raise self.aborted()
        self._raise_failure()

    def _end(self) -> Ending:
        """Begin to ask for the end, in the background."""
        self._ending = self.last_ending = Ending()
        self._nursery.start_soon(self._finish, self._ending)
        return self._ending

    async def _await_commit(self, ending: Ending) -> None:
        try:
            with trio.move_on_after(self._patience_ms / 1000):
                await ending.over.wait()
        except trio.Cancelled:
            with trio.move_on_after(CANCELLED_COMMIT_S, shield=True):
                await ending.over.wait()
            # What the machine says may be about the next transaction, of another task, by now.
            if not ending.reached:
                raise
        if not ending.over.is_set():
            raise TransactionOutcomeUnknownError(
                f"the coordinator of transactional_id={self.transactional_id!r} has not said within"
                f" {self._patience_ms} ms whether the transaction is committed; it is being asked"
            )

    async def abort(self, drop_parked: Callable[[QuorateError], None]) -> None:
        """Abort the transaction; the caller shields and sets a limit, after which it goes on alone.

        Args:
            drop_parked: Settles, with that error, records that have no partition yet.

        Raises:
            KafkaError: The producer is fenced, or failed otherwise.
        """
        if self.machine.state in {State.OPEN, State.SPOILED}:
            error = self.aborted()
            self.machine.abort()
            self._bar()
            drop_parked(error)
            self._accumulator.drop_all(error)
            self.settled.unpark_all()
            with trio.move_on_after(IN_FLIGHT_WAIT_S):
                # An announcement that arrives after the end would open another transaction.
                while self._accumulator.has_in_flight or self._announcing is not None:
                    await self.settled.park()
            if self._announcing is not None:
                self._announcing.cancel()
            await self._end().over.wait()
        self._raise_failure()

    async def resolve(self) -> None:
        """Wait until what was asked for is known."""
        if self._ending is not None:
            await self._ending.over.wait()

    async def close(self) -> None:
        """Wait a little for what is not known yet; abort what nobody has ended."""
        with trio.move_on_after(CLOSE_S, shield=True):
            try:
                await self.abort(_nothing)
                await self.resolve()
            except KafkaError as error:
                logger.info("at the end of transactional id %r: %s", self.transactional_id, error)

    async def _finish(self, ending: Ending) -> None:
        """Ask until the end is known."""
        attempts = 0
        try:
            while (step := self.machine.next_step()) is not None:
                error = await self._take(step)
                ending.in_doubt |= self._coordinators.has_stumbled
                if error is None:
                    attempts = 0
                    continue
                verdict = self.machine.refused(step, error.code, in_doubt=ending.in_doubt)
                if verdict is Verdict.RETRY:
                    attempts += 1
                    await trio.sleep(self._pause_s(error, attempts))
                elif verdict is not None:
                    await self._give_up(error, verdict)
        finally:
            ending.reached = self.machine.state is State.READY
            self._ending = None
            ending.over.set()

    async def _take(self, step: Step) -> KafkaError | None:
        """Ask for one step; return the error, if it was not taken."""
        machine = self.machine
        assert machine.identity is not None
        if step is Step.RENEW:
            told = await self._initialize(machine.identity)
            if isinstance(told, KafkaError):
                return told
            machine.renewed(told)
            return None
        request = end_request(
            self.transactional_id, machine.identity, committed=step is Step.COMMIT
        )
        response: EndTxnResponse | KafkaError = await self._ask(
            ApiKey.END_TXN,
            request,
            _code,
            version_max=END_VERSION_MAX_V1 if machine.version == 1 else None,
        )
        if isinstance(response, KafkaError):
            return response
        next_identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        machine.ended(None if response.producer_id == NO_PRODUCER_ID else next_identity)
        return None

    # Asking

    async def _initialize(self, identity: ProducerIdentity | None) -> ProducerIdentity | KafkaError:
        response: InitProducerIdResponse | KafkaError = await self._ask(
            ApiKey.INIT_PRODUCER_ID,
            init_request(self.transactional_id, self._timeout_ms, identity),
            _code,
        )
        if isinstance(response, KafkaError):
            return response
        return ProducerIdentity(response.producer_id, response.producer_epoch)

    async def _ask(
        self,
        api_key: int,
        request: Any,
        codes: Callable[[Any], Iterable[int]],
        *,
        version_max: int | None = None,
    ) -> Any:
        """Return the coordinator's response, or the error that it is or that kept it away."""
        try:
            response = await self._coordinators.call(
                self.transactional_id, api_key, request, codes, version_max=version_max
            )
        except KafkaError as error:
            return error
        worst = worst_of(map(known_code, codes(response)))
        if worst == ErrorCode.NONE:
            return response
        what = f"transactional id {self.transactional_id!r}"
        return error_for(worst, f"{what}: {MEANINGS[worst]}")

    def _pause_s(self, error: KafkaError, attempts: int) -> float:
        if error.code == ErrorCode.CONCURRENT_TRANSACTIONS:
            return CONCURRENT_PAUSE_MS / 1000
        return self._cluster.pause_s(RETRY, attempts)

    def _too_slow(self) -> RequestTimedOutError:
        return RequestTimedOutError(
            f"the coordinator of transactional_id={self.transactional_id!r} did not answer within"
            f" {self._patience_ms} ms"
        )


def _code(response: Any) -> tuple[int]:
    return (response.error_code,)


def _nothing(_error: QuorateError | None = None) -> None:
    """Stand in where nothing is to be done."""
