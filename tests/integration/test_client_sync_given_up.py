# ruff: noqa: PT012 - what a block does when it is left is the matter here
"""What the blocking client gives up, by Ctrl-C or because it is refused, is given up as a whole."""

import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import trio

from quorate.client import QuorateError, TopicPartition, TransactionAbortedError
from quorate.client.groups.results import GroupDescription
from quorate.client.sync import Admin, Consumer, PendingDelivery, Producer
from tests.ctrl_c import ctrl_c

pytestmark = pytest.mark.integration

TIMEOUT_MS = 60_000
TIMEOUT_S = 10.0


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).replace("[", "-").rstrip("]")
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=1)
    with Producer(bootstrap) as producer:
        for n in range(10):
            producer.enqueue(name, b"%d" % n)
    return name


@pytest.fixture
def consumer(bootstrap: str, topic: str) -> Iterator[Consumer]:
    """One that hears late of what its group does without it."""
    with Consumer(
        bootstrap,
        group_id=topic,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=30_000,
    ) as consumer:
        consumer.subscribe(topic)
        yield consumer


@pytest.fixture
def producer(bootstrap: str, topic: str) -> Iterator[Producer]:
    with Producer(bootstrap, transactional_id=topic, topic_wait_ms=TIMEOUT_MS) as producer:
        yield producer


def offsets(consumer: Consumer, count: int) -> list[int]:
    records = consumer.poll(max_records=count, timeout_ms=TIMEOUT_MS)
    return [record.offset for record in records]


# Transactions


def test_a_transaction_whose_offsets_are_refused_is_aborted(
    bootstrap: str, topic: str, consumer: Consumer, producer: Producer
) -> None:
    transaction = producer.transaction(consumer)
    with pytest.raises(TransactionAbortedError), transaction:
        assert offsets(consumer, 3) == [0, 1, 2]
        transaction.enqueue(topic, b"out")
        with Admin(bootstrap) as admin:
            group = admin.describe_groups([topic])[topic]
            assert isinstance(group, GroupDescription)
            admin.remove_members(topic, group.members)
    assert transaction.outcome == "aborted"
    assert consumer.position((topic, 0)) == 0
    with producer.transaction() as another:
        another.enqueue(topic, b"out")
    assert another.outcome == "committed"


@pytest.mark.parametrize("step", ["send_offsets", "commit"])
def test_ctrl_c_in_a_commit_aborts_the_transaction_before_its_block_ends(
    topic: str, consumer: Consumer, producer: Producer, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    drain_and = producer.drain_and

    async def interrupted(then: Any, *arguments: Any) -> Any:
        if then.__name__ == step:
            ctrl_c()
        return await drain_and(then, *arguments)

    transaction = producer.transaction(consumer)
    with pytest.raises(KeyboardInterrupt), transaction:
        assert offsets(consumer, 3) == [0, 1, 2]
        transaction.enqueue("no-such-topic", b"out")  # the commit would wait for it
        monkeypatch.setattr(producer, "drain_and", interrupted)
    assert transaction.outcome == "aborted"
    assert consumer.position((topic, 0)) == 0
    monkeypatch.undo()
    with producer.transaction(consumer) as another:
        assert offsets(consumer, 3) == [0, 1, 2]
        another.enqueue(topic, b"out")
    assert another.outcome == "committed"


def test_another_thread_that_waits_for_a_record_hears_of_the_abort_that_drops_it(
    bootstrap: str, topic: str
) -> None:
    told: list[QuorateError] = []

    def wait() -> None:
        try:
            last.result()
        except QuorateError as error:
            told.append(error)

    with Producer(
        bootstrap, transactional_id=topic, buffer_memory_bytes=1000, topic_wait_ms=TIMEOUT_MS
    ) as producer:
        waiting = threading.Thread(target=wait)
        with pytest.raises(ZeroDivisionError), producer.transaction() as transaction:
            for _ in range(2):  # there is no room for the second one
                transaction.enqueue("no-such-topic", b"x" * 600)
            last = transaction.enqueue(topic, b"out")
            waiting.start()
            while last._waiting is None:  # pyright: ignore[reportPrivateUsage]
                producer.background.call(trio.lowlevel.checkpoint)
            raise ZeroDivisionError
        waiting.join(TIMEOUT_S)
        assert [type(error) for error in told] == [TransactionAbortedError]


# Records


def _late(take: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return a function that has taken records when Ctrl-C gives it up."""

    async def taken(**options: Any) -> Any:
        records = await take(**options)
        ctrl_c()
        with suppress(trio.Cancelled):
            await trio.sleep_forever()
        return records

    return taken


@pytest.mark.parametrize("name", ["poll", "__anext__"])
def test_what_ctrl_c_kept_from_the_user_is_neither_skipped_nor_committed(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    ask = next if name == "__anext__" else Consumer.poll
    with Consumer(bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(topic)
        assert offsets(consumer, 3) == [0, 1, 2]
        client = consumer.background.client
        monkeypatch.setattr(client, name, _late(getattr(client, name)))
        with pytest.raises(KeyboardInterrupt):
            ask(consumer)
        assert consumer.position((topic, 0)) == 3
    with Admin(bootstrap) as admin:
        assert admin.list_group_offsets(topic)[TopicPartition(topic, 0)].offset == 3


def test_ctrl_c_in_flush_leaves_the_record_that_waited_for_room_in_its_place(
    bootstrap: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, began = str(request.node.name), threading.Event()
    tries: list[bytes] = []

    def serialize(value: bytes) -> bytes:
        tries.append(value)
        if tries == [b"0", b"1"]:
            ctrl_c()  # there is no room for the second one, and the flush begins to wait
        return value.ljust(600)

    with Producer(
        bootstrap, value_serializer=serialize, buffer_memory_bytes=1000, topic_wait_ms=TIMEOUT_MS
    ) as producer:
        background = producer.background
        run_soon = background.run_soon

        def begin(function: Callable[[], object], *, once: bool = False) -> None:
            run_soon(function, once=once)
            began.set()

        run_soon(began.wait)  # so that it is the flush that hands over, as it is asked first
        pending = [producer.enqueue(topic, b"%d" % n, partition=0) for n in range(3)]
        monkeypatch.setattr(background, "run_soon", begin)
        with pytest.raises(KeyboardInterrupt):
            producer.flush()
        with Admin(bootstrap) as admin:
            admin.create_topic(topic, partitions=1)
        producer.flush()
        assert all(each.done for each in pending)
        assert [each.result().offset for each in pending] == [0, 1, 2]


class _Raced(deque[PendingDelivery]):
    """A queue that somebody else empties between a look and the first taking."""

    def __init__(self, empty: Callable[[], None]) -> None:
        super().__init__()
        self._empty: list[Callable[[], None]] = [empty]

    def popleft(self) -> PendingDelivery:
        if self._empty:
            self._empty.pop()()
        return super().popleft()


def test_records_go_out_after_an_abort_that_was_quicker_to_take_others(
    topic: str, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped = threading.Event()

    def abort() -> None:
        producer.drop_queue(TransactionAbortedError("the transaction was aborted"))
        dropped.set()  # earlier, it would drop the next record, too

    monkeypatch.setattr(producer, "_queue", _Raced(abort))
    with producer.transaction() as transaction:
        lost = transaction.enqueue(topic, b"lost")
        assert dropped.wait(TIMEOUT_S)
        sent = transaction.enqueue(topic, b"sent")
        waiting = threading.Thread(target=sent.result, daemon=True)
        waiting.start()
        waiting.join(TIMEOUT_S)
        assert sent.done
    with pytest.raises(TransactionAbortedError):
        lost.result()
