"""Our client's transactional producer, in a thread with a Trio of its own."""

import contextlib
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from quorate.client import Producer, QuorateError
from quorate.jepsen.clients.cutting import Line
from quorate.jepsen.clients.mortality import BEGUN, FIRST_SENT, SENT
from quorate.jepsen.clients.transacting import OutgoingRecord, SpoiledError, TransactorOptions
from quorate.jepsen.history import Kind
from quorate.model import TopicPartition

if TYPE_CHECKING:
    from quorate.client.delivery import Delivery
    from quorate.client.transaction import Transaction

CONNECT_TIMEOUT_MS: Final = 2_000
REQUEST_TIMEOUT_MS: Final = 3_000
CLOSE_S_MAX: Final = 1.0

T = TypeVar("T")

_KINDS: Final = {"committed": Kind.OK, "aborted": Kind.FAIL}


class OwnTransactor:
    """A producer of ours; see :class:`quorate.jepsen.clients.transacting.Transactor`.

    State: the transaction that is open, if there is one.
    """

    def __init__(self, options: TransactorOptions) -> None:
        self._options = options
        self._line = Line()
        self._opened = threading.Event()
        self._error: BaseException | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._producer: Producer | None = None
        self._transaction: Transaction[Any, Any] | None = None
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)

    def open(self) -> None:
        """Take the transactional id."""
        self._thread.start()
        self._opened.wait(self._options.patience_s)
        if self._producer is None:
            self.die()
            raise SpoiledError(f"no producer: {self._error!r}")

    def write(self, records: Sequence[OutgoingRecord]) -> list[int | None]:
        """Begin, and write."""
        return self._call(self._write, records)

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move a group."""
        transaction = self._open_transaction()
        self._call(transaction.send_offsets, offsets, group)

    def commit(self) -> Kind:
        """Commit."""
        transaction = self._open_transaction()
        with contextlib.suppress(SpoiledError):
            self._call(transaction.commit)
        return _KINDS.get(transaction.outcome, Kind.INFO)

    def abort(self) -> bool:
        """Abort."""
        try:
            self._call(self._open_transaction().abort)
        except SpoiledError:
            return False
        return True

    def close(self) -> None:
        """End; what it has not said within a moment it never says."""
        self._end()
        self._thread.join(CLOSE_S_MAX)
        self._line.cut()

    def die(self) -> None:
        """End without a word; the thread ends when it has found that nobody hears it."""
        self._line.cut()
        self._end()

    def _end(self) -> None:
        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._scope.cancel)

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        options = self._options
        try:
            with self._scope:
                async with Producer(
                    options.bootstrap,
                    transactional_id=options.transactional_id,
                    transaction_timeout_ms=options.timeout_ms,
                    delivery_timeout_ms=options.timeout_ms,
                    max_block_ms=int(options.patience_s * 1000),
                    connect_timeout_ms=CONNECT_TIMEOUT_MS,
                    request_timeout_ms=REQUEST_TIMEOUT_MS,
                    dial=self._line.dial,
                ) as producer:
                    self._producer = producer
                    self._opened.set()
                    await trio.sleep_forever()
        except QuorateError as error:
            self._error = error
        finally:
            self._opened.set()

    async def _write(self, records: Sequence[OutgoingRecord]) -> list[int | None]:
        assert self._producer is not None, "it is open"
        self._transaction = transaction = self._producer.transaction()
        await transaction.__aenter__()
        reached = self._options.reached
        reached(BEGUN)
        deliveries: list[Delivery] = []
        for where, value in records:
            delivery = await transaction.enqueue(where.topic, value, partition=where.partition)
            deliveries.append(delivery)
            if len(deliveries) == 1:
                reached(FIRST_SENT)
        reached(SENT)
        await self._producer.flush()
        for delivery in deliveries:
            if delivery.error is not None:
                raise delivery.error
        return [delivery.metadata.offset for delivery in deliveries]

    def _open_transaction(self) -> "Transaction[Any, Any]":
        if self._transaction is None:
            raise SpoiledError("there is no transaction")
        return self._transaction

    def _call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Do something in the producer's thread."""
        assert self._token is not None, "it is open"
        try:
            return trio.from_thread.run(function, *arguments, trio_token=self._token)
        except (QuorateError, trio.RunFinishedError, trio.Cancelled) as error:
            raise SpoiledError(str(error)) from error
