"""The assignors by name, and what each tells the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quorate.client.membership.assigning.ranges import assign_ranges
from quorate.client.membership.assigning.round_robin import assign_in_turns
from quorate.client.membership.assigning.sticky import assign_cooperative, assign_sticky
from quorate.client.membership.assigning.user_data import (
    PreviousAssignment,
    encode_generation,
    encode_previous_assignment,
)
from quorate.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from quorate.client.membership.assigning.model import Assignment, Candidate, Topics


def _no_user_data(_previous: PreviousAssignment) -> bytes | None:
    return None


def _previous_assignment(previous: PreviousAssignment) -> bytes | None:
    """Return what was assigned last; nothing to a member that was in no generation yet."""
    return encode_previous_assignment(previous) if previous.generation_id >= 0 else None


def _generation(previous: PreviousAssignment) -> bytes | None:
    return encode_generation(previous.generation_id)


@dataclass(frozen=True, slots=True)
class Assignor:
    """A way of sharing out partitions.

    Attributes:
        name: What members call it when they join.
        assign: Shares out.
        user_data: Returns what a member tells the assignor of the leader, from what it was assigned
            last.
        is_cooperative: Whether members may keep what they have while they join (KIP-429).
    """

    name: str
    assign: Callable[[Topics, list[Candidate]], Assignment]
    user_data: Callable[[PreviousAssignment], bytes | None]
    is_cooperative: bool = False


ASSIGNORS: Final = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", assign_ranges, _no_user_data),
        Assignor("roundrobin", assign_in_turns, _no_user_data),
        Assignor("sticky", assign_sticky, _previous_assignment),
        Assignor("cooperative-sticky", assign_cooperative, _generation, is_cooperative=True),
    )
}


def assignors_named(names: tuple[str, ...]) -> tuple[Assignor, ...]:
    """Return the assignors of these names, in their order.

    Raises:
        ValueError: There is none of that name, or none is named.
    """
    if not names:
        raise ValueError("partition_assignment_strategy names no assignor; try 'range'")
    for name in names:
        if name not in ASSIGNORS:
            known = ", ".join(ASSIGNORS)
            raise ValueError(f"there is no assignor {name!r}; there are {known}")
    return tuple(ASSIGNORS[name] for name in names)


def is_cooperative(assignors: tuple[Assignor, ...]) -> bool:
    """Whether members keep what they have while they join: if all their assignors can do that.

    One that cannot might be chosen, and would give to others what somebody still reads.
    """
    return all(assignor.is_cooperative for assignor in assignors)
