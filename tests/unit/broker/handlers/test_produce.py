"""Produce answers when records are as safe as acks asks, and says per partition what went wrong."""

import pytest

from quorate.broker.handlers.context import CloseConnectionError
from quorate.broker.handlers.produce import produce
from quorate.errors import ErrorCode
from quorate.promise import Promise
from quorate.protocol.messages.data import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorate.quorum.metadata import records as r
from quorate.records.record import ProducerStamp
from tests.unit.broker.harness import NOW_MS, Node, codes, new_node, now, over, waits
from tests.unit.broker.log.batches import headers_of, join, make_batch, read_all

ALL = -1
NAMED, IDENTIFIED = over(12), over(13)


def request(
    *partitions: tuple[str, int, memoryview | None], acks: int = 1, timeout_ms: int = 1000
) -> ProduceRequest:
    topics = [
        TopicProduceData(
            name=name, partition_data=[PartitionProduceData(index=index, records=records)]
        )
        for name, index, records in partitions
    ]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def one(*values: bytes, acks: int = 1, timeout_ms: int = 1000) -> ProduceRequest:
    return request(("appLogs", 0, make_batch(values)), acks=acks, timeout_ms=timeout_ms)


def partitions_of(answer: object) -> list[PartitionProduceResponse]:
    response = now(answer)
    assert isinstance(response, ProduceResponse)
    return [partition for topic in response.responses for partition in topic.partition_responses]


def synced_node(**configs: str) -> Node:
    """A node with a topic whose records count once they are synced."""
    node = new_node()
    node.create_topic("appLogs", flush_messages="1", configs=configs)
    return node


@pytest.mark.parametrize("acks", [1, ALL])
def test_records_are_appended_and_their_first_offset_is_told(acks: int) -> None:
    node = new_node()
    node.create_topic("appLogs")
    assert partitions_of(produce(node.broker, one(b"a", b"b", acks=acks), NAMED)) == [
        PartitionProduceResponse(index=0, base_offset=0, log_start_offset=0)
    ]
    (second,) = partitions_of(produce(node.broker, one(b"c", acks=acks), NAMED))
    assert second.base_offset == 2
    assert [len(read_all(node.leader().log)), node.leader().high_watermark] == [2, 3]


def test_a_request_of_one_batch_is_one_write_of_its_bytes() -> None:
    node = new_node()
    node.create_topic("appLogs")
    now(produce(node.broker, one(b"a"), NAMED))  # makes the log's files
    batch = make_batch([b"b", b"c"])
    steps, used_bytes = node.disk.steps, node.disk.used_bytes()
    now(produce(node.broker, request(("appLogs", 0, batch)), NAMED))
    assert node.disk.steps == steps + 1
    assert node.disk.used_bytes() == used_bytes + len(batch)


def test_topics_are_found_by_id_from_version_13_on() -> None:
    node = new_node()
    topic_id = node.create_topic("appLogs")
    sent = one(b"a")
    sent.topic_data[0].name = ""
    sent.topic_data[0].topic_id = topic_id
    response = now(produce(node.broker, sent, IDENTIFIED))
    assert response.responses[0].topic_id == topic_id
    assert codes(partitions_of(response)) == [ErrorCode.NONE]
    sent.topic_data[0].topic_id = b"?" * 16
    assert codes(partitions_of(produce(node.broker, sent, IDENTIFIED))) == [
        ErrorCode.UNKNOWN_TOPIC_ID
    ]


def test_each_partition_fails_by_itself() -> None:
    node = new_node()
    node.create_topic("appLogs", 2)
    node.create_topic("elsewhere", leader_id=2, replicas=(2,))
    damaged = make_batch([b"x"])
    damaged[-1] ^= 1
    sent = request(
        ("appLogs", 1, make_batch([b"a"])),
        ("appLogs", 0, damaged),
        ("appLogs", 2, make_batch([b"b"])),
        ("elsewhere", 0, make_batch([b"c"])),
        ("appLogs", 1, None),
        ("appLogs", 1, memoryview(bytearray())),
    )
    answers = partitions_of(produce(node.broker, sent, NAMED))
    assert codes(answers) == [
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_RECORD,
    ]
    assert [answer.base_offset for answer in answers] == [0, -1, -1, -1, -1, -1]
    assert "checksum" in (answers[1].error_message or "")


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused(acks: int) -> None:
    node = new_node()
    node.create_topic("appLogs")
    answers = partitions_of(produce(node.broker, one(b"a", acks=acks), NAMED))
    assert codes(answers) == [ErrorCode.INVALID_REQUIRED_ACKS]
    assert node.leader().log.log_end_offset == 0


def test_acks_0_gets_no_answer_even_when_records_wait_to_be_synced() -> None:
    node = synced_node()
    assert produce(node.broker, one(b"a", acks=0), NAMED) is None
    assert node.leader().log.log_end_offset == 1
    assert not len(node.broker.deadlines)


def test_acks_0_closes_the_connection_to_say_that_something_failed() -> None:
    node = new_node()
    with pytest.raises(CloseConnectionError, match="appLogs-0: UNKNOWN_TOPIC_OR_PARTITION"):
        produce(node.broker, one(b"a", acks=0), NAMED)


def test_acks_all_needs_min_insync_replicas_and_acks_1_does_not() -> None:
    node = new_node()
    node.create_topic("appLogs", replicas=(1, 2), min_insync_replicas="2")
    answers = partitions_of(produce(node.broker, one(b"a", acks=ALL), NAMED))
    assert codes(answers) == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert codes(partitions_of(produce(node.broker, one(b"a"), NAMED))) == [ErrorCode.NONE]


def test_append_time_is_told() -> None:
    node = new_node()
    node.create_topic("appLogs", message_timestamp_type="LogAppendTime")
    (answer,) = partitions_of(produce(node.broker, one(b"a"), NAMED))
    assert answer.log_append_time_ms == NOW_MS


def test_a_batch_sent_again_is_answered_with_the_offset_it_has() -> None:
    node = new_node()
    node.create_topic("appLogs")

    def send(sequence: int) -> PartitionProduceResponse:
        batch = make_batch([b"a"], producer=ProducerStamp(7, 0, sequence))
        return partitions_of(produce(node.broker, request(("appLogs", 0, batch)), NAMED))[0]

    assert [send(0).base_offset, send(1).base_offset, send(0).base_offset] == [0, 1, 0]
    assert codes([send(3)]) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert node.leader().log.log_end_offset == 2


@pytest.mark.parametrize("acks", [1, ALL])
def test_with_flush_messages_1_the_answer_waits_for_the_sync(acks: int) -> None:
    node = synced_node()
    answer = produce(node.broker, one(b"a", acks=acks), NAMED)
    assert waits(answer)
    node.sync()
    assert codes(partitions_of(answer)) == [ErrorCode.NONE]
    assert not len(node.broker.deadlines)


def test_a_duplicate_of_records_that_wait_for_their_sync_waits_with_them() -> None:
    node = synced_node()
    sent = [
        request(("appLogs", 0, make_batch([b"a"], producer=ProducerStamp(7, 0, sequence))))
        for sequence in (0, 1, 0)
    ]
    answers = [produce(node.broker, each, NAMED) for each in sent]
    assert all(waits(answer) for answer in answers)
    node.sync()
    assert [partitions_of(answer)[0].base_offset for answer in answers] == [0, 1, 0]
    again = produce(node.broker, sent[0], NAMED)
    assert partitions_of(again)[0].base_offset == 0, "what is synced is not waited for"


def test_a_request_for_several_partitions_is_answered_when_the_last_of_them_is_synced() -> None:
    node = synced_node()
    node.create_topic("dbLogs", flush_messages="1")
    node.create_topic("ingressLogs")
    batches = {name: make_batch([b"a"]) for name in ("appLogs", "dbLogs", "ingressLogs")}
    answer = produce(node.broker, request(*((n, 0, b) for n, b in batches.items())), NAMED)
    unsynced = node.replicas.news.unsynced
    last = node.leader("dbLogs")
    del unsynced[last]
    node.sync()
    assert waits(answer)
    unsynced[last] = None
    node.sync()
    assert codes(partitions_of(answer)) == [ErrorCode.NONE] * 3


def test_a_request_that_waits_too_long_is_told_so_for_the_partitions_that_wait_still() -> None:
    node = synced_node()
    node.create_topic("ingressLogs")
    sent = request(
        ("appLogs", 0, make_batch([b"a"])),
        ("ingressLogs", 0, make_batch([b"a"])),
        timeout_ms=100,
    )
    answer = produce(node.broker, sent, NAMED)
    node.wait(99)
    assert waits(answer)
    node.wait(1)
    answers = partitions_of(answer)
    assert codes(answers) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    assert [each.base_offset for each in answers] == [-1, 0]
    node.sync()
    assert node.leader().high_watermark == 1, "the records are there all the same"


def test_a_negative_timeout_is_none() -> None:
    node = synced_node()
    answer = produce(node.broker, one(b"a", timeout_ms=-5), NAMED)
    node.wait(0)
    assert codes(partitions_of(answer)) == [ErrorCode.REQUEST_TIMED_OUT]


def test_who_waits_hears_at_once_that_the_leader_is_another_now() -> None:
    node = synced_node()
    answer = produce(node.broker, one(b"a"), NAMED)
    node.lead("appLogs", 0, leader_epoch=1, leader_id=-1)
    assert codes(partitions_of(answer)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert not len(node.broker.deadlines)


def test_who_waits_for_the_disk_need_not_ask_again_when_the_same_broker_leads_on() -> None:
    node = synced_node()
    answer = produce(node.broker, one(b"a"), NAMED)
    node.lead("appLogs", 0, leader_epoch=1)
    assert isinstance(answer, Promise)
    assert not answer.resolved
    node.sync()
    assert codes(partitions_of(answer)) == [ErrorCode.NONE]
    assert not len(node.broker.deadlines)


def test_who_waits_hears_at_once_that_the_topic_was_deleted() -> None:
    node = synced_node()
    answer = produce(node.broker, one(b"a"), NAMED)
    node.apply(r.TopicRemoved("test", 0, node.leader().topic_id))
    assert codes(partitions_of(answer)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert not node.replicas.news.unsynced


def test_answers_that_wait_no_longer_are_not_remembered() -> None:
    node = synced_node()
    for _ in range(1000):
        answer = produce(node.broker, one(b"a", timeout_ms=30_000), NAMED)
        node.sync()
        assert isinstance(answer, Promise)
    assert not len(node.broker.deadlines)


def test_a_topic_may_have_its_batches_stored_with_a_codec_of_its_own() -> None:
    node = new_node()
    node.create_topic("appLogs", compression_type="zstd")
    produce(node.broker, one(b"a" * 500, b"b" * 500), NAMED)
    (batch,) = read_all(node.leader().log).values()
    assert headers_of(batch)[0].compression == 4
    assert len(batch) < 200


def test_a_full_disk_is_answered_and_gone_when_there_is_space() -> None:
    node = new_node()
    node.create_topic("appLogs")
    node.disk.capacity_bytes = node.disk.used_bytes()
    answers = partitions_of(produce(node.broker, one(b"a"), NAMED))
    assert codes(answers) == [ErrorCode.KAFKA_STORAGE_ERROR]
    node.disk.capacity_bytes = None
    assert codes(partitions_of(produce(node.broker, one(b"a"), NAMED))) == [ErrorCode.NONE]


def test_batches_larger_than_the_topic_allows_are_refused() -> None:
    node = new_node()
    node.create_topic("appLogs", max_message_bytes="100")
    answers = partitions_of(produce(node.broker, one(b"a" * 100), NAMED))
    assert codes(answers) == [ErrorCode.MESSAGE_TOO_LARGE]
    node.apply(r.ConfigSet("test", 0, "topic", "appLogs", "max.message.bytes", "1000"))
    assert codes(partitions_of(produce(node.broker, one(b"a" * 100), NAMED))) == [ErrorCode.NONE]


def test_only_one_batch_in_the_one_format_is_taken_for_a_partition() -> None:
    node = new_node()
    node.create_topic("appLogs")
    old = make_batch([b"a"])
    old[16] = 1
    for records in (join([make_batch([b"a"]), make_batch([b"b"])]), old, old[:20]):
        answers = partitions_of(produce(node.broker, request(("appLogs", 0, records)), NAMED))
        assert codes(answers) == [ErrorCode.INVALID_RECORD]
    for byte in (0x10, 0x04):  # of its time, where the format has transactional, or zstd
        old[22] = byte
        sent = request(("appLogs", 0, old))
        assert codes(partitions_of(produce(node.broker, sent, over(6)))) == [
            ErrorCode.INVALID_RECORD
        ]
    for size_bytes in (5, 14, 40, 65):
        cut = make_batch([b"a"])[:size_bytes]
        answers = partitions_of(produce(node.broker, request(("appLogs", 0, cut)), NAMED))
        assert codes(answers) == [ErrorCode.INVALID_RECORD]
    assert node.leader().log.log_end_offset == 0


def test_what_is_shorter_than_any_batch_is_refused_even_if_it_says_so_itself() -> None:
    node = new_node()
    node.create_topic("appLogs")
    short = make_batch([b"a"])[:40]
    short[8:12] = (len(short) - 12).to_bytes(4, "big")
    answers = partitions_of(produce(node.broker, request(("appLogs", 0, short)), NAMED))
    assert codes(answers) == [ErrorCode.CORRUPT_MESSAGE]
    assert node.leader().log.log_end_offset == 0


def test_zstd_is_refused_from_clients_of_a_time_before_it() -> None:
    node = new_node()
    node.create_topic("appLogs", 2)

    def send(version: int, records: memoryview | None) -> list[ErrorCode]:
        sent = request(("appLogs", 0, records))
        return codes(partitions_of(produce(node.broker, sent, over(version))))

    zstd = make_batch([b"a"], codec=4)
    assert send(6, zstd) == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE]
    assert send(7, zstd) == [ErrorCode.NONE]
    assert send(6, make_batch([b"a"], codec=1)) == [ErrorCode.NONE]
    assert send(6, None) == [ErrorCode.INVALID_RECORD]


def test_which_records_have_no_key_for_a_compacted_topic_is_told() -> None:
    node = new_node()
    node.create_topic("appLogs", cleanup_policy="compact")
    batch = make_batch([b"1", b"2", b"3"], keys=[None, b"k", None])
    (refused,) = partitions_of(produce(node.broker, request(("appLogs", 0, batch)), NAMED))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [0, 2]
    assert {error.batch_index_error_message for error in refused.record_errors} == {
        refused.error_message
    }
