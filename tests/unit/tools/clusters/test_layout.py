"""Which nodes a cluster of processes has, and on which ports."""

import pytest

from quorate.tools.clusters.layout import (
    Layout,
    LayoutError,
    Member,
    Moved,
    Wish,
    command_words,
    decode,
    encode,
    new_layout,
    resized,
    settle_brokers,
    settle_controllers,
)
from quorate.tools.problems import RefusedError, UsageError


def everything(_port: int) -> bool:
    return True


def layout_of(wish: Wish = Wish(3, 3), first: int = 9092) -> Layout:  # noqa: B008 - frozen
    layout = settle_controllers(new_layout(wish), 20_000, everything)
    return settle_brokers(layout, (), first, everything)[0]


def ports(layout: Layout) -> list[int]:
    return [member.port for member in layout.brokers]


@pytest.mark.parametrize(
    ("wish", "brokers", "controllers"),
    [
        (Wish(), 1, 1), (Wish(3), 3, 3), (Wish(2), 2, 1), (Wish(None, 3), 3, 3), (Wish(5, 5), 5, 5),
        (Wish(4, 1), 4, 1),
    ],
)  # fmt: skip
def test_what_is_not_said_follows_from_what_is(wish: Wish, brokers: int, controllers: int) -> None:
    layout = new_layout(wish)
    assert [member.node_id for member in layout.brokers] == list(range(1, brokers + 1))
    assert [m.node_id for m in layout.controllers] == list(range(101, 101 + controllers))


def test_an_even_number_of_controllers_is_refused() -> None:
    with pytest.raises(UsageError, match="4 controllers are no better than 3"):
        new_layout(Wish(3, 4))


def test_racks_are_given_in_turn() -> None:
    brokers = new_layout(Wish(5, racks=("a", "b"))).brokers
    assert [member.rack for member in brokers] == ["a", "b", "a", "b", "a"]


def test_ports_follow_one_another() -> None:
    layout = layout_of()
    assert layout.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert layout.join == "127.0.0.1:20000,127.0.0.1:20001,127.0.0.1:20002"


def test_a_taken_port_is_passed_over_and_nobody_elses_is_used() -> None:
    layout, moved = settle_brokers(layout_of(), (), None, lambda port: port != 9092)
    assert ports(layout) == [9095, 9093, 9094]
    assert moved == [Moved(Member("broker", 1, 9095), 9092)]


def test_a_new_first_port_moves_those_that_do_not_run() -> None:
    layout, moved = settle_brokers(layout_of(), ["broker-2"], 9200, everything)
    assert (ports(layout), moved) == ([9200, 9093, 9202], [])


def test_a_port_of_another_node_counts_as_taken() -> None:
    layout, moved = settle_brokers(layout_of(), ["broker-3"], 9093, everything)
    assert ports(layout) == [9093, 9095, 9094]
    assert [each.wanted for each in moved] == [9094]
    assert ports(settle_brokers(layout_of(), (), 20_001, everything)[0])[0] == 20_004


def test_brokers_keep_their_ports_and_new_ones_get_the_next() -> None:
    bigger = resized(layout_of(), Wish(4))
    layout, moved = settle_brokers(bigger, ["broker-1", "broker-2", "broker-3"], None, everything)
    assert (ports(layout), moved) == ([9092, 9093, 9094, 9095], [])


def test_controllers_keep_their_ports() -> None:
    layout = layout_of()
    assert settle_controllers(layout, 25_000, everything) == layout


def test_no_port_at_all_is_told() -> None:
    with pytest.raises(UsageError, match="no port is free from 9092 on"):
        settle_brokers(new_layout(Wish(1)), (), 9092, lambda _port: False)


@pytest.mark.parametrize("wish", [Wish(2), Wish(None, 1), Wish(3, 5)])
def test_a_cluster_does_not_shrink_and_its_voters_stay(wish: Wish) -> None:
    with pytest.raises(RefusedError):
        resized(layout_of(), wish)
    assert resized(layout_of(), Wish(3, 3)) == layout_of()


def test_brokers_that_have_nothing_left_can_go() -> None:
    layout = layout_of()
    assert resized(layout, Wish(2), {"broker-3"}).members == layout.members[:-1]
    with pytest.raises(RefusedError, match="this cluster has 3 brokers, not 1"):
        resized(layout, Wish(1), {"broker-3"})


def test_nodes_are_started_as_one_would_type_it() -> None:
    layout = layout_of(Wish(1, 3, ("a",)))
    join = "127.0.0.1:20000,127.0.0.1:20001,127.0.0.1:20002"
    assert command_words(layout, layout.controllers[0], "/d") == [
        "controller", "start", "--id", "101", "--listen", "127.0.0.1:20000", "--join", join,
        "--dir", "/d/controller-101",
    ]  # fmt: skip
    assert command_words(layout, layout.brokers[0], "/d") == [
        "broker", "start", "--id", "1", "--port", "9092", "--controllers", join,
        "--local-brokers", "1", "--rack", "a", "--dir", "/d/broker-1",
    ]  # fmt: skip
    alone = layout_of(Wish(1, 1))
    assert "--join" not in command_words(alone, alone.controllers[0], "/d")
    assert "--rack" not in command_words(alone, alone.brokers[0], "/d")


def test_a_layout_is_written_and_read_again() -> None:
    layout = layout_of(Wish(3, 1, ("a", "b")))
    assert decode(encode(layout)) == layout


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", '{"version": 2, "nodes": []}', '{"version": 1}', '{"version": 1, "nodes": []}',
        '{"version": 1, "nodes": [{"role": "broker", "id": "x", "port": 1, "rack": ""}]}',
    ],
)  # fmt: skip
def test_a_damaged_layout_is_told(text: str) -> None:
    with pytest.raises(LayoutError):
        decode(text)
