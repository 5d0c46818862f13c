"""Partitions as they are listed and described."""

import pytest

from quorate.client.admin_results import LogDirReplica, PartitionDescription, TopicDescription
from quorate.model import TopicPartition
from quorate.tools.output import render
from quorate.tools.partitions.listing import (
    AT_MIN_ISR,
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    Found,
    all_partitions,
    chosen,
    describe_lines,
    describe_table,
    described,
    list_table,
    parse_partition,
    those_that_are,
)
from quorate.tools.problems import UsageError


def told(
    number: int, leader: int, isr: tuple[int, ...], elr: tuple[int, ...] = ()
) -> PartitionDescription:
    offline = tuple(b for b in (1, 2, 3) if b not in isr and b not in elr and b == 3)
    return PartitionDescription(number, leader, 7, (1, 2, 3), isr, offline, elr)


TOPIC = TopicDescription(
    "t", bytes(16), False,
    (told(0, 1, (1, 2, 3)), told(1, 1, (1, 2)), told(2, 1, (1,), (2,)), told(3, -1, ())),
)  # fmt: skip
FOUND = all_partitions([TOPIC], {"t": 2})


def numbers(found: list[Found]) -> list[int]:
    return [each.told.partition for each in found]


def test_states_say_all_that_is_not_as_it_should_be() -> None:
    assert [each.states for each in FOUND] == [
        (),
        (AT_MIN_ISR, UNDER_REPLICATED),
        (UNDER_MIN_ISR, UNDER_REPLICATED),
        (OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED),
    ]


def test_the_first_replica_is_the_one_that_should_lead() -> None:
    led_by_another = all_partitions(
        [TopicDescription("t", bytes(16), False, (told(0, 2, (1, 2, 3)),))], {}
    )
    leading = [(found.leader_id, found.preferred_leads) for found in (FOUND[0], *led_by_another)]
    assert leading == [(1, True), (2, False)]
    assert (FOUND[3].leader_id, FOUND[3].preferred_leads) == (None, False)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([], [0, 1, 2, 3]),
        ([UNDER_REPLICATED], [1, 2, 3]),
        ([UNDER_MIN_ISR], [2, 3]),
        ([AT_MIN_ISR], [1]),
        ([OFFLINE], [3]),
        ([OFFLINE, AT_MIN_ISR], [1, 3]),
    ],
)
def test_those_in_a_state_are_found(wanted: list[str], expected: list[int]) -> None:
    assert numbers(those_that_are(FOUND, wanted)) == expected


def test_a_topic_with_fewer_replicas_than_min_isr_needs_only_those() -> None:
    alone = PartitionDescription(0, 1, 0, (1,), (1,), ())
    assert Found(TopicPartition("t", 0), alone, 2).states == ()


def test_partitions_are_named_by_topic_and_numbers() -> None:
    assert parse_partition("t") == ("t", None)
    assert parse_partition("t:0,2,5-7") == ("t", (0, 2, 5, 6, 7))
    assert numbers(chosen(FOUND, ["t:1", "t:3,1"])) == [1, 3]
    assert numbers(chosen(FOUND, ["t"])) == numbers(chosen(FOUND, [])) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t:x", "names no partitions"),
        ("t:", "names no partitions"),
        ("t:3-1", "names no partitions"),
        ("t:0,3-2", "names no partitions"),
        ("t:9", "there is no partition t-9"),
        ("u", "no topic 'u'"),
    ],
)
def test_partitions_that_do_not_exist_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        chosen(FOUND, [text])


def test_a_list_has_a_row_for_each() -> None:
    assert render(list_table(FOUND), "table").splitlines()[2:4] == [
        "t-1        1       1,2,3     1,2         at-min-isr under-replicated",
        "t-2        1       1,2,3     1      2    under-min-isr under-replicated",
    ]
    assert list_table(FOUND).items()[3]["leader"] is None


def replica(end: int, high_watermark: int) -> LogDirReplica:
    return LogDirReplica(100, 0, False, end, high_watermark, 5)


def test_each_replica_tells_where_it_stands() -> None:
    zero, two = TopicPartition("t", 0), TopicPartition("t", 2)
    on_brokers = {1: {zero: replica(20, 18), two: replica(20, 18)}, 2: {zero: replica(17, 17)}}
    each = described(FOUND[0], on_brokers)
    assert (each.log_end_offset, each.high_watermark) == (20, 18)
    assert [each.lag(row) for row in each.replicas] == [0, 3, None]
    assert describe_lines(each) == [
        "t-0: ok",
        "  leader 1 (epoch 7), ISR 1,2,3, ELR none, last known ELR none, min ISR 2",
        "  log end 20, high watermark 18",
        "  BROKER  ROLE     LOG-START  LOG-END  LAG  HIGH-WATERMARK  BYTES",
        "  1       leader   5          20       0    18              100",
        "  2       in sync  5          17       3    17              100",
        "  3       in sync  -          -        -    -               -",
    ]
    roles = [row.role for row in described(FOUND[2], on_brokers).replicas]
    assert roles == ["leader", "eligible", "offline"]
    assert described(FOUND[1], {}).replicas[2].role == "offline"
    (item,) = describe_table([each]).items()
    assert item["replicas"][1]["lag"] == 3
    assert item["replicas"][2]["log_end_offset"] is None


def test_without_a_leader_nobody_knows_where_the_end_is() -> None:
    each = described(FOUND[3], {1: {TopicPartition("t", 3): replica(4, 4)}})
    assert (each.log_end_offset, each.high_watermark, each.leader) == (None, None, None)
    assert each.lag(each.replicas[0]) is None
    assert each.replicas[0].role == "behind"
    assert "leader nobody" in describe_lines(each)[1]
