"""Cycles in a directed graph: one for each strongly connected component, the shortest."""

from collections import deque
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

Graph = Mapping[int, AbstractSet[int]]


def shortest_cycles(graph: Graph) -> Iterator[list[int]]:
    """Yield a shortest cycle of each component that has one, beginning at its lowest number.

    Args:
        graph: By number, where its edges lead to; each of those is a number of the graph.
    """
    for component in components(graph):
        found = [cycle for each in component if (cycle := _cycle_from(each, graph, component))]
        if found:
            cycle = min(found, key=lambda c: (len(c), c))
            at = cycle.index(min(cycle))
            yield cycle[at:] + cycle[:at]


def components(graph: Graph) -> list[set[int]]:
    """Return the strongly connected components (Tarjan, 1972), without recursion."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found: list[set[int]] = []
    for root in graph:
        if root in order:
            continue
        work = [(root, iter(sorted(graph[root])))]
        order[root] = low[root] = len(order)
        path.append(root)
        on_path.add(root)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    found.append(_taken(path, on_path, node))
            elif following not in order:
                order[following] = low[following] = len(order)
                path.append(following)
                on_path.add(following)
                work.append((following, iter(sorted(graph[following]))))
            elif following in on_path:
                low[node] = min(low[node], order[following])
    return found


def _taken(path: list[int], on_path: set[int], root: int) -> set[int]:
    """Take a component off the path."""
    component: set[int] = set()
    while root not in component:
        node = path.pop()
        on_path.discard(node)
        component.add(node)
    return component


def _cycle_from(start: int, graph: Graph, component: AbstractSet[int]) -> list[int]:
    """Return a shortest way from a number back to itself within a component; empty if none is."""
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for following in sorted(graph[node] & component):
            if following == start:
                return _way(came_from, start, node)
            if following not in came_from:
                came_from[following] = node
                waiting.append(following)
    return []


def _way(came_from: Mapping[int, int], start: int, end: int) -> list[int]:
    way = [end]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]
