# pyright: reportPossiblyUnboundVariable=false
# ruff: noqa: PT012 - what a block does when it is left is the matter here
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from quorate.client import (
    Consumer,
    NoTransactionError,
    Producer,
    ProducerFencedError,
    TopicPartition,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
)
from quorate.client.membership.identity import GroupMetadata
from quorate.errors import ErrorCode, KafkaError
from quorate.protocol.messages.data import ProduceRequest
from quorate.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    DescribeTransactionsRequest,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.shell.fake_cluster import DROP, HANG, LOSE, FakeCluster
from tests.shell.fake_groups import FakeGroup
from tests.shell.fake_transactions import FakeTransactions, refused

VERSIONS = pytest.mark.parametrize("version", [1, 2])
OFFSETS = {TopicPartition("t", 0): 7}

SENSIBLE: dict[str, Any] = {"transactional_id": "x"}


def _invalid_record(_: object, request: Any) -> Any:
    topic = request.topic_data[0]
    return refused(ErrorCode.INVALID_RECORD, topic.name, topic.topic_id, 0)


def fake(nursery: trio.Nursery, version: int = 2) -> FakeTransactions:
    cluster = FakeCluster(nursery)
    cluster.create("t", 3)
    return FakeTransactions(cluster, version)


@asynccontextmanager
async def producing(fakes: FakeTransactions, **settings: Any) -> AsyncGenerator[Producer]:
    cluster = fakes.cluster
    settings = {"transactional_id": "x", "request_timeout_ms": 2_000, **settings}
    async with Producer(cluster.bootstrap, dial=cluster.dial, **settings) as p:
        yield p


async def write(p: Producer, *values: bytes) -> None:
    async with p.transaction() as tx:
        for number, value in enumerate(values):
            await tx.enqueue("t", value, partition=number % 3)


def ended(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)


@VERSIONS
async def test_a_transaction_counts_as_a_whole_when_its_block_ends(
    nursery: trio.Nursery, autojump_clock: MockClock, version: int
) -> None:
    fakes = fake(nursery, version)
    async with producing(fakes) as p:
        for values in ([b"a", b"b", b"c", b"d"], [b"e"]):
            async with p.transaction() as tx:
                for number, value in enumerate(values):
                    await tx.enqueue("t", value, partition=number % 3)
                assert fakes.values("t") in ([], [b"a", b"d", b"b", b"c"])
            assert tx.outcome == "committed"
    assert sorted(fakes.values("t"), key=str) == [b"a", b"b", b"c", b"d", b"e"]
    announced = fakes.cluster.requests_of(AddPartitionsToTxnRequest)
    assert len(announced) == (2 if version == 1 else 0)


async def test_nothing_is_committed_without_what_was_taken_before_its_topic_was_known(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes, buffer_memory_bytes=1_000, batch_size_bytes=200) as p:
        await write(p, *[b"x"] * 45)
    assert fakes.values("t") == [b"x"] * 45


@VERSIONS
async def test_an_exception_aborts_and_goes_on(
    nursery: trio.Nursery, autojump_clock: MockClock, version: int
) -> None:
    fakes = fake(nursery, version)
    async with producing(fakes) as p:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                async with p.transaction() as tx:
                    await tx.send("t", b"bad", partition=0)
                    await tx.enqueue("t", b"worse", partition=0)
                    raise ZeroDivisionError
            assert tx.outcome == "aborted"
            await write(p, b"good")
    assert fakes.values("t") == [b"good", b"good"]
    assert fakes.values("t", committed=False) == [b"bad", b"bad"]


@VERSIONS
async def test_a_cancelled_block_is_aborted_before_it_ends(
    nursery: trio.Nursery, autojump_clock: MockClock, version: int
) -> None:
    fakes = fake(nursery, version)
    async with producing(fakes) as p:
        with trio.move_on_after(1):
            async with p.transaction() as tx:
                await tx.send("t", b"bad", partition=0)
                await trio.sleep_forever()
        assert tx.outcome == "aborted"
        assert fakes.open == []
        await write(p, b"good")
    assert fakes.values("t") == [b"good"]


async def test_what_commits_when_it_is_cancelled_is_committed_and_the_block_ends_in_peace(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    scope = trio.CancelScope()

    def cancel(_broker: int, _request: object) -> None:
        scope.cancel()

    fakes.cluster.script(EndTxnRequest, cancel)
    async with producing(fakes) as p:
        passed = False
        with scope:
            async with p.transaction() as tx:
                await tx.enqueue("t", b"a")
            passed = True
        assert passed
        assert tx.outcome == "committed"
    assert fakes.values("t") == [b"a"]


async def test_a_commit_that_is_cancelled_has_nothing_to_do_with_who_waits_to_be_next(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    rounds = 10  # Trio runs the two that hear of the end in any order
    async with producing(fakes) as p:

        async def next_one() -> None:
            async with p.transaction() as tx:
                await tx.enqueue("t", b"b", partition=1)
                await trio.sleep(1)

        for _ in range(rounds):
            scope = trio.CancelScope()

            def cancel(_broker: int, _request: object, scope: trio.CancelScope = scope) -> None:
                tasks.start_soon(next_one)
                scope.cancel()

            fakes.cluster.script(EndTxnRequest, cancel)
            async with trio.open_nursery() as tasks:
                with scope:
                    async with p.transaction() as tx:
                        await tx.enqueue("t", b"a", partition=0)
                assert tx.outcome == "committed"
    assert fakes.values("t") == [b"a"] * rounds + [b"b"] * rounds


@VERSIONS
async def test_what_another_task_hands_over_before_the_commit_is_asked_for_is_part_of_it(
    nursery: trio.Nursery, autojump_clock: MockClock, version: int
) -> None:
    fakes = fake(nursery, version)
    async with producing(fakes, linger_ms=50) as p, trio.open_nursery() as tasks:

        def go_on(_broker: int, _request: object) -> None:
            tasks.start_soon(hand_over)

        async def hand_over() -> None:
            for topic in ("t", "u"):
                await tx.enqueue(topic, b"b", partition=0)

        fakes.cluster.create("u", 1)
        fakes.cluster.script(ProduceRequest, go_on)
        async with p.transaction() as tx:
            await tx.enqueue("t", b"a", partition=0)
        assert tx.outcome == "committed"
    assert (fakes.values("t"), fakes.values("u")) == ([b"a", b"b"], [b"b"])


async def later(answer: object, _broker: int, _request: object) -> object:
    await trio.sleep(1)
    return answer


async def test_what_another_task_aborts_while_it_is_to_be_committed_is_not_called_committed(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes) as p, trio.open_nursery() as others:
        await write(p, b"before")
        fakes.cluster.script(ProduceRequest, HANG)

        async def abort() -> None:
            await trio.sleep(0.5)
            await tx.abort()

        with pytest.raises(TransactionAbortedError):
            async with p.transaction() as tx:
                await tx.enqueue("t", b"a")
                others.start_soon(abort)
        assert tx.outcome == "aborted"
    assert fakes.values("t") == [b"before"]


async def test_who_commits_beside_another_task_waits_for_the_same_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    refusal = ended(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    async with producing(fakes) as p, trio.open_nursery() as others:
        fakes.cluster.script(EndTxnRequest, partial(later, refusal))
        async with p.transaction() as tx:
            await tx.enqueue("t", b"a")
            others.start_soon(tx.commit)
            await trio.sleep(0.5)
            assert tx.outcome == "open"  # it has been asked for, in vain
        assert fakes.values("t") == [b"a"]
    assert len(fakes.cluster.requests_of(EndTxnRequest)) == 2


@VERSIONS
@pytest.mark.parametrize("fate", [LOSE, DROP, ended(ErrorCode.COORDINATOR_NOT_AVAILABLE)])
async def test_a_commit_whose_answer_is_lost_is_asked_for_again(
    nursery: trio.Nursery, autojump_clock: MockClock, version: int, fate: object
) -> None:
    fakes = fake(nursery, version)
    async with producing(fakes) as p:
        for _ in range(3):
            fakes.cluster.script(EndTxnRequest, fate)
            await write(p, b"a")
    assert fakes.values("t") == [b"a"] * 3


async def test_an_outcome_that_nobody_says_in_time_is_unknown_and_resolved_later(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    fakes.cluster.script(EndTxnRequest, *[HANG] * 3)
    async with producing(fakes, max_block_ms=3_000) as p:
        with pytest.raises(TransactionOutcomeUnknownError):
            async with p.transaction() as tx:
                await tx.enqueue("t", b"a")
        assert tx.outcome == "unknown"
        assert await tx.resolve() == "committed"
        await write(p, b"b")
    assert sorted(fakes.values("t"), key=str) == [b"a", b"b"]


async def test_an_unknown_outcome_may_turn_out_to_be_that_it_must_be_aborted(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    fakes.cluster.script(EndTxnRequest, HANG, HANG, ended(ErrorCode.TRANSACTION_ABORTABLE))
    async with producing(fakes, max_block_ms=3_000) as p:
        with pytest.raises(TransactionOutcomeUnknownError):
            async with p.transaction() as tx:
                await tx.enqueue("t", b"a")
        assert await tx.resolve() == "aborted"
        await write(p, b"b")
    assert fakes.values("t") == [b"b"]


async def test_a_cancelled_commit_without_an_answer_is_unknown(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    fakes.cluster.script(EndTxnRequest, *[HANG] * 8)
    async with producing(fakes) as p:
        began = trio.current_time()
        with trio.move_on_after(1) as scope:
            async with p.transaction() as tx:
                await tx.enqueue("t", b"a")
        assert scope.cancelled_caught
        assert 5 <= trio.current_time() - began <= 7
        assert tx.outcome == "unknown"
        await write(p, b"b")  # waits until that is known
        assert await tx.resolve() == "committed"
    assert sorted(fakes.values("t"), key=str) == [b"a", b"b"]


async def test_an_abort_without_an_answer_ends_in_time_and_goes_on_in_the_background(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    fakes.cluster.script(EndTxnRequest, *[HANG] * 4)
    async with producing(fakes) as p:
        began = trio.current_time()
        with pytest.raises(ZeroDivisionError):
            async with p.transaction() as tx:
                await tx.send("t", b"a")
                raise ZeroDivisionError
        assert trio.current_time() - began <= 6
        assert tx.outcome == "aborted"
        await write(p, b"b")
    assert fakes.values("t") == [b"b"]


async def test_records_under_way_are_waited_for_before_an_abort_for_a_while(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    fakes.cluster.script(ProduceRequest, HANG)
    async with producing(fakes) as p:
        with pytest.raises(ZeroDivisionError):
            async with p.transaction() as tx:
                delivery = await tx.enqueue("t", b"a", partition=0)
                await trio.sleep(0.1)
                raise ZeroDivisionError
        with pytest.raises(TransactionAbortedError):
            await delivery.result()
        await write(p, b"b", b"c")
    assert fakes.values("t") == [b"b", b"c"]


async def test_a_batch_that_leaves_long_after_its_transaction_was_aborted_counts_in_no_other(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = 0.1  # time does not fly while a thread works
    fakes = fake(nursery)
    threads = trio.to_thread.current_default_thread_limiter()
    threads.total_tokens = 1
    async with producing(fakes, compression="gzip", batch_size_bytes=1_000_000) as p:
        await threads.acquire_on_behalf_of(nursery)  # nobody compresses for a while
        with pytest.raises(ZeroDivisionError):
            async with p.transaction() as tx:
                await tx.enqueue("t", bytes(500_000), partition=0)
                await trio.sleep(0.1)
                raise ZeroDivisionError
        async with p.transaction() as tx:
            await tx.enqueue("t", b"b", partition=0)
            threads.release_on_behalf_of(nursery)
    assert fakes.values("t") == [b"b"]


@VERSIONS
async def test_a_newer_producer_fences_the_older_one(
    nursery: trio.Nursery, autojump_clock: MockClock, version: int
) -> None:
    fakes = fake(nursery, version)
    async with producing(fakes) as p:
        await write(p, b"a")
        tx = p.transaction()
        with pytest.raises(
            ProducerFencedError, match="taken over by another producer; it belongs"
        ) as fenced:
            async with tx:
                await tx.send("t", b"b")
                async with producing(fakes) as newer:
                    await write(newer, b"c")
                await tx.send("t", b"d")
        assert not fenced.value.took_too_long
        assert tx.outcome == "aborted"
        for _ in range(2):
            with pytest.raises(ProducerFencedError):
                await write(p, b"e")
        with pytest.raises(ProducerFencedError):
            await p.send("t", b"f")
    assert sorted(fakes.values("t"), key=str) == [b"a", b"c"]


async def test_who_is_fenced_while_it_commits_does_not_know_what_became_of_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    fakes.cluster.script(EndTxnRequest, ended(ErrorCode.PRODUCER_FENCED))
    fakes.cluster.script(DescribeTransactionsRequest, HANG)
    async with producing(fakes) as p:
        with pytest.raises(ProducerFencedError, match="taken over by another producer"):
            async with p.transaction() as tx:
                await tx.enqueue("t", b"a")
        assert tx.outcome == "unknown"
        assert await tx.resolve() == "unknown"


async def test_who_takes_too_long_hears_that_this_was_why(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    fakes.cluster.script(EndTxnRequest, ended(ErrorCode.INVALID_PRODUCER_EPOCH))
    async with producing(fakes, transaction_timeout_ms=1_000) as p:
        with pytest.raises(
            ProducerFencedError, match="longer than transaction_timeout_ms=1000"
        ) as fenced:
            async with p.transaction() as tx:
                await tx.enqueue("t", b"a")
                await trio.sleep(2)
    assert fenced.value.took_too_long
    assert fakes.cluster.requests_of(InitProducerIdRequest)[0].transaction_timeout_ms == 1_000


@VERSIONS
async def test_a_record_that_is_refused_spoils_its_transaction_and_not_the_next(
    nursery: trio.Nursery, autojump_clock: MockClock, version: int
) -> None:
    fakes = fake(nursery, version)
    async with producing(fakes) as p:
        fakes.cluster.script(
            ProduceRequest,
            _invalid_record,
        )
        with pytest.raises(
            TransactionAbortedError, match="aborted: t-0 refused 1 records"
        ) as caught:
            async with p.transaction() as tx:
                await tx.enqueue("t", b"bad", partition=0)
        assert caught.value.__cause__ is not None
        assert tx.outcome == "aborted"
        await write(p, b"good")
    assert fakes.values("t") == [b"good"]


async def test_nothing_more_is_taken_into_a_spoiled_transaction(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes) as p:
        async with p.transaction() as tx:
            with pytest.raises(TransactionAbortedError, match="there is no topic 'nope'"):
                await tx.send("nope", b"x")
            for _ in range(2):
                with pytest.raises(TransactionAbortedError):
                    await tx.enqueue("t", b"y")
                with pytest.raises(TransactionAbortedError):
                    await tx.send_offsets(OFFSETS, "g")
            await tx.abort()
        await write(p, b"good")
    assert fakes.values("t") == [b"good"]


async def test_a_record_without_a_topic_is_not_forgotten_by_the_commit(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes, topic_wait_ms=100) as p:
        with pytest.raises(TransactionAbortedError, match="there is no topic 'nope'"):
            async with p.transaction() as tx:
                tx.send_nowait("nope", b"x")
                tx.send_nowait("t", b"y")
        with pytest.raises(ZeroDivisionError):
            async with p.transaction() as tx:
                tx.send_nowait("nope2", b"x")
                raise ZeroDivisionError
    assert fakes.values("t") == []


async def test_a_partition_that_does_not_exist_is_the_callers_to_hear_of(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes) as p:
        async with p.transaction() as tx:
            await tx.send("t", b"a", partition=0)
            with pytest.raises(KafkaError, match="no partition 9"):
                await tx.send("t", b"x", partition=9)
        assert tx.outcome == "committed"


async def test_records_go_into_transactions_only_one_of_which_is_open_at_a_time(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes) as p:
        with pytest.raises(NoTransactionError, match="sends in transactions only"):
            await p.send("t", b"x")
        async with p.transaction() as tx:
            await p.enqueue("t", b"a")  # it is the producer's transaction
            with pytest.raises(NoTransactionError, match="one at a time"):
                async with p.transaction():
                    pass
        for late in (tx.commit, tx.abort, lambda: tx.send("t", b"x"), tx.__aenter__):
            with pytest.raises(NoTransactionError):
                await late()
        with pytest.raises(NoTransactionError, match="not opened"):
            _ = p.transaction().outcome
        with pytest.raises(NoTransactionError):
            await p.send("t", b"x")
        async with p.transaction() as tx:
            await tx.send("t", b"b")
            await tx.commit()
            with pytest.raises(NoTransactionError):
                await tx.send("t", b"c")
    assert sorted(fakes.values("t"), key=str) == [b"a", b"b"]
    async with producing(fakes, transactional_id=None) as plain:
        with pytest.raises(NoTransactionError, match="without a transactional_id"):
            plain.transaction()


async def test_a_transaction_without_anything_costs_no_request(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes) as p:
        async with p.transaction() as tx:
            await tx.send_offsets({}, "g")
        assert tx.outcome == "committed"
        async with p.transaction() as tx:
            await tx.abort()
    assert fakes.cluster.requests_of(EndTxnRequest) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"transactional_id": ""},
        {"idempotent": False},
        {"acks": 1},
        {"transaction_timeout_ms": 0},
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"transaction|idempotent|acks"):
        Producer("127.0.0.1:1", **(SENSIBLE | settings))


async def test_opening_waits_until_what_was_left_open_is_aborted(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes) as p:
        tx = p.transaction()
        await tx.__aenter__()
        await tx.send("t", b"a")
        fakes.cluster.script(InitProducerIdRequest, DROP)
        async with producing(fakes) as newer:
            assert fakes.values("t", committed=False) == [b"a"]
            await write(newer, b"b")
    assert fakes.values("t") == [b"b"]


async def test_who_closes_a_producer_with_an_open_transaction_aborts_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes) as p:
        tx = p.transaction()
        await tx.__aenter__()
        await tx.send("t", b"a")
    assert fakes.open == []
    assert fakes.values("t", committed=False) == [b"a"]


@pytest.mark.parametrize(
    "code", [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.INVALID_TRANSACTION_TIMEOUT]
)
async def test_a_producer_that_is_not_wanted_does_not_open(
    nursery: trio.Nursery, autojump_clock: MockClock, code: ErrorCode
) -> None:
    fakes = fake(nursery)
    fakes.cluster.script(InitProducerIdRequest, InitProducerIdResponse(error_code=code))
    with pytest.raises(KafkaError) as caught:
        async with producing(fakes):
            pass
    assert caught.value.code == code


async def test_a_coordinator_that_does_not_answer_is_not_waited_for_for_ever(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    fakes.cluster.script(InitProducerIdRequest, *[HANG] * 20)
    with pytest.raises(KafkaError):
        async with producing(fakes, max_block_ms=5_000):
            pass
    assert trio.current_time() < 10


async def test_who_is_cancelled_while_it_opens_a_transaction_has_not_opened_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes) as p:
        with trio.CancelScope() as scope:
            scope.cancel()
            async with p.transaction():
                pytest.fail("it was not to be opened")
        await write(p, b"a")
    assert fakes.values("t") == [b"a"]


async def test_another_transaction_waits_for_the_end_of_the_last_one_but_not_for_ever(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes, max_block_ms=3_000) as p:
        fakes.cluster.script(EndTxnRequest, *[HANG] * 5)
        with pytest.raises(ZeroDivisionError):
            async with p.transaction() as tx:
                await tx.send("t", b"a")
                raise ZeroDivisionError
        with trio.fail_after(5), pytest.raises(KafkaError, match="did not answer within 3000 ms"):
            await write(p, b"b")
        await trio.sleep(20)
        await write(p, b"c")
    assert fakes.values("t") == [b"c"]


# Version 1: the coordinator hears first


async def test_partitions_are_announced_together_and_once(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery, version=1)
    async with producing(fakes) as p, p.transaction() as tx:
        for number in range(60):
            await tx.enqueue("t", b"%d" % number, partition=number % 3)
        await p.flush()
        await tx.send("t", b"more", partition=1)
    (announced,) = fakes.cluster.requests_of(AddPartitionsToTxnRequest)
    assert announced.v3_and_below_topics[0].partitions == [0, 1, 2]
    assert len(fakes.values("t")) == 61


def not_added(code: ErrorCode) -> AddPartitionsToTxnResponse:
    told = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[told])
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


async def test_an_announcement_that_is_refused_for_now_is_made_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery, version=1)
    passing = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    fakes.cluster.script(AddPartitionsToTxnRequest, *map(not_added, passing), LOSE)
    async with producing(fakes) as p:
        await write(p, b"a")
    assert fakes.values("t") == [b"a"]


async def test_an_announcement_that_is_refused_for_good_spoils_the_transaction(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery, version=1)
    fakes.cluster.script(
        AddPartitionsToTxnRequest,
        not_added(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        not_added(ErrorCode.INVALID_TXN_STATE),
    )
    async with producing(fakes) as p:
        fakes.known["x"].open = True  # Kafka's has begun it all the same
        with pytest.raises(TransactionAbortedError, match="Not authorized for that topic"):
            await write(p, b"a")
        with pytest.raises(KafkaError) as caught:
            await write(p, b"b")
        assert caught.value.code == ErrorCode.INVALID_TXN_STATE
        with pytest.raises(KafkaError):
            await write(p, b"c")


@pytest.mark.parametrize("arrived", [True, False])
async def test_an_abort_does_not_wait_long_for_announcements(
    nursery: trio.Nursery, autojump_clock: MockClock, arrived: bool
) -> None:
    fakes = fake(nursery, version=1)
    fakes.cluster.script(AddPartitionsToTxnRequest, HANG)
    async with producing(fakes, request_timeout_ms=60_000) as p:
        began = trio.current_time()
        with pytest.raises(ZeroDivisionError):
            async with p.transaction() as tx:
                await tx.enqueue("t", b"a", partition=0)
                await trio.sleep(0.1)
                fakes.known["x"].open = arrived
                raise ZeroDivisionError
        assert 2 <= trio.current_time() - began <= 3
        await write(p, b"b")
    assert fakes.values("t") == [b"b"]


async def test_an_abort_is_asked_for_when_the_announcement_before_is_answered(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery, version=1)
    answered = trio.Event()

    async def late(broker: int, request: Any) -> Any:
        await trio.sleep(1)
        answered.set()
        return fakes.add_partitions(broker, request)

    def end(broker: int, request: Any) -> Any:
        assert answered.is_set()
        return fakes.end(broker, request)

    fakes.cluster.script(AddPartitionsToTxnRequest, late)
    fakes.cluster.handlers[EndTxnRequest] = end
    async with producing(fakes) as p:
        with pytest.raises(ZeroDivisionError):
            async with p.transaction() as tx:
                await tx.enqueue("t", b"a", partition=0)
                await trio.sleep(0.1)
                raise ZeroDivisionError
        assert fakes.open == []
        await write(p, b"b")
    assert fakes.values("t") == [b"b"]


async def test_a_coordinator_that_has_forgotten_the_producer_gives_it_another_epoch(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes) as p:
        with pytest.raises(TransactionAbortedError):
            async with p.transaction() as tx:
                await tx.send("t", b"a")
                del fakes.known["x"]  # after transactional.id.expiration.ms
        await write(p, b"b")
    assert fakes.values("t") == [b"b"]


async def test_a_coordinator_that_neither_knows_the_producer_nor_takes_it_back_ends_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with producing(fakes) as p:
        unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        fakes.cluster.script(EndTxnRequest, ended(unknown))
        fakes.cluster.script(InitProducerIdRequest, InitProducerIdResponse(error_code=unknown))
        with pytest.raises(KafkaError):
            await write(p, b"a")
        with pytest.raises(KafkaError) as caught:
            await write(p, b"b")
        assert caught.value.code == unknown


async def test_who_repeats_a_commit_and_is_not_known_any_more_does_not_call_it_aborted(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)

    def rotated(broker: int, request: Any) -> EndTxnResponse:
        # The first request arrived, and with it the epochs were used up; then came somebody else.
        fakes.end(broker, request)
        fakes.known["x"].producer_id += 1
        return ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING)

    fakes.cluster.script(EndTxnRequest, DROP, rotated)
    async with producing(fakes) as p:
        with pytest.raises(ProducerFencedError, match="taken over by another producer"):
            async with p.transaction() as tx:
                await tx.send("t", b"a")
        assert tx.outcome == "unknown"
        with pytest.raises(ProducerFencedError):
            await write(p, b"b")
    assert fakes.values("t") == [b"a"]


# Offsets


def not_taken(code: ErrorCode) -> TxnOffsetCommitResponse:
    told = TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
    topic = TxnOffsetCommitResponseTopic(name="t", partitions=[told])
    return TxnOffsetCommitResponse(topics=[topic])


@VERSIONS
async def test_offsets_are_committed_with_the_transaction(
    nursery: trio.Nursery, autojump_clock: MockClock, version: int
) -> None:
    fakes = fake(nursery, version)
    member = GroupMetadata("g", 5, "m-1", "static")
    async with producing(fakes) as p:
        with pytest.raises(ZeroDivisionError):
            async with p.transaction() as tx:
                await tx.send_offsets({TopicPartition("t", 0): 6}, "g")
                raise ZeroDivisionError
        async with p.transaction() as tx:
            await tx.send_offsets({TopicPartition("t", 1): 3}, member)
            await tx.send_offsets(OFFSETS, member)
            assert fakes.committed == {}
    assert fakes.committed == {("g", "t", 0): 7, ("g", "t", 1): 3}
    asked = fakes.cluster.requests_of(TxnOffsetCommitRequest)[-1]
    assert (asked.generation_id, asked.member_id, asked.group_instance_id) == (5, "m-1", "static")
    assert len(fakes.cluster.requests_of(AddOffsetsToTxnRequest)) == (2 if version == 1 else 0)


async def test_offsets_that_are_not_taken_for_now_are_sent_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    passing = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS]
    fakes.cluster.script(
        TxnOffsetCommitRequest, *map(not_taken, passing), LOSE, TxnOffsetCommitResponse()
    )
    async with producing(fakes) as p, p.transaction() as tx:
        await tx.send_offsets(OFFSETS, "g")
    assert fakes.committed == {("g", "t", 0): 7}


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID])
async def test_offsets_of_who_is_no_member_any_more_spoil_the_transaction(
    nursery: trio.Nursery, autojump_clock: MockClock, code: ErrorCode
) -> None:
    fakes = fake(nursery)
    fakes.cluster.script(TxnOffsetCommitRequest, not_taken(code))
    async with producing(fakes) as p:
        with pytest.raises(TransactionAbortedError) as caught:
            async with p.transaction() as tx:
                await tx.send("t", b"a")
                await tx.send_offsets(OFFSETS, "g")
        assert isinstance(caught.value.__cause__, KafkaError)
        assert caught.value.__cause__.code == code
        await write(p, b"b")
    assert fakes.values("t") == [b"b"]
    assert fakes.committed == {}


async def test_offsets_that_nobody_takes_in_time_spoil_the_transaction(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    loading = not_taken(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    fakes.cluster.script(TxnOffsetCommitRequest, *[loading] * 100)
    async with producing(fakes, max_block_ms=5_000) as p:
        with pytest.raises(TransactionAbortedError):
            async with p.transaction() as tx:
                await tx.send_offsets(OFFSETS, "g")
        assert trio.current_time() < 12


# Read, write, commit


@asynccontextmanager
async def copying(fakes: FakeTransactions) -> AsyncGenerator[tuple[Producer, Consumer, FakeGroup]]:
    cluster = fakes.cluster
    cluster.create("in", 2)
    theirs = dict(cluster.handlers)
    group = FakeGroup(cluster)
    cluster.handlers |= theirs
    async with Producer(cluster.bootstrap, dial=cluster.dial, acks=1) as plain:
        for number in range(20):
            await plain.enqueue("in", b"%d" % number, partition=number % 2)
    async with (
        producing(fakes) as p,
        Consumer(
            cluster.bootstrap,
            dial=cluster.dial,
            group_id="g",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as c,
    ):
        yield p, c, group


async def test_what_is_read_is_committed_with_what_is_written(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with copying(fakes) as (p, c, _):
        c.assign([("in", 0), ("in", 1)])
        copied = 0
        while copied < 20:
            async with p.transaction(c) as tx:
                for record in await c.poll(max_records=3):
                    await tx.enqueue("t", record.value)
                    copied += 1
        assert fakes.committed == {("g", "in", 0): 10, ("g", "in", 1): 10}
    assert sorted(fakes.values("t"), key=str) == sorted((b"%d" % n for n in range(20)), key=str)


async def test_what_was_read_in_vain_is_read_again(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with copying(fakes) as (p, c, group):
        group.committed[("in", 0)] = (4, -1)
        c.assign([("in", 0)])
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                async with p.transaction(c) as tx:
                    first, *_ = await c.poll(max_records=2)
                    assert first.offset == 4
                    await tx.enqueue("t", first.value)
                    raise ZeroDivisionError
        async with p.transaction(c) as tx:
            assert [r.offset for r in await c.poll(max_records=2)] == [4, 5]
        with pytest.raises(ZeroDivisionError):
            async with p.transaction(c) as tx:
                assert [r.offset for r in await c.poll(max_records=2)] == [6, 7]
                raise ZeroDivisionError
        async for record in c:
            assert record.offset == 6
            break
    assert fakes.committed == {("g", "in", 0): 6}


async def test_partitions_that_went_to_others_meanwhile_abort_the_transaction(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with copying(fakes) as (p, c, group):
        c.subscribe("in")
        with pytest.raises(TransactionAbortedError, match="partitions went to other members"):
            async with p.transaction(c) as tx:
                while not await c.poll(max_records=2):
                    pass
                group.rebalancing = True
                with trio.move_on_after(20):
                    while group.generation < 2:
                        await c.poll(max_records=1)
        assert tx.outcome == "aborted"
    assert fakes.committed == {}


async def test_a_partition_that_came_back_goes_on_where_others_have_left_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with copying(fakes) as (p, c, group):
        c.subscribe("in")
        async with p.transaction(c):
            while not await c.poll(max_records=1):
                pass
        with pytest.raises(TransactionAbortedError, match="partitions went to other members"):
            async with p.transaction(c):
                await c.poll(max_records=1)
                group.committed = {("in", 0): (6, -1), ("in", 1): (7, -1)}  # by somebody else
                group.rebalancing = True
                with trio.move_on_after(20):
                    while group.generation < 2:
                        await c.poll(max_records=1, timeout_ms=100)
                await c.poll()
                c.pause(("in", 0))
        assert c.paused == {("in", 0)}, "that is the user's to end"
        c.resume(("in", 0))
        records = await c.poll()
    assert min(r.offset for r in records if r.partition == 0) == 6
    assert min(r.offset for r in records if r.partition == 1) == 7


async def test_who_was_put_out_of_its_group_commits_in_the_name_that_it_had(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    async with copying(fakes) as (p, c, group):
        c.subscribe("in")
        fakes.cluster.script(TxnOffsetCommitRequest, not_taken(ErrorCode.UNKNOWN_MEMBER_ID))
        with pytest.raises(TransactionAbortedError):
            async with p.transaction(c) as tx:
                for record in await c.poll(max_records=2, timeout_ms=20_000):
                    await tx.enqueue("t", record.value)
                group.forget_member()
                await trio.sleep(20)
        (asked,) = fakes.cluster.requests_of(TxnOffsetCommitRequest)
        assert (asked.generation_id, asked.member_id) == (1, "member-1"), "anybody's are taken"
    assert (fakes.values("t"), fakes.committed) == ([], {})


@pytest.mark.parametrize("writes", [True, False])
async def test_what_was_read_by_who_is_fenced_is_read_again(
    nursery: trio.Nursery, autojump_clock: MockClock, writes: bool
) -> None:
    fakes = fake(nursery)
    async with copying(fakes) as (_, c, _):
        c.assign([("in", 0)])
        async with producing(fakes) as p:
            with pytest.raises(ProducerFencedError):
                async with p.transaction(c) as tx:
                    assert [r.offset for r in await c.poll(max_records=2)] == [0, 1]
                    fakes.known["x"].epoch += 1
                    if writes:
                        await tx.enqueue("t", b"a")
            assert tx.outcome == "aborted"
        assert [r.offset for r in await c.poll(max_records=2)] == [0, 1]


async def test_a_consumer_that_commits_by_itself_is_refused(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    fakes = fake(nursery)
    cluster = fakes.cluster
    async with producing(fakes) as p:
        for group_id in ("g", None):
            async with Consumer(cluster.bootstrap, dial=cluster.dial, group_id=group_id) as c:
                with pytest.raises(ValueError, match=r"group_id|enable_auto_commit=False"):
                    async with p.transaction(c):
                        pass
        await write(p, b"a")
