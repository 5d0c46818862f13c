"""In which turn a consumer's partitions give out what they have."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from quorate.client.fetcher import Fetcher
from quorate.client.receiving.streams import PartitionStream
from quorate.errors import CorruptRecordError
from quorate.model import TopicPartition
from quorate.protocol.messages.data import PartitionData
from quorate.records.compression import Codec
from quorate.records.record import NO_PRODUCER, RecordBatchBuilder


def _nothing(*_: object) -> None:
    return None


def _partition(number: int) -> PartitionStream:
    made = PartitionStream(TopicPartition("t", number), None, committed_only=False, check_crcs=True)
    made.seek(0)
    return made


def _with_record(number: int) -> PartitionStream:
    made, builder = _partition(number), RecordBatchBuilder()
    builder.append(1, None, b"%d" % number, b"", 30)
    data = PartitionData(high_watermark=1, records=builder.build(Codec.NONE, NO_PRODUCER))
    assert made.add(data, 0, made.position.generation)
    return made


async def _found(_: TopicPartition) -> None:
    await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("merges", [False, True])
async def test_what_comes_before_a_broken_partition_is_given_out_and_then_its_error(
    nursery: trio.Nursery, *, merges: bool
) -> None:
    cluster = SimpleNamespace(
        on_change=_nothing,
        watch=_nothing,
        leader_if_known=_nothing,
        wait_for_partition=_found,
    )
    settings = SimpleNamespace()  # nobody is asked for anything
    fetcher = Fetcher(cast("Any", cluster), cast("Any", settings), nursery, Random(1))
    fetcher.merges = merges
    broken = _partition(1)
    broken.fail(CorruptRecordError("t-1 at offset 0"))
    fetcher.read([_with_record(0), broken, _with_record(2)])
    assert [record.value for record in fetcher.take(9, {})] == [b"0"]
    with pytest.raises(CorruptRecordError, match="t-1"):
        fetcher.take(9, {})
    assert [record.value for record in fetcher.take(9, {})] == [b"2"]
