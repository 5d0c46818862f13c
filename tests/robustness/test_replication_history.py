"""The checks of what clients and replicas say see all that can go wrong."""

from collections.abc import Callable, Mapping

import pytest

from tests.robustness.replication_history import (
    Batch,
    Log,
    Sent,
    Value,
    check,
    longest_gaps,
    slowest_ack,
)

PARTITIONS = 2
RECORDS = 12
BROKERS = (101, 102, 103)


class World:
    """Two producers, two partitions, three replicas of each: all as it should be, to be spoiled."""

    def __init__(self) -> None:
        self.sents = [Sent(producer, PARTITIONS) for producer in range(2)]
        self.logs: dict[int, dict[int, Value]] = {n: {} for n in range(PARTITIONS)}
        for at in range(RECORDS):
            for sent in self.sents:
                number = sent.send(float(at))
                log = self.logs[sent.partition_of(number)]
                sent.ack(number, len(log), at + 0.25)
                log[len(log)] = Value(sent.producer, number)
        self.reads = {n: list(log.items()) for n, log in self.logs.items()}
        self.replicas = {
            n: {broker: [batch_of(offset) for offset in log] for broker in BROKERS}
            for n, log in self.logs.items()
        }

    def problems(self) -> list[str]:
        """Return what the checks find."""
        logs: Mapping[int, Log] = self.logs
        ends = dict.fromkeys(range(PARTITIONS), RECORDS)
        return check(self.sents, logs, ends, self.reads, self.replicas)


def batch_of(offset: int, *, content: bytes = b"same", epoch: int = 3) -> Batch:
    return Batch(offset, offset + 1, epoch, content)


def test_nothing_is_wrong_with_a_history_that_agrees() -> None:
    assert World().problems() == []


def test_a_record_that_was_given_up_may_be_there_but_is_told_of() -> None:
    world = World()
    world.sents[0].fail(world.sents[0].send(99.0), "timed out")
    assert problems_of(world) == ["records were given up by the client"]


def test_what_is_beyond_the_high_watermark_may_differ() -> None:
    world = World()
    world.logs[0][RECORDS] = Value(0, 2 * RECORDS)
    world.sents[0].sent_s.extend([0.0] * RECORDS * 2)
    world.replicas[0][101].append(batch_of(RECORDS))
    assert not [problem for problem in world.problems() if "differs" in problem]


def lose(world: World) -> None:
    world.logs[0][5] = world.logs[0][4]
    world.reads[0][5] = 5, world.logs[0][4]


def lose_the_end(world: World) -> None:
    del world.logs[0][RECORDS - 1]
    del world.reads[0][-1]


def move(world: World) -> None:
    log = world.logs[0]
    log[4], log[5] = log[5], log[4]
    world.reads[0] = list(log.items())


def repeat(world: World) -> None:
    world.logs[0][RECORDS] = world.logs[0][3]


def reorder(world: World) -> None:
    """As if the client had been told so, too."""
    sent, log = world.sents[0], world.logs[0]
    log[4], log[6] = log[6], log[4]
    for offset in (4, 6):
        sent.offsets[log[offset].number] = offset
    world.reads[0] = list(log.items())


def invent(world: World) -> None:
    world.logs[0][RECORDS] = Value(7, 0)


def confuse_partitions(world: World) -> None:
    world.logs[0][RECORDS] = Value(0, 1)


def read_what_went_away(world: World) -> None:
    world.reads[0][5] = 5, Value(0, 999)


def read_twice(world: World) -> None:
    world.reads[0].insert(5, world.reads[0][4])


def read_too_little(world: World) -> None:
    del world.reads[0][-1]


def leave_unanswered(world: World) -> None:
    world.sents[0].send(99.0)


def diverge(world: World) -> None:
    world.replicas[1][102][4] = batch_of(4, content=b"other")


def diverge_in_epoch_only(world: World) -> None:
    world.replicas[1][102][4] = batch_of(4, epoch=2)


def lag(world: World) -> None:
    del world.replicas[1][103][-1]


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (lose, "acknowledged records are lost"),
        (lose_the_end, "acknowledged records are lost"),
        (lose_the_end, "are empty"),
        (move, "acknowledged records are lost or elsewhere"),
        (repeat, "values are repeated"),
        (reorder, "out of order"),
        (invent, "never sent there"),
        (confuse_partitions, "never sent there"),
        (read_what_went_away, "reads of partition 0 were wrong"),
        (read_twice, "reads of partition 0 were wrong"),
        (read_too_little, "reads of partition 0 were wrong"),
        (leave_unanswered, "never answered"),
        (diverge, "partition 1 differs"),
        (diverge_in_epoch_only, "partition 1 differs"),
        (lag, "nothing on broker 103"),
    ],
)
def test_what_is_wrong_is_seen(spoil: Callable[[World], None], found: str) -> None:
    world = World()
    spoil(world)
    assert found in "\n".join(world.problems())


def test_reordering_alone_is_seen_by_nothing_but_the_order() -> None:
    world = World()
    reorder(world)
    assert problems_of(world) == ["records are out of order in partition 0"]


def problems_of(world: World) -> list[str]:
    """Return what is wrong, without examples."""
    return [problem.split(":")[0].partition(" ")[2] for problem in world.problems()]


def test_the_longest_gap_around_a_fault_counts_whole() -> None:
    sent = Sent(0, 2)
    for number in range(20):
        sent.send(float(number))
        sent.ack(number, number // 2, number + (5.0 if number in {10, 12} else 0.0))
    assert longest_gaps([sent], [0, 1], begin_s=9.0, end_s=13.0) == {0: 6.0, 1: 2.0}


def test_partitions_that_stand_still_have_a_gap_as_long_as_the_span() -> None:
    assert longest_gaps([Sent(0, 1)], [0], begin_s=9.0, end_s=13.0) == {0: 4.0}


def test_records_without_acknowledgement_are_the_slowest() -> None:
    sent = Sent(0, 1)
    sent.ack(sent.send(1.0), 0, 1.5)
    sent.ack(sent.send(2.0), 1, 5.0)
    assert slowest_ack([sent], 0.0, 1.9) == 0.5
    assert slowest_ack([sent], 0.0, 9.0) == 3.0
    sent.send(3.0)
    assert slowest_ack([sent], 0.0, 9.0) == 6.0
