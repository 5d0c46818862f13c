from quorate.client.groups.results import OffsetAndMetadata
from quorate.client.membership.identity import GroupMetadata
from quorate.client.sending.accumulator import ProducerIdentity
from quorate.client.transactions.requests import (
    add_offsets_request,
    add_partitions_request,
    added_codes,
    end_request,
    init_request,
    offset_codes,
    offsets_request,
    worst_of,
)
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from quorate.protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

WHO = ProducerIdentity(7, 3)


def test_who_has_an_epoch_asks_for_the_next_one_only() -> None:
    first, next_one = init_request("x", 10, None), init_request("x", 10, WHO)
    assert (first.producer_id, first.producer_epoch) == (-1, -1)
    assert (next_one.producer_id, next_one.producer_epoch) == (7, 3)
    assert next_one.transaction_timeout_ms == 10


def test_partitions_are_announced_by_topic() -> None:
    partitions = {TopicPartition("b", 1), TopicPartition("a", 0), TopicPartition("b", 0)}
    request = add_partitions_request("x", WHO, partitions)
    told = [(topic.name, topic.partitions) for topic in request.v3_and_below_topics]
    assert told == [("a", [0]), ("b", [0, 1])]
    assert request.v3_and_below_producer_epoch == 3


def test_what_became_of_partitions() -> None:
    response = AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name="a",
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=55),
                    AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=3),
                    AddPartitionsToTxnPartitionResult(partition_index=2),
                ],
            )
        ]
    )
    codes = added_codes(response)
    assert codes[TopicPartition("a", 1)] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert worst_of(codes.values()) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    left_out = [ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED]
    assert worst_of(left_out) == ErrorCode.OPERATION_NOT_ATTEMPTED
    assert worst_of([ErrorCode.NONE]) == worst_of([]) == ErrorCode.NONE


def test_offsets_go_with_who_read_them() -> None:
    offsets = {
        TopicPartition("a", 0): OffsetAndMetadata(5, 2, "m"),
        TopicPartition("a", 1): OffsetAndMetadata(6),
        TopicPartition("b", 0): OffsetAndMetadata(7),
    }
    request = offsets_request("x", WHO, GroupMetadata("g", 4, "m-1", "static"), offsets)
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 4, "m-1")
    first = request.topics[0].partitions[0]
    assert (first.committed_offset, first.committed_leader_epoch, first.committed_metadata) == (
        5,
        2,
        "m",
    )
    assert [len(topic.partitions) for topic in request.topics] == [2, 1]
    assert add_offsets_request("x", WHO, "g").group_id == "g"
    assert end_request("x", WHO, committed=True).committed


def test_what_became_of_offsets() -> None:
    told = TxnOffsetCommitResponsePartition(partition_index=1, error_code=22)
    topic = TxnOffsetCommitResponseTopic(name="a", partitions=[told])
    codes = offset_codes(TxnOffsetCommitResponse(topics=[topic]))
    assert codes == {TopicPartition("a", 1): ErrorCode.ILLEGAL_GENERATION}
