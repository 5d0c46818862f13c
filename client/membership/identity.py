"""Who a consumer is in its group."""

from __future__ import annotations

from quorate.dataclass import dataclass
from quorate.protocol.consumer_protocol import NO_GENERATION


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Who a consumer is in its group, for offsets that others commit for it (KIP-447).

    Of one that its group has gone on without, it is who it was, and what it commits is refused.

    Attributes:
        group_id: The group.
        generation_id: The generation it is in; -1 if it was no member yet.
        member_id: What the coordinator calls it; empty if it was no member yet.
        group_instance_id: What it calls itself, as a static member.
    """

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None
