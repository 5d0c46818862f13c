"""How a member of a consumer group comes from what it reads to what it is to read.

A partition is given to a member only once nobody else has it: neither to read, nor to give up.
Members give up what they have too much by saying in a heartbeat what they own. Kafka's class is
``CurrentAssignmentBuilder``.
"""

from collections.abc import Callable

from quorate.broker.groups.assigning.values import Partitions, TopicIdPartition
from quorate.broker.groups.consumer_members import NO_HOLDING, Holding, MemberState, Standing
from quorate.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a member is to get.

    Attributes:
        epoch: of the assignment.
        target: what it is to read by the assignment, which may be older than its subscription.
        subscribed: the ids of the topics that it subscribes to, as far as they exist.
        subscription_changed: whether it must give up at once what it does not subscribe to any
            more, though there is no newer assignment yet.
    """

    epoch: int
    target: Partitions
    subscribed: frozenset[bytes]
    subscription_changed: bool


def reconcile(
    standing: Standing,
    goal: Goal,
    owned: Partitions | None,
    has_owner: Callable[[TopicIdPartition], bool],
) -> Standing:
    """Return how the member stands next, which is as it stands if it cannot move on yet.

    Args:
        standing: how it stands.
        goal: where it is to get.
        owned: what it says that it reads; None if it did not say anything.
        has_owner: whether anybody, this member included, reads a partition or is to give it up.
    """
    settled = standing.is_settled_at(goal.epoch)
    if settled or _owns_any(owned, standing.revoking):
        return (
            _without_unsubscribed(standing, goal, owned) if goal.subscription_changed else standing
        )
    return _towards(standing, goal, owned, has_owner)


def _owns_any(owned: Partitions | None, revoking: Holding) -> bool:
    """Whether a member has not given up yet what it is to give up, as far as we were told."""
    if not revoking:
        return False
    return owned is None or not owned.isdisjoint(revoking)


def _without_unsubscribed(standing: Standing, goal: Goal, owned: Partitions | None) -> Standing:
    gone = {p: e for p, e in standing.assigned.items() if p.topic_id not in goal.subscribed}
    if not gone:
        return standing
    assigned = {p: e for p, e in standing.assigned.items() if p not in gone}
    revoking = {**standing.revoking, **gone}
    if _owns_any(owned, revoking):
        state = MemberState.UNREVOKED_PARTITIONS
        return standing.at(standing.epoch, state, assigned, revoking)
    return standing.at(standing.epoch, standing.state, assigned, NO_HOLDING)


def _towards(
    standing: Standing,
    goal: Goal,
    owned: Partitions | None,
    has_owner: Callable[[TopicIdPartition], bool],
) -> Standing:
    target = {p for p in goal.target if p.topic_id in goal.subscribed}
    kept = {p: e for p, e in standing.assigned.items() if p in target}
    surplus = {p: e for p, e in standing.assigned.items() if p not in target}
    if _owns_any(owned, surplus):
        return standing.at(standing.epoch, MemberState.UNREVOKED_PARTITIONS, kept, surplus)
    # What the member itself was to give up, and has, is free.
    missing = [p for p in target if p not in kept]
    free = [p for p in missing if p in standing.revoking or not has_owner(p)]
    state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED_PARTITIONS
    assigned = {**kept, **dict.fromkeys(free, goal.epoch)}
    return standing.at(goal.epoch, state, assigned, NO_HOLDING)
