"""A transactional producer of librdkafka."""

# confluent-kafka's types say less than it does.
# pyright: basic

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quorate.jepsen.clients import librdkafka
from quorate.jepsen.clients.mortality import BEGUN, FIRST_SENT, SENT
from quorate.jepsen.clients.transacting import OutgoingRecord, SpoiledError, TransactorOptions
from quorate.jepsen.history import Kind
from quorate.model import TopicPartition

FLUSH_S: Final = 10.0
LATE_S: Final = 5.0
NOBODY_KNOWS: Final = -1

_NOWHERE: Final = logging.getLogger(f"{__name__}.nowhere")
_NOWHERE.addHandler(logging.NullHandler())
_NOWHERE.propagate = False


class UndeliveredError(Exception):
    """A commit was acknowledged of records that librdkafka does not know to be delivered."""


class StockTransactor:
    """See :class:`quorate.jepsen.clients.transacting.Transactor`.

    Every other transaction leaves it to the commit to wait for the delivery of its records. In any
    case a commit counts only if the delivery of each record was reported.

    State: what became of the records of the transaction that is open, and how many they are.
    """

    def __init__(self, options: TransactorOptions) -> None:
        self._kafka: Any = librdkafka.load()
        self._options = options
        self._offsets: dict[int, int] = {}
        self._errors: list[str] = []
        self._count = 0
        self._flushes = False
        self._is_stuck = False
        self._groups: dict[str, Any] = {}
        self._client: Any = self._kafka.Producer(
            {
                **librdkafka.COMMON,
                "bootstrap.servers": options.bootstrap,
                "transactional.id": options.transactional_id,
                "transaction.timeout.ms": options.timeout_ms,
                "message.timeout.ms": options.timeout_ms,
                "linger.ms": 1,
                "request.timeout.ms": 3_000,
                "socket.timeout.ms": 4_000,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 200,
            },
            logger=_NOWHERE,  # who is fenced on purpose says so as FATAL
        )

    def open(self) -> None:
        """Take the transactional id."""
        self._do(self._client.init_transactions, self._options.patience_s)

    def write(self, records: Sequence[OutgoingRecord]) -> list[int | None]:
        """Begin, and write."""
        self._offsets, self._errors, self._count = {}, [], len(records)
        self._flushes = not self._flushes
        reached = self._options.reached
        self._do(self._client.begin_transaction)
        reached(BEGUN)
        for number, record in enumerate(records):
            self._do(self._produce, number, record)
            if number == 0:
                reached(FIRST_SENT)
        reached(SENT)
        if not self._flushes:
            return [None] * len(records)
        self._client.flush(FLUSH_S)
        if self._errors or len(self._offsets) < len(records):
            raise SpoiledError("; ".join(self._errors) or "not all records were delivered")
        found = [self._offsets[number] for number in range(len(records))]
        return [None if offset == NOBODY_KNOWS else offset for offset in found]

    def _produce(self, number: int, record: OutgoingRecord) -> None:
        offsets, errors = self._offsets, self._errors

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                offsets[number] = message.offset()
            else:
                errors.append(str(error))

        topic, partition = record.where
        self._client.produce(topic, record.value, partition=partition, on_delivery=delivered)

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move a group."""
        if group not in self._groups:
            settings = {
                **librdkafka.COMMON,
                "bootstrap.servers": self._options.bootstrap,
                "group.id": group,  # which it never joins
            }
            self._groups[group] = self._kafka.Consumer(settings)
        metadata = self._groups[group].consumer_group_metadata()
        places = [self._kafka.TopicPartition(*where, offset) for where, offset in offsets.items()]
        self._do_in_time(
            self._client.send_offsets_to_transaction, places, metadata, self._options.patience_s
        )

    def commit(self) -> Kind:
        """Commit; an abort that is acknowledged afterwards says that it never was."""
        try:
            self._client.commit_transaction(self._options.patience_s)
        except self._kafka.KafkaException as exception:
            error = exception.args[0]
            return Kind.FAIL if error.txn_requires_abort() and self.abort() else Kind.INFO
        self._client.poll(0)
        if self._errors or len(self._offsets) < self._count:
            raise UndeliveredError(
                f"{self._options.transactional_id}: a commit is acknowledged, though of"
                f" {self._count} records {len(self._offsets)} were delivered: {self._errors}"
            )
        return Kind.OK

    def abort(self) -> bool:
        """Abort."""
        if self._is_stuck:
            return False
        try:
            self._client.abort_transaction(self._options.patience_s)
        except self._kafka.KafkaException:
            return False
        return True

    def close(self) -> None:
        """End; it aborts nothing by itself."""
        if self._is_stuck:
            return  # and so would this be
        self._client.purge()
        for consumer in self._groups.values():
            consumer.close()
        self._groups.clear()

    def die(self) -> None:
        """End: nothing of what waits is sent."""
        self.close()

    def _do(self, function: Any, *arguments: Any) -> None:
        try:
            function(*arguments)
        except (self._kafka.KafkaException, BufferError) as error:
            raise SpoiledError(str(error)) from error

    def _do_in_time(self, function: Any, *arguments: Any) -> None:
        """Do what may never return, whatever timeout it is told.

        Librdkafka (2.16) waits for a connection to the group's coordinator that it has in mind from
        before it forgot all brokers and began anew; nothing is under way then.
        """
        failed: list[SpoiledError] = []

        def do() -> None:
            try:
                self._do(function, *arguments)
            except SpoiledError as error:
                failed.append(error)

        thread = threading.Thread(target=do, daemon=True)
        thread.start()
        thread.join(self._options.patience_s + LATE_S)
        if thread.is_alive():
            self._is_stuck = True
            raise SpoiledError("librdkafka does not return")
        if failed:
            raise failed[0]
