"""Other people's transactional clients, and ours, behind one interface.

A producer is opened by its name, stays open between calls, and is closed by :meth:`close`.
"""

from __future__ import annotations

import base64
import time
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import confluent_kafka

from quorate.client import sync
from quorate.errors import ErrorCode, KafkaError
from tests.compat.clients.model import DEADLINE_S, PeerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.client.sync import Transaction
    from tests.compat.clients.agent import Agent
    from tests.compat.clients.model import Server

TURN = 10
"""How many records a transaction of a copy has at most; every third one is aborted."""

Isolation = Literal["read_committed", "read_uncommitted"]


class Transactional(ABC):
    """What transactional clients can do; they raise PeerError with the protocol's name."""

    commits_offsets = True
    """Whether it can commit offsets that no consumer of its own has read."""

    @abstractmethod
    def open(self, server: Server, transactional_id: str, *, timeout_ms: int = 30_000) -> str:
        """Make a producer that takes over from earlier ones; return what to call it."""

    @abstractmethod
    def begin(self, name: str) -> None: ...

    @abstractmethod
    def send(self, name: str, topic: str, partition: int, value: bytes) -> None: ...

    @abstractmethod
    def offsets(self, name: str, group: str, topic: str, partition: int, offset: int) -> None: ...

    @abstractmethod
    def commit(self, name: str) -> None: ...

    @abstractmethod
    def abort(self, name: str) -> None: ...

    @abstractmethod
    def close(self, name: str) -> None: ...

    @abstractmethod
    def read(
        self, server: Server, topic: str, partitions: int, isolation: Isolation = "read_committed"
    ) -> list[bytes]:
        """Read from the beginning to the end, one partition after the other."""

    @abstractmethod
    def copy(
        self,
        server: Server,
        transactional_id: str,
        source: str,
        output: str,
        group: str,
        count: int,
    ) -> None:
        """Copy so many records, every third transaction in vain."""


class OfAgent(Transactional):
    """The clients of Java, Go and JavaScript."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._made = 0

    def _ask(self, op: str, **arguments: Any) -> Any:
        return self._agent.ask(f"txn_{op}", **arguments)

    def open(self, server: Server, transactional_id: str, *, timeout_ms: int = 30_000) -> str:
        self._made += 1
        name = f"producer-{self._made}"
        self._ask(
            "open",
            name=name,
            bootstrap=server.bootstrap,
            ca=server.ca,
            transactional_id=transactional_id,
            timeout_ms=timeout_ms,
        )
        return name

    def begin(self, name: str) -> None:
        self._ask("begin", name=name)

    def send(self, name: str, topic: str, partition: int, value: bytes) -> None:
        text = base64.b64encode(value).decode()
        self._ask("send", name=name, topic=topic, partition=partition, value=text, bytes=text)

    def offsets(self, name: str, group: str, topic: str, partition: int, offset: int) -> None:
        self._ask(
            "offsets", name=name, group=group, topic=topic, partition=partition, offset=offset
        )

    def commit(self, name: str) -> None:
        self._ask("commit", name=name)

    def abort(self, name: str) -> None:
        self._ask("abort", name=name)

    def close(self, name: str) -> None:
        self._ask("close", name=name)

    def read(
        self, server: Server, topic: str, partitions: int, isolation: Isolation = "read_committed"
    ) -> list[bytes]:
        values = self._ask(
            "read",
            bootstrap=server.bootstrap,
            ca=server.ca,
            topic=topic,
            partitions=partitions,
            isolation=isolation,
        )
        return [base64.b64decode(value) for value in values or ()]

    def copy(
        self,
        server: Server,
        transactional_id: str,
        source: str,
        output: str,
        group: str,
        count: int,
    ) -> None:
        name = self.open(server, transactional_id)
        self._ask(
            "copy",
            name=name,
            bootstrap=server.bootstrap,
            ca=server.ca,
            transactional_id=transactional_id,
            topic=source,
            output=output,
            group=group,
            count=count,
        )
        self.close(name)


class OfFranzGo(OfAgent):
    """The client of Go, whose offsets are those of its session."""

    commits_offsets = False


class OfLibrdkafka(Transactional):
    """confluent-kafka."""

    def __init__(self) -> None:
        self._producers: dict[str, Any] = {}

    def open(self, server: Server, transactional_id: str, *, timeout_ms: int = 30_000) -> str:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": server.bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": min(timeout_ms, 10_000),
                "linger.ms": 0,
            }
        )
        name = f"producer-{len(self._producers)}"
        self._producers[name] = producer
        _told(producer.init_transactions, DEADLINE_S)
        return name

    def begin(self, name: str) -> None:
        _told(self._producers[name].begin_transaction)

    def send(self, name: str, topic: str, partition: int, value: bytes) -> None:
        errors: list[Any] = []

        def noted(error: Any, _: Any) -> None:
            errors.append(error)

        producer = self._producers[name]
        _told(
            partial(producer.produce, topic, value=value, partition=partition),
            on_delivery=noted,
        )
        producer.flush(DEADLINE_S)
        if errors[0] is not None:
            raise _peer_error(errors[0])

    def offsets(self, name: str, group: str, topic: str, partition: int, offset: int) -> None:
        where = [confluent_kafka.TopicPartition(topic, partition, offset)]
        consumer = confluent_kafka.Consumer(
            {"group.id": group, "bootstrap.servers": "127.0.0.1:1", "log_level": 0}
        )
        try:
            metadata = consumer.consumer_group_metadata()
            _told(self._producers[name].send_offsets_to_transaction, where, metadata)
        finally:
            consumer.close()

    def commit(self, name: str) -> None:
        _told(self._producers[name].commit_transaction, DEADLINE_S)

    def abort(self, name: str) -> None:
        _told(self._producers[name].abort_transaction, DEADLINE_S)

    def close(self, name: str) -> None:
        self._producers[name].purge()
        self._producers[name] = None

    def read(
        self, server: Server, topic: str, partitions: int, isolation: Isolation = "read_committed"
    ) -> list[bytes]:
        consumer: Any = confluent_kafka.Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
        values: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
        unread = set(values)
        deadline = time.monotonic() + DEADLINE_S
        begin = confluent_kafka.OFFSET_BEGINNING
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, n, begin) for n in values])
            while unread:
                assert time.monotonic() < deadline, f"{values}, and no end"
                message = consumer.poll(0.2)
                if message is None:
                    continue
                if message.error() is None:
                    values[message.partition()].append(message.value())
                elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                else:
                    raise _peer_error(message.error())
        finally:
            consumer.close()
        return [value for number in values for value in values[number]]

    def copy(
        self,
        server: Server,
        transactional_id: str,
        source: str,
        output: str,
        group: str,
        count: int,
    ) -> None:
        name = self.open(server, transactional_id)
        producer = self._producers[name]
        consumer: Any = confluent_kafka.Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        turn = 0
        deadline = time.monotonic() + DEADLINE_S
        try:
            consumer.subscribe([source])
            while count > 0:
                assert time.monotonic() < deadline, f"{count} left"
                messages = consumer.consume(TURN, 0.2)
                if not messages:
                    continue
                producer.begin_transaction()
                firsts: dict[int, Any] = {}
                for message in messages:
                    assert message.error() is None, message.error()
                    place = confluent_kafka.TopicPartition(
                        source, message.partition(), message.offset()
                    )
                    firsts.setdefault(message.partition(), place)
                    producer.produce(output, value=message.value())
                positions = consumer.position(consumer.assignment())
                read = [place for place in positions if place.offset >= 0]
                metadata = consumer.consumer_group_metadata()
                _told(producer.send_offsets_to_transaction, read, metadata)
                if turn % 3 == 1:
                    _told(producer.abort_transaction, DEADLINE_S)
                    for place in firsts.values():
                        consumer.seek(place)
                else:
                    _told(producer.commit_transaction, DEADLINE_S)
                    count -= len(messages)
                turn += 1
        finally:
            consumer.close()
        self.close(name)


def _told(act: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return act(*arguments, **named)
    except confluent_kafka.KafkaException as error:
        raise _peer_error(error.args[0]) from error


def _peer_error(error: Any) -> PeerError:
    code = error.code()
    if code == confluent_kafka.KafkaError._FENCED:
        return PeerError(ErrorCode.PRODUCER_FENCED.name, error.str())
    return PeerError(ErrorCode(code).name if code >= 0 else error.name(), error.str())


class OfOurs(Transactional):
    """Our own client, blocking."""

    def __init__(self) -> None:
        self._producers: dict[str, tuple[sync.Producer, list[Transaction]]] = {}

    def open(self, server: Server, transactional_id: str, *, timeout_ms: int = 30_000) -> str:
        producer = _of_ours(
            partial(
                sync.Producer,
                server.bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                linger_ms=0,
            )
        )
        name = f"producer-{len(self._producers)}"
        self._producers[name] = (producer, [])
        return name

    def begin(self, name: str) -> None:
        producer, opened = self._producers[name]
        transaction = producer.transaction()
        _of_ours(transaction.__enter__)
        opened.append(transaction)

    def send(self, name: str, topic: str, partition: int, value: bytes) -> None:
        transaction = self._producers[name][1][-1]
        _of_ours(partial(transaction.send, topic, value, partition=partition))

    def offsets(self, name: str, group: str, topic: str, partition: int, offset: int) -> None:
        transaction = self._producers[name][1][-1]
        _of_ours(lambda: transaction.send_offsets({(topic, partition): offset}, group))  # type: ignore[dict-item]

    def commit(self, name: str) -> None:
        _of_ours(self._producers[name][1][-1].commit)

    def abort(self, name: str) -> None:
        _of_ours(self._producers[name][1][-1].abort)

    def close(self, name: str) -> None:
        self._producers[name][0].close()

    def read(
        self, server: Server, topic: str, partitions: int, isolation: Isolation = "read_committed"
    ) -> list[bytes]:
        values: list[bytes] = []
        with sync.Consumer(
            server.bootstrap, auto_offset_reset="earliest", isolation_level=isolation
        ) as consumer:
            for number in range(partitions):
                consumer.assign([(topic, number)])
                (end,) = consumer.end_offsets([(topic, number)]).values()
                deadline = time.monotonic() + DEADLINE_S
                while consumer.position((topic, number)) < end:
                    assert time.monotonic() < deadline, f"{len(values)} records, and no end"
                    values += [record.value or b"" for record in consumer.poll(timeout_ms=100)]
        return values

    def copy(
        self,
        server: Server,
        transactional_id: str,
        source: str,
        output: str,
        group: str,
        count: int,
    ) -> None:
        turn = 0
        deadline = time.monotonic() + DEADLINE_S
        with (
            sync.Producer(
                server.bootstrap, transactional_id=transactional_id, linger_ms=0
            ) as producer,
            sync.Consumer(
                server.bootstrap,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            ) as consumer,
        ):
            consumer.subscribe(source)
            while count > 0:
                assert time.monotonic() < deadline, f"{count} left"
                with producer.transaction(consumer) as transaction:
                    records = consumer.poll(max_records=TURN, timeout_ms=200)
                    for record in records:
                        transaction.enqueue(output, record.value)
                    if records and turn % 3 == 1:
                        transaction.abort()
                turn += bool(records)
                if transaction.outcome == "committed":
                    count -= len(records)


def _of_ours(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except KafkaError as error:
        raise PeerError(error.code.name, error.message) from error
