"""Circles of transactions: one of each component, the shortest."""

from random import Random

import pytest

from quorate.jepsen.checkers.cycles import Graph, components, shortest_cycles

CASES: list[tuple[Graph, list[list[int]]]] = [
    ({}, []),
    ({1: {2}, 2: {3}, 3: set()}, []),
    ({1: {1}}, [[1]]),
    ({1: {2}, 2: {1}}, [[1, 2]]),
    ({3: {1}, 1: {2}, 2: {3}}, [[1, 2, 3]]),
    ({1: {2}, 2: {3}, 3: {1, 4}, 4: {3}}, [[3, 4]]),
    ({1: {2}, 2: {1}, 3: {1, 4}, 4: {3}}, [[1, 2], [3, 4]]),
]


@pytest.mark.parametrize(("graph", "cycles"), CASES)
def test_the_shortest_circle_of_each_component(graph: Graph, cycles: list[list[int]]) -> None:
    assert sorted(shortest_cycles(graph)) == cycles


def test_who_is_in_a_component_reaches_all_of_it_and_is_reached() -> None:
    for seed in range(50):
        rng = Random(seed)
        graph = {n: {m for m in range(8) if rng.random() < 0.2} for n in range(8)}
        reached = {n: _reached(graph, n) for n in graph}
        for component in components(graph):
            same = {n for n in graph for m in component if n in reached[m] and m in reached[n]}
            assert component == (same or component)


def _reached(graph: Graph, start: int) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found
