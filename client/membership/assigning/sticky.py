"""The sticky assignors: everybody keeps as much as an even assignment allows.

``sticky`` is for members that give everything up before they join; they tell what they had in user
data. ``cooperative-sticky`` is for those that keep what they have until they are told not to
(KIP-429): what moves is given to nobody at first, and to its new owner in a second round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.client.membership.assigning.alike import AlikeMembers
from quorate.client.membership.assigning.claims import Claim, all_want_the_same, settle
from quorate.client.membership.assigning.different import DifferentMembers
from quorate.client.membership.assigning.java_order import in_table_order
from quorate.client.membership.assigning.near import Nearness
from quorate.client.membership.assigning.user_data import (
    decode_generation,
    decode_previous_assignment,
)

if TYPE_CHECKING:
    from quorate.client.membership.assigning.model import Assignment, Candidate, Topics
    from quorate.model import TopicPartition


def assign_sticky(topics: Topics, candidates: list[Candidate]) -> Assignment:
    """Return who reads what, among members that have given everything up."""
    claims = [
        Claim(each, *decode_previous_assignment(each.subscription.user_data)) for each in candidates
    ]
    return _assign(topics, claims)[0]


def assign_cooperative(topics: Topics, candidates: list[Candidate]) -> Assignment:
    """Return who reads what now: nothing of what another member still has to give up."""
    claims = [Claim(each, each.subscription.owned, _generation_of(each)) for each in candidates]
    assignment, moving = _assign(topics, claims)
    for partition, member_id in moving.items():
        assignment[member_id].remove(partition)
    return assignment


def _generation_of(candidate: Candidate) -> int:
    told = candidate.subscription.generation_id
    return told if told >= 0 else decode_generation(candidate.subscription.user_data)


def _assign(topics: Topics, claims: list[Claim]) -> tuple[Assignment, dict[TopicPartition, str]]:
    """Return who is to read what, and which of it moves from one member to which other."""
    order = in_table_order(claim.member_id for claim in claims)
    claims = sorted(claims, key=lambda claim: order.index(claim.member_id))
    candidates = [claim.candidate for claim in claims]
    owned = settle(topics, claims)
    nearness = Nearness(topics, candidates)
    if all_want_the_same(candidates):
        alike = AlikeMembers(topics, nearness, owned)
        return alike.assign(), alike.moving
    assignment = DifferentMembers(topics, candidates, nearness, owned, _had_before(claims)).assign()
    had_by: dict[TopicPartition, set[str]] = {}
    for claim in claims:
        for partition in claim.candidate.subscription.owned:
            had_by.setdefault(partition, set()).add(claim.member_id)
    moving = {
        partition: member_id
        for member_id, partitions in assignment.items()
        for partition in partitions
        if member_id not in had_by.get(partition, {member_id})
    }
    return assignment, moving


def _had_before(claims: list[Claim]) -> dict[TopicPartition, str]:
    """Return what members had in generations that are over, by partition the latest."""
    latest = max(claim.generation_id for claim in claims)
    before: dict[TopicPartition, str] = {}
    for claim in sorted(claims, key=lambda claim: -claim.generation_id):
        for partition in claim.partitions if claim.generation_id < latest else ():
            if partition.topic in claim.candidate.subscription.topics:
                before.setdefault(partition, claim.member_id)
    return before
