"""A cluster as it is shown: rows, lines, what changed, what is wrong."""

import io
from dataclasses import replace

import trio
from rich.console import Console
from trio.testing import MockClock

from quorate.client.admin_results import BrokerDescription, PartitionDescription, TopicDescription
from quorate.model import Endpoint
from quorate.tools.cluster_looking import whole_picture
from quorate.tools.clusters.health import Health, health_lines, health_of, loads_of
from quorate.tools.clusters.layout import Layout, Member
from quorate.tools.clusters.picture import (
    DEAD,
    PAUSED,
    RUNNING,
    STARTING,
    STOPPED,
    Look,
    NodeState,
    Picture,
    changes,
    deaths,
    problems,
    rows,
    state_of,
    status_lines,
    status_table,
    summary,
)
from quorate.tools.clusters.screen import screen

VOTER, OTHER = Member("controller", 101, 20_000), Member("controller", 102, 20_001)
ONE, TWO = Member("broker", 1, 9092), Member("broker", 2, 9093)
LAYOUT = Layout((VOTER, OTHER, ONE, TWO))


def partition(number: int, leader: int, isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(number, leader, 0, (1, 2), isr, ())


def topic(*partitions: PartitionDescription) -> TopicDescription:
    return TopicDescription("t", bytes(16), False, partitions)


WELL = topic(partition(0, 1, (1, 2)), partition(1, 2, (2, 1)))
ILL = topic(partition(0, 1, (1,)), partition(1, -1, ()))


def broker(
    broker_id: int, *, fenced: bool = False, shutting_down: bool = False
) -> BrokerDescription:
    return BrokerDescription(broker_id, Endpoint("h", 1), None, fenced, shutting_down)


def look(described: TopicDescription = WELL) -> Look:
    return Look(
        cluster_id="cluster",
        leader_id=101,
        voters=frozenset({101, 102}),
        brokers={1: broker(1), 2: broker(2)},
        loads=loads_of([described]),
        health=health_of([described], {"t": 2}),
    )


def picture(seen: Look, *processes: str) -> Picture:
    states = [
        NodeState(member, process, 7, 50_000_000, 65_000, "killed by SIGKILL", ("its last word",))
        for member, process in zip(LAYOUT.members, processes or (RUNNING,) * 4, strict=True)
    ]
    return Picture("dir", LAYOUT, tuple(states), seen)


GOOD = picture(look())


def test_partitions_are_counted_by_what_is_wrong_with_them() -> None:
    assert health_of([WELL], {}) == Health(1, 2, 0, 0, 0, 0)
    assert health_of([ILL], {"t": 2}) == Health(1, 2, 1, 2, 2, 0)
    assert health_of([ILL], {}) == Health(1, 2, 1, 2, 1, 1)
    assert health_lines(health_of([WELL], {})) == (
        "2 partitions in 1 topic: all led, all replicas in sync"
    )
    assert health_lines(health_of([ILL], {})) == (
        "2 partitions in 1 topic: 1 offline, 2 under-replicated, 1 under min ISR, 1 at min ISR"
    )
    assert health_lines(Health()) == "no topics yet"


def test_brokers_are_counted_what_they_lead_have_and_lack() -> None:
    loads = loads_of([ILL])
    assert [(b.leaders, b.replicas, b.out_of_sync) for b in (loads[1], loads[2])] == [
        (1, 2, 1), (0, 2, 2),
    ]  # fmt: skip


def test_a_row_tells_a_nodes_process_and_its_part() -> None:
    assert rows(GOOD)[0] == (
        "controller 101", "127.0.0.1:20000", "7", "leader", "-", "-", "-", "50.0 MB", "1m05s",
    )  # fmt: skip
    assert rows(GOOD)[3][3:7] == ("in service", "1", "2", "0")
    assert GOOD.is_good
    assert problems(GOOD) == []


def test_a_node_is_what_its_process_is_or_what_the_cluster_says_of_it() -> None:
    states = (PAUSED, RUNNING, STARTING, DEAD)
    seen = picture(look(), *states)
    assert [state_of(seen, node) for node in seen.nodes] == [PAUSED, "follower", STARTING, DEAD]
    fenced = replace(look(), brokers={1: broker(1, fenced=True), 2: broker(2, shutting_down=True)})
    assert [state_of(GOOD, n) for n in picture(fenced).nodes[2:]] == ["in service"] * 2
    assert [row[3] for row in rows(picture(fenced))[2:]] == ["fenced", "shutting down"]
    unknown = picture(Look())
    assert [row[3] for row in rows(unknown)] == [RUNNING] * 4
    assert [row[4] for row in rows(unknown)] == ["-"] * 4
    late = replace(look(), brokers={1: broker(1)})
    assert rows(picture(late))[3][3] == STARTING


def test_what_is_wrong_is_named() -> None:
    seen = picture(replace(look(ILL), leader_id=None), DEAD, RUNNING, RUNNING, RUNNING)
    assert not seen.is_good
    assert problems(seen) == [
        "controller 101 is dead",
        "no controller leads",
        "2 partitions in 1 topic: 1 offline, 2 under-replicated, 2 under min ISR",
    ]
    assert problems(picture(Look(), *[STOPPED] * 4)) == ["none of its nodes runs"]
    assert "no broker answers" in problems(picture(Look()))
    assert deaths(seen) == ["controller 101 is dead: killed by SIGKILL", "    its last word"]


def test_a_controller_whose_disk_is_full_is_named_and_not_counted_on() -> None:
    third = Member("controller", 103, 20_002)
    layout = Layout((VOTER, OTHER, third, ONE, TWO))
    nodes = tuple(NodeState(member, RUNNING) for member in layout.members)
    well = Picture("dir", layout, nodes, replace(look(), voters=frozenset({101, 102, 103})))
    full = replace(well, look=replace(well.look, full=frozenset({102})))
    assert dict(summary(well))["controllers"] == "101 leads; 1 more may fail"
    assert dict(summary(full))["controllers"] == "101 leads; 0 more may fail; disk full: 102"
    assert [state_of(full, node) for node in nodes[:3]] == ["leader", "disk full", "follower"]
    assert not full.is_good
    assert problems(full) == ["the disk of controller 102 is full"]
    assert changes(well, full) == ["the disk of controller 102 is full"]
    assert changes(full, well) == ["controller 102 is follower"]
    unled = replace(full, look=replace(full.look, leader_id=None, full=frozenset({102, 103})))
    assert dict(summary(unled))["controllers"] == (
        "nobody leads; 2 of 3 have to run; disk full: 102, 103"
    )


def test_the_summary_tells_where_the_cluster_is() -> None:
    assert dict(summary(GOOD)) == {
        "cluster": "cluster, data in dir",
        "brokers": "127.0.0.1:9092,127.0.0.1:9093",
        "controllers": "101 leads; 0 more may fail",
        "partitions": "2 partitions in 1 topic: all led, all replicas in sync",
    }
    silent = dict(summary(picture(Look())))
    assert silent["controllers"] == "none answers; 2 of 2 have to run"
    split = replace(look(), leader_id=None)
    assert dict(summary(picture(split)))["controllers"] == "nobody leads; 2 of 2 have to run"
    assert silent["partitions"] == "no broker answers"
    assert silent["cluster"] == "not known yet, data in dir"


def test_a_picture_is_whole_when_all_were_heard_that_can_be() -> None:
    assert GOOD.is_whole
    assert not picture(replace(look(), leader_id=None)).is_whole
    assert not picture(replace(look(), health=None)).is_whole
    assert picture(Look(), RUNNING, RUNNING, RUNNING, DEAD).is_whole


async def test_whoever_has_just_begun_to_serve_is_waited_for_but_not_for_ever(
    autojump_clock: MockClock,
) -> None:
    coming = [picture(Look()), picture(replace(look(), leader_id=None)), GOOD]

    async def look_again() -> Picture:
        await trio.sleep(0.1)
        return coming.pop(0) if len(coming) > 1 else coming[0]

    assert await whole_picture(look_again) is GOOD
    coming = [picture(Look())]
    assert await whole_picture(look_again) is coming[0]
    assert 5 < trio.current_time() < 6


def test_lines_end_with_the_dead() -> None:
    lines = status_lines(picture(look(), RUNNING, RUNNING, RUNNING, DEAD))
    assert lines[5].split() == [
        "NODE", "ADDRESS", "PID", "STATE", "LEADS", "REPLICAS", "BEHIND", "MEMORY", "UP",
    ]  # fmt: skip
    assert lines[-2] == "broker 2 is dead: killed by SIGKILL"
    assert status_lines(GOOD)[-1].startswith("broker 2")


def test_only_news_is_told() -> None:
    assert changes(None, GOOD) == []
    assert changes(GOOD, GOOD) == []
    worse = picture(replace(look(ILL), leader_id=None), RUNNING, RUNNING, RUNNING, DEAD)
    assert changes(GOOD, worse) == [
        "broker 2 is dead: killed by SIGKILL; the others go on",
        "    its last word",
        "no controller leads",
        "partitions: 2 partitions in 1 topic: 1 offline, 2 under-replicated, 2 under min ISR",
    ]
    assert changes(worse, GOOD) == [
        "broker 2 is in service",
        "controller 101 leads",
        "partitions: 2 partitions in 1 topic: all led, all replicas in sync",
    ]
    more = topic(*WELL.partitions, partition(2, 1, (1, 2)))
    assert changes(GOOD, picture(look(more))) == []


def test_a_node_that_is_new_is_no_change() -> None:
    fewer = Picture("dir", LAYOUT, GOOD.nodes[:3], look())
    assert changes(fewer, GOOD) == []


def test_programs_get_all_of_it() -> None:
    (item,) = status_table(GOOD).items()
    assert (item["good"], item["leader_id"]) == (True, 101)
    assert item["partitions"]["under_replicated"] == 0
    assert [node["leads"] for node in item["nodes"]] == [None, None, 1, 1]
    (item,) = status_table(picture(Look())).items()
    assert (item["partitions"], item["cluster_id"]) == (None, None)


def test_the_screen_shows_the_same() -> None:
    for seen in (GOOD, picture(look(ILL), RUNNING, PAUSED, STARTING, DEAD), picture(Look())):
        out = io.StringIO()
        Console(file=out, width=120).print(screen(seen))
        for cells in rows(seen):
            assert cells[0] in out.getvalue()
            assert cells[3] in out.getvalue()
