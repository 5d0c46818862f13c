"""The simulated network and time do to messages what they say, and nothing else."""

from dataclasses import replace
from random import Random

from quorate.quorum.raft.voters import ReplicaKey
from tests.simulation.quorum.network import FINE, Frame, Link, Network
from tests.simulation.timeline import Timeline
from tests.simulation.trace import Trace

A, B = ReplicaKey(1, bytes(16)), ReplicaKey(2, bytes(16))


class Lab:
    """A network between two hosts, and what arrives at the second."""

    def __init__(self, *, fifo: bool) -> None:
        self.timeline = Timeline()
        self.trace = Trace(self.timeline, None)
        self.arrived = list[int]()
        self.network = Network(self.timeline, Random(1), self.trace, self.arrive, fifo=fifo)

    def arrive(self, frame: Frame) -> None:
        self.arrived.append(frame.data[0])

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.network.send(Frame(A, B, bytes([number])))

    def wait(self, duration_s: float) -> None:
        self.timeline.run_until(self.timeline.now_s + duration_s, lambda: False)


def test_like_tcp_messages_keep_their_order_whatever_the_delays() -> None:
    lab = Lab(fifo=True)
    lab.network.weather = replace(FINE, spikes=0.5)
    lab.send(*range(100))
    lab.wait(10.0)
    assert lab.arrived == list(range(100))


def test_meaner_than_tcp_messages_overtake_each_other_and_arrive_twice() -> None:
    lab = Lab(fifo=False)
    lab.network.weather = replace(FINE, duplicates=0.5)
    lab.send(*range(100))
    lab.wait(10.0)
    assert set(lab.arrived) == set(range(100))
    assert len(lab.arrived) > 120
    assert lab.arrived != sorted(lab.arrived)


def test_some_are_lost() -> None:
    lab = Lab(fifo=False)
    lab.network.weather = replace(FINE, loss=0.5)
    lab.send(*range(100))
    lab.wait(10.0)
    assert 20 < len(lab.arrived) < 80


def test_a_cut_of_a_connection_loses_what_is_under_way_and_one_way_is_one_way() -> None:
    lab = Lab(fifo=True)
    lab.send(1)
    lab.network.cut([Link(1, 2)])
    lab.send(2)
    lab.network.heal()
    lab.send(3)
    lab.wait(1.0)
    assert lab.arrived == [3]
    lab.network.cut([Link(2, 1)])
    lab.send(4)
    lab.wait(1.0)
    assert lab.arrived == [3, 4]


def test_a_slow_way_is_slow_until_it_heals() -> None:
    lab = Lab(fifo=False)
    lab.network.slow(Link(1, 2), 2.0)
    lab.send(1)
    lab.wait(1.0)
    assert lab.arrived == []
    lab.network.heal()
    lab.send(2)
    lab.wait(1.5)
    assert lab.arrived == [2, 1]


def test_what_is_planned_for_the_same_moment_happens_in_the_order_of_planning() -> None:
    timeline, happened = Timeline(), list[str]()
    timeline.at(2.0, lambda: happened.append("late"))
    timeline.at(1.0, lambda: happened.append("first"))
    timeline.at(1.0, lambda: happened.append("second"))
    timeline.run_until(1.5, lambda: False)
    assert (happened, timeline.now_s) == (["first", "second"], 1.5)


def test_the_hash_of_a_trace_depends_on_what_arrives_and_when() -> None:
    digests = set[str]()
    for numbers, wait_s in (((1,), 0.0), ((2,), 0.0), ((1,), 0.5), ((1, 1), 0.0)):
        lab = Lab(fifo=True)
        lab.wait(wait_s)
        lab.send(*numbers)
        lab.wait(1.0)
        digests.add(lab.trace.digest)
    assert len(digests) == 4
