"""Changes of the quorum, worked out before anything is done: what would be, or why not.

The controllers decide for themselves whether a change is safe; what is refused here is what a
person can be told more about.
"""

from collections.abc import Sequence

from quorate.dataclass import dataclass
from quorate.tools.output import Column, Table
from quorate.tools.problems import CommandError, RefusedError, UsageError
from quorate.tools.quorum.view import QuorumView, Replica, parse_directory


@dataclass(frozen=True, slots=True)
class Plan:
    """One change of who votes, and what it means."""

    action: str
    replica: Replica
    voters_before: tuple[int, ...]
    voters_after: tuple[int, ...]

    def table(self) -> Table:
        """Return the change as a table of one row."""
        columns = (
            Column("action"), Column("node_id"), Column("directory_id", wide_only=True),
            Column("endpoint"),
            Column("voters_before"), Column("voters_after"),
            Column("majority_after", wide_only=True), Column("may_fail_after"),
        )  # fmt: skip
        majority = len(self.voters_after) // 2 + 1
        row = (
            self.action, self.replica.node_id, self.replica.directory_text,
            None if self.replica.endpoint is None else str(self.replica.endpoint),
            list(self.voters_before), list(self.voters_after), majority,
            len(self.voters_after) - majority,
        )  # fmt: skip
        return Table("changes", columns, (row,))


class NotFollowingError(CommandError):
    """Who is to be added does not follow the quorum; a controller just started may, soon."""


def plan_add(view: QuorumView, who: str, directory: str | None) -> Plan:
    """Return how to make an observer a voter; it is named by its id or its address.

    Raises:
        NotFollowingError: there is no such observer.
        CommandError: it cannot be added now.
    """
    wanted = _directory(directory)
    found = [o for o in view.observers if _is_named(o, who) and _has(o, wanted)]
    if not found:
        raise _not_to_add(view, who)
    replica = _only(found, who)
    old = next((v for v in view.voters if v.node_id == replica.node_id), None)
    if old is not None:
        raise RefusedError(
            f"controller {replica.node_id} votes already, with another disk",
            why=f"DUPLICATE_VOTER: directory {old.directory_text} has its vote; a lost disk must"
            " lose it first",
            hint=f"quorate quorum remove {old.node_id} --directory-id {old.directory_text}",
        )
    before = _ids(view.voters)
    return Plan("add", replica, before, tuple(sorted((*before, replica.node_id))))


def _not_to_add(view: QuorumView, who: str) -> CommandError:
    if any(_is_named(voter, who) for voter in view.voters):
        return RefusedError(
            f"controller {who} votes already", why="DUPLICATE_VOTER", hint="quorate quorum status"
        )
    known = ", ".join(str(o.node_id) for o in view.observers) or "none"
    return NotFollowingError(
        f"no controller {who} follows the quorum",
        why=f"only one that follows can be added, so that it is not far behind; there is {known}",
        hint=f"quorate controller start --id {who} --join ... and try again",
    )


def plan_remove(view: QuorumView, who: str, directory: str | None) -> Plan:
    """Return how to take a voter's vote away; it is named by its id or its address.

    Raises:
        CommandError: there is no such voter, or the quorum needs it.
    """
    wanted = _directory(directory)
    found = [v for v in view.voters if _is_named(v, who) and _has(v, wanted)]
    if not found:
        ids = ", ".join(f"{v.node_id} ({v.directory_text})" for v in view.voters)
        raise CommandError(
            f"no controller {who} votes" + (f" with directory {directory}" if directory else ""),
            why=f"VOTER_NOT_FOUND: the voters are {ids}",
            hint="quorate quorum status",
        )
    replica = _only(found, who)
    before = _ids(view.voters)
    if len(before) == 1:
        raise RefusedError(
            f"controller {replica.node_id} is the only voter",
            why="without it nobody could decide anything",
            hint="add another one first: quorate quorum add ID",
        )
    after = tuple(node_id for node_id in before if node_id != replica.node_id)
    return Plan("remove", replica, before, after)


def plan_transfer(view: QuorumView, to: int | None) -> Replica | None:
    """Return who should lead; ``None`` for whichever is best.

    Raises:
        CommandError: it cannot lead.
    """
    if view.leader_id is None:
        raise RefusedError(
            "nobody leads, so nobody can hand over",
            why=f"the last term known is {view.leader_epoch}",
            hint="quorate quorum watch shows when one is elected",
        )
    others = [voter for voter in view.voters if voter.node_id != view.leader_id]
    if not others:
        raise RefusedError(
            f"controller {view.leader_id} is the only voter",
            why="there is nobody to hand over to",
            hint="add another one first: quorate quorum add ID",
        )
    if to is None:
        return None
    if to == view.leader_id:
        raise UsageError(
            f"controller {to} leads already", why="nothing was done", hint="--to another one"
        )
    found = next((voter for voter in others if voter.node_id == to), None)
    if found is None:
        raise UsageError(
            f"controller {to} does not vote",
            why="only a voter can lead; there are " + ", ".join(map(str, _ids(others))),
            hint=f"quorate quorum add {to}",
        )
    return found


def _directory(text: str | None) -> bytes | None:
    if text is None:
        return None
    directory = parse_directory(text)
    if directory is None:
        raise UsageError(
            f"{text!r} is no directory id",
            why="that is 22 characters, as quorate quorum replication --format wide shows them",
            hint="--directory-id Qy5Vd0n5RoqB1pZl2uVKYw",
        )
    return directory


def _is_named(replica: Replica, who: str) -> bool:
    return who in (str(replica.node_id), str(replica.endpoint))


def _has(replica: Replica, directory: bytes | None) -> bool:
    return directory is None or replica.directory_id == directory


def _only(found: Sequence[Replica], who: str) -> Replica:
    if len(found) > 1:
        disks = ", ".join(replica.directory_text for replica in found)
        raise UsageError(
            f"{who} stands for {len(found)} controllers",
            why=f"they have different disks: {disks}",
            hint=f"--directory-id {found[0].directory_text}",
        )
    return found[0]


def _ids(replicas: Sequence[Replica]) -> tuple[int, ...]:
    return tuple(sorted(replica.node_id for replica in replicas))
