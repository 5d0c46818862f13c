"""Who of a consumer group is silent, or late, for too long."""

from collections.abc import Callable
from typing import Final, TypeAlias

from quorate.broker.groups.consumer_members import Member, Standing
from quorate.broker.groups.sessions import Sessions
from quorate.broker.replication.deadlines import Deadlines

OnOverdue: TypeAlias = Callable[[str, list[str]], bool]
"""Is told what members did not do in time, and their ids; returns whether they are out now."""

RETRY_MS: Final = 1_000
"""When it is tried again to take members out whose end could not be written."""

SILENT: Final = "did not send a heartbeat in time"


class Watch:
    """The sessions and timeouts of one group's members; soft state, begun anew at loading.

    Members of the new protocol have a rebalance timeout to give partitions up; those of the classic
    one to join again when they are told to, and to sync then.
    """

    def __init__(self, deadlines: Deadlines, on_overdue: OnOverdue) -> None:
        def sessions(what: str) -> Sessions:
            def overdue(member_ids: list[str]) -> None:
                if not on_overdue(what, member_ids):
                    for member_id in member_ids:
                        made.heard(member_id, RETRY_MS)

            made = Sessions(deadlines, overdue)
            return made

        self._sessions = sessions(SILENT)
        self._revoking = sessions("did not give up partitions in time")
        self._joining = sessions("did not join again in time")
        self._syncing = sessions("did not sync in time")

    def heard(self, member_id: str, timeout_ms: int) -> None:
        """Begin a session, or prolong it."""
        self._sessions.heard(member_id, timeout_ms)

    def moved(self, before: Standing | None, member: Member) -> None:
        """Note how a member that speaks the new protocol stands now."""
        if not member.standing.revoking:
            self._revoking.forget(member.member_id)
        elif before != member.standing:
            self._revoking.heard(member.member_id, member.profile.rebalance_timeout_ms)

    def must_join(self, member: Member) -> None:
        """Give a classic member time to join again, from when it was first told to."""
        if member.member_id not in self._joining:
            self._joining.heard(member.member_id, member.profile.rebalance_timeout_ms)

    def joined(self, member: Member) -> None:
        """Give a classic member that has joined time to sync."""
        self._joining.forget(member.member_id)
        self._revoking.forget(member.member_id)
        self._syncing.heard(member.member_id, member.profile.rebalance_timeout_ms)

    def synced(self, member_id: str) -> None:
        """Wait for its heartbeats only."""
        self._syncing.forget(member_id)

    def forget(self, member_id: str) -> None:
        """Do not wait for somebody any more."""
        for sessions in self._all():
            sessions.forget(member_id)

    def stop(self) -> None:
        """Do not wait for anybody any more."""
        for sessions in self._all():
            sessions.stop()

    def _all(self) -> tuple[Sessions, ...]:
        return self._sessions, self._revoking, self._joining, self._syncing
