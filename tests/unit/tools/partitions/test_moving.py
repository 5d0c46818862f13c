"""Plans as files, moves under way, rates; and what a broker has to give up."""

import json

import pytest

from quorate.client.admin_results import (
    BrokerDescription,
    BrokerLogDirs,
    LogDir,
    LogDirReplica,
    PartitionDescription,
    Reassignment,
)
from quorate.model import Endpoint, TopicPartition
from quorate.tools.clusters.health import BrokerLoad
from quorate.tools.partitions.listing import Found
from quorate.tools.partitions.moving import (
    bytes_to_copy,
    decode_plan,
    disks_of,
    encode_plan,
    moves_table,
    moves_to,
    parse_rate,
    parse_target,
    progress_of,
    progress_table,
    summary_lines,
    waiting_text,
    warning_lines,
)
from quorate.tools.partitions.planning import Move
from quorate.tools.partitions.retiring import (
    Led,
    able_to_lead,
    brokers_table,
    led_by,
    replicas_of,
    some,
)
from quorate.tools.problems import UsageError

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def on_disk(size_bytes: int) -> LogDirReplica:
    return LogDirReplica(size_bytes, 0, False)


SIZES = {1: {A: on_disk(1000), B: on_disk(500)}, 2: {A: on_disk(900)}, 4: {A: on_disk(250)}}
MOVE = Move(A, (1, 2), (4, 2))


def test_a_plan_is_written_as_kafka_writes_it_and_read_again() -> None:
    targets = {A: (1, 2), B: (2, 3)}
    text = encode_plan(targets)
    assert json.loads(text)["partitions"][1] == {"topic": "t", "partition": 1, "replicas": [2, 3]}
    assert decode_plan(text) == targets
    assert decode_plan(encode_plan({})) == {}
    kafka = (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3],"log_dirs":["any"]}]}'
    )
    assert decode_plan(kafka) == {A: (3,)}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"partitions": [{"topic": "t"}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}',
    ],
)  # fmt: skip
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        decode_plan(text)


def test_a_move_can_be_named() -> None:
    assert parse_target("t:0=3,1") == (A, (3, 1))


@pytest.mark.parametrize("text", ["t=1", "t:0", "t:x=1", "t:0=", "t:0=1,1", "t:0=a"])
def test_a_move_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text)


def test_what_is_where_it_is_wanted_does_not_move() -> None:
    assert moves_to({A: (1, 2), B: (1,)}, {A: (4, 2), B: (1,)}) == [MOVE]
    with pytest.raises(UsageError, match="no partition t-1"):
        moves_to({A: (1, 2)}, {B: (1,)})


def test_a_plan_tells_what_it_costs() -> None:
    assert bytes_to_copy([MOVE], SIZES) == 1000
    assert moves_table([MOVE], SIZES).items() == [
        {
            "partition": "t-0", "now": [1, 2], "then": [4, 2], "adding": [4], "removing": [1],
            "copies_bytes": 1000,
        }
    ]  # fmt: skip
    assert summary_lines({A: (1, 2), B: (1,)}, [MOVE], SIZES, [1, 2, 4]) == [
        "1 of 2 partitions changes; to copy: 1 replica, 1.0 kB",
        "  broker 1: replicas 2 -> 1, preferred leader of 2 -> 1",
        "  broker 2: replicas 1 -> 1, preferred leader of 0 -> 0",
        "  broker 4: replicas 0 -> 1, preferred leader of 0 -> 1",
    ]


def test_a_plan_warns_of_brokers_that_cannot_take_it() -> None:
    def broker(broker_id: int, *, cannot_write: bool = False) -> BrokerDescription:
        return BrokerDescription(
            broker_id, Endpoint("h", 1), None, is_fenced=False, cannot_write=cannot_write
        )

    def disk(usable_bytes: int) -> BrokerLogDirs:
        return BrokerLogDirs((LogDir("/d", None, 10_000, usable_bytes, {}),))

    moves = [MOVE, Move(B, (1,), (1, 2, 4))]
    log_dirs = {2: disk(499), 3: disk(0), 4: disk(1500)}
    disks = disks_of([broker(2), broker(3), broker(4)], log_dirs)
    assert warning_lines(moves, SIZES, disks) == [
        "broker 2 gets 500 B, and 499 B are free on its disk"
    ]
    unknown = disks_of([broker(2), broker(4, cannot_write=True)], {2: disk(-1)})
    assert warning_lines(moves, SIZES, unknown) == [
        "broker 4 is read-only: its moves wait until it can write"
    ]


def test_progress_is_what_new_replicas_have_of_what_the_others_have() -> None:
    moves = {A: Reassignment((4, 2, 1), (4,), (1,)), B: Reassignment((3, 1), (), (1,))}
    first, second = progress_of(moves, SIZES, ())
    assert (first.copied_bytes, first.total_bytes, first.part) == (250, 1000, 0.25)
    assert (second.total_bytes, second.part) == (0, 1.0)
    assert progress_table([first]).items()[0]["percent"] == 25
    assert first.move.target == (4, 2)


def test_moves_that_wait_for_a_read_only_broker_say_so() -> None:
    moves = {A: Reassignment((4, 2, 1), (4,), (1,)), B: Reassignment((3, 1), (3,), ())}
    assert waiting_text(progress_of(moves, SIZES, {1, 2})) == ""
    under_way = progress_of(moves, SIZES, {1, 4})
    assert [each.waits_for for each in under_way] == [(4,), ()]
    assert waiting_text(under_way) == (
        "1 of 2 moves waits for broker 4, which is read-only: make room on its disk, or see"
        " quorate partitions reassign cancel"
    )
    assert progress_table(under_way).items()[0]["waits_for"] == [4]
    assert waiting_text(progress_of(moves, SIZES, {3, 4})).startswith(
        "2 of 2 moves wait for brokers 3, 4, which are read-only: make room on their disks"
    )


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50MB", 50_000_000),
        ("50M/s", 50_000_000),
        ("1.5k", 1500),
        ("700", 700),
        ("2gb/s", 2 * 10**9),
    ],
)
def test_rates_are_bytes_a_second(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "x", "0", "-5", "5TB"])
def test_rates_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_rate(text)


def broker(broker_id: int, *, fenced: bool = False, draining: bool = False) -> BrokerDescription:
    endpoint = Endpoint("h", 9000 + broker_id)
    return BrokerDescription(broker_id, endpoint, "a", fenced, is_draining=draining)


def found(number: int, leader: int, isr: tuple[int, ...]) -> Found:
    partition = PartitionDescription(number, leader, 0, (1, 2), isr, ())
    return Found(TopicPartition("t", number), partition, 1)


def test_what_others_can_lead_is_told_from_what_nobody_else_can() -> None:
    partitions = [found(0, 1, (1, 2)), found(1, 1, (1,)), found(2, 2, (1, 2))]
    assert led_by(1, partitions, [1, 2]) == Led((A,), (B,))
    assert led_by(1, partitions, [1]) == Led((), (A, B))
    assert replicas_of(3, partitions) == []
    assert len(replicas_of(2, partitions)) == 3


def test_only_brokers_in_service_take_over() -> None:
    assert able_to_lead([broker(1), broker(2, fenced=True), broker(3, draining=True)]) == [1]


def test_brokers_are_listed_with_what_they_have() -> None:
    brokers = [broker(1), broker(3, fenced=True)]
    rows = brokers_table(brokers, {1: BrokerLoad(2, 3, 1)}, SIZES, "c").items()
    assert [row["state"] for row in rows] == ["in service", "fenced"]
    assert [row["leads"] for row in rows] == [2, 0]
    assert [row["size_bytes"] for row in rows] == [1500, None]


def test_not_too_many_partitions_are_named() -> None:
    many = [TopicPartition("t", number) for number in range(8)]
    assert some(many) == "t-0, t-1, t-2, t-3, t-4 and 3 more"
    assert some([A]) == "t-0"
