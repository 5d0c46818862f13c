"""Offsets of a stream in its checkpoint, and what was changed since they were written."""

import json

import pytest

from quorate.client.spark.checkpoint import (
    CheckpointError,
    StreamOffsets,
    planned,
    same_topics,
    stream_offsets,
)
from quorate.client.spark.plan import OffsetRange
from quorate.model import TopicPartition

A, B, C = TopicPartition("t", 0), TopicPartition("t", 10), TopicPartition("a", 2)


def test_offsets_are_written_like_those_of_sparks_source_with_ids_beside() -> None:
    offsets = StreamOffsets({B: 5, A: 3, C: 0}, {"t": "ab", "other": "cd"})
    text = json.dumps(offsets.to_json())
    assert text == '{"a": {"2": 0}, "t": {"0": 3, "10": 5}, "#topicIds": {"t": "ab"}}'
    assert stream_offsets(json.loads(text)) == StreamOffsets({A: 3, B: 5, C: 0}, {"t": "ab"})


def test_a_checkpoint_of_sparks_source_will_do() -> None:
    assert stream_offsets({"t": {"0": 3}}) == StreamOffsets({A: 3}, {})
    assert StreamOffsets({A: 3}, {}).to_json() == {"t": {"0": 3}}


@pytest.mark.parametrize("parsed", [{"t": 5}, {"t": {"x": 1}}, {"t": {"0": None}}])
def test_other_checkpoints_are_refused(parsed: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match="which are no offsets of topics"):
        stream_offsets(parsed)


def test_a_topic_that_was_created_again_is_told_and_read_from_its_beginning() -> None:
    said: list[str] = []
    start = StreamOffsets({A: 3, C: 7}, {"t": "old", "a": "same"})
    now = same_topics(start, {"t": "new", "a": "same"}, said.append)
    assert now == StreamOffsets({C: 7}, {"t": "new", "a": "same"})
    assert len(said) == 1
    assert said[0].startswith("Topic t was deleted and created again since this query read it")
    assert same_topics(start, {"t": "old"}, said.append) == start
    assert len(said) == 1


def test_a_micro_batch_reads_what_is_between_its_ends() -> None:
    said: list[str] = []
    start = StreamOffsets({A: 3, C: 7}, {"t": "1"})
    end = StreamOffsets({A: 5, B: 4, C: 7}, {"t": "1"})
    assert planned(start, end, said.append) == [OffsetRange(A, 3, 5), OffsetRange(B, 0, 4)]
    assert said == []


def test_partitions_that_are_gone_or_go_back_are_told() -> None:
    said: list[str] = []
    start, end = StreamOffsets({A: 3, C: 7}, {}), StreamOffsets({A: 2}, {})
    assert planned(start, end, said.append) == []
    assert said == [
        "a-2 are gone. Some data may have been missed.",
        "Partition t-0's offset was changed from 3 to 2, some data may have been missed",
    ]


def test_a_micro_batch_into_a_new_topic_of_the_name_begins_at_its_beginning() -> None:
    said: list[str] = []
    start, end = StreamOffsets({A: 9}, {"t": "old"}), StreamOffsets({A: 2}, {"t": "new"})
    assert planned(start, end, said.append) == [OffsetRange(A, 0, 2)]
    assert said == []
