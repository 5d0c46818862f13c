"""What a consumer is set up with, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quorate.client.connections import require_at_least
from quorate.client.membership.assignors import assignors_named
from quorate.client.membership.member import MemberSettings

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """How to be in a group; the names are those of the consumer's arguments."""

    member: MemberSettings
    heartbeat_interval_ms: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int

    @property
    def group_id(self) -> str:
        """The group."""
        return self.member.group_id


def group_settings(  # noqa: PLR0913 - the consumer's arguments, by name
    group_id: str | None,
    *,
    group_instance_id: str | None,
    enable_auto_commit: bool,
    auto_commit_interval_ms: int,
    partition_assignment_strategy: str | Sequence[str],
    session_timeout_ms: int,
    heartbeat_interval_ms: int,
    max_poll_interval_ms: int,
    client_rack: str,
) -> GroupSettings | None:
    """Return how to be in a group; None without one.

    Raises:
        ValueError: A setting makes no sense.
    """
    for name, value in (
        ("auto_commit_interval_ms", auto_commit_interval_ms),
        ("session_timeout_ms", session_timeout_ms),
        ("heartbeat_interval_ms", heartbeat_interval_ms),
        ("max_poll_interval_ms", max_poll_interval_ms),
    ):
        require_at_least(name, value, 1)
    if heartbeat_interval_ms >= session_timeout_ms:
        raise ValueError(
            f"heartbeat_interval_ms is {heartbeat_interval_ms}, but must be below"
            f" session_timeout_ms, which is {session_timeout_ms}; a third of it is usual"
        )
    strategy = partition_assignment_strategy
    names = (strategy,) if isinstance(strategy, str) else tuple(strategy)
    assignors = assignors_named(names)
    if group_id is None:
        if group_instance_id is not None:
            raise ValueError("group_instance_id is the name of a member: it needs a group_id")
        return None
    return GroupSettings(
        member=MemberSettings(
            group_id=group_id,
            group_instance_id=group_instance_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=max_poll_interval_ms,
            assignors=assignors,
            rack_id=client_rack or None,
        ),
        heartbeat_interval_ms=heartbeat_interval_ms,
        enable_auto_commit=enable_auto_commit,
        auto_commit_interval_ms=auto_commit_interval_ms,
    )
