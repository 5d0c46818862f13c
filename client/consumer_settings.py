"""What a consumer is set up with, checked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, cast

from quorate.client.arguments import require_texts
from quorate.client.connections import ConnectionOptions, require_at_least
from quorate.client.membership.assignors import assignors_named
from quorate.client.membership.consumer_member import ConsumerMemberSettings
from quorate.client.membership.member import MemberSettings
from quorate.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """How to be in a group; the names are those of the consumer's arguments.

    Attributes:
        member: How to be a member, of the one protocol or the other.
        heartbeat_interval_ms: How often a member of a classic group gives a sign of life.
        enable_auto_commit: Whether to commit by itself.
        auto_commit_interval_ms: How often.
    """

    member: MemberSettings | ConsumerMemberSettings
    heartbeat_interval_ms: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int

    @property
    def group_id(self) -> str:
        """The group."""
        return self.member.group_id


_MakeMember = Callable[[str, "ConsumerOptions"], MemberSettings | ConsumerMemberSettings]


class ConsumerOptions(ConnectionOptions, total=False):
    """Keyword arguments of consumers about groups, beside those that all clients have."""

    group_protocol: Literal["classic", "consumer"]
    """Who assigns the partitions: the members among themselves (``classic``), or the coordinator,
    which moves only what has to move (``consumer``, KIP-848). A group may have members of both
    while it is upgraded. (``classic``)"""

    group_remote_assignor: str | None
    """With ``consumer``: the assignor that the coordinator should use, ``uniform`` or ``range``; by
    default it chooses."""

    group_instance_id: str | None
    """A name for a static member (KIP-345): it keeps its partitions over a restart that takes less
    than ``session_timeout_ms``, because it does not leave."""

    enable_auto_commit: bool
    """Whether to commit by itself what was processed (True)."""

    auto_commit_interval_ms: int
    """How often it does, beside rebalances and the end (5,000)."""

    partition_assignment_strategy: str | Sequence[str]
    """The assignors that it can work with, the one it likes best first: ``range``, ``roundrobin``,
    ``sticky``, ``cooperative-sticky``. All members need one in common. With ``cooperative-sticky``
    alone, partitions that stay are read on while the group rebalances. (``range``, then
    ``cooperative-sticky``)"""

    session_timeout_ms: int
    """How long the group waits for a sign of life (45,000)."""

    heartbeat_interval_ms: int
    """How often it gives one (3,000)."""

    max_poll_interval_ms: int
    """How long the user may take between two polls, or between two records of an iteration; then it
    leaves, and joins again with the next one (300,000)."""

    client_rack: str
    """Where it runs; partitions with a replica there are assigned to it if the group can choose
    (KIP-881)."""


_GROUP_OPTIONS: Final = (
    ConsumerOptions.__annotations__.keys() - ConnectionOptions.__annotations__.keys()
)
MAX_POLL_INTERVAL_MS: Final = 300_000
_DEFAULT_STRATEGY: Final = ("range", "cooperative-sticky")


def connection_options(options: ConsumerOptions) -> ConnectionOptions:
    """Return those that all clients have."""
    kept = {name: value for name, value in options.items() if name not in _GROUP_OPTIONS}
    return cast("ConnectionOptions", kept)


def group_settings(group_id: str | None, options: ConsumerOptions) -> GroupSettings | None:
    """Return how to be in a group; None without one.

    Raises:
        ValueError: A setting makes no sense.
    """
    auto_commit_interval_ms = options.get("auto_commit_interval_ms", 5_000)
    heartbeat_interval_ms = options.get("heartbeat_interval_ms", 3_000)
    require_at_least("auto_commit_interval_ms", auto_commit_interval_ms, 1)
    require_at_least("max_poll_interval_ms", options.get("max_poll_interval_ms", 1), 1)
    require_texts(
        group_id=group_id,
        group_instance_id=options.get("group_instance_id"),
        group_remote_assignor=options.get("group_remote_assignor"),
        client_rack=options.get("client_rack"),
    )
    protocol = options.get("group_protocol", "classic")
    if protocol not in _MEMBERS:
        raise ValueError(f"there is no group_protocol {protocol!r}: classic or consumer")
    member = _MEMBERS[protocol](group_id or "", options)
    if group_id is None:
        if member.group_instance_id is not None:
            raise ValueError("group_instance_id is the name of a member: it needs a group_id")
        return None
    return GroupSettings(
        member=member,
        heartbeat_interval_ms=heartbeat_interval_ms,
        enable_auto_commit=options.get("enable_auto_commit", True),
        auto_commit_interval_ms=auto_commit_interval_ms,
    )


def _classic_member(group_id: str, options: ConsumerOptions) -> MemberSettings:
    if options.get("group_remote_assignor") is not None:
        raise ValueError("group_remote_assignor needs group_protocol='consumer'")
    session_timeout_ms = options.get("session_timeout_ms", 45_000)
    heartbeat_interval_ms = options.get("heartbeat_interval_ms", 3_000)
    require_at_least("session_timeout_ms", session_timeout_ms, 1)
    require_at_least("heartbeat_interval_ms", heartbeat_interval_ms, 1)
    if heartbeat_interval_ms >= session_timeout_ms:
        raise ValueError(
            f"heartbeat_interval_ms is {heartbeat_interval_ms}, but must be below"
            f" session_timeout_ms, which is {session_timeout_ms}; a third of it is usual"
        )
    strategy = options.get("partition_assignment_strategy", _DEFAULT_STRATEGY)
    return MemberSettings(
        group_id=group_id,
        group_instance_id=options.get("group_instance_id"),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=options.get("max_poll_interval_ms", MAX_POLL_INTERVAL_MS),
        assignors=assignors_named((strategy,) if isinstance(strategy, str) else tuple(strategy)),
        rack_id=options.get("client_rack") or None,
    )


def _consumer_member(group_id: str, options: ConsumerOptions) -> ConsumerMemberSettings:
    for name in _CLASSIC_ONLY:
        if name in options:
            raise ValueError(f"{name} does not go with group_protocol='consumer': {_WHO_DECIDES}")
    return ConsumerMemberSettings(
        group_id=group_id,
        group_instance_id=options.get("group_instance_id"),
        rebalance_timeout_ms=options.get("max_poll_interval_ms", MAX_POLL_INTERVAL_MS),
        remote_assignor=options.get("group_remote_assignor"),
        rack_id=options.get("client_rack") or None,
    )


_MEMBERS: Final[Mapping[str, _MakeMember]] = {
    "classic": _classic_member,
    "consumer": _consumer_member,
}
_CLASSIC_ONLY: Final = (
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "partition_assignment_strategy",
)
_WHO_DECIDES: Final = (
    "the group's coordinator has settings for that (group.consumer.session.timeout.ms,"
    " group.consumer.heartbeat.interval.ms), and group_remote_assignor names an assignor"
)
