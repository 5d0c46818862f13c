"""The round robin assignor: members take turns. Source: Kafka's ``RoundRobinAssignor``."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from quorate.client.membership.assigning.model import in_order_of_identity, partitions_of

if TYPE_CHECKING:
    from quorate.client.membership.assigning.model import Assignment, Candidate, Topics


def assign_in_turns(topics: Topics, candidates: list[Candidate]) -> Assignment:
    """Return who reads what: partition after partition to the next member that wants its topic."""
    assignment: Assignment = {each.member_id: [] for each in candidates}
    turns = cycle(in_order_of_identity(candidates))
    for topic in sorted(topics):
        for partition in partitions_of(topics, topic):
            turn = next(each for each in turns if topic in each.subscription.topics)
            assignment[turn.member_id].append(partition)
    return assignment
