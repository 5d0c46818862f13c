"""Mutants of group coordinators: what commits of offsets are worth."""

from typing import Any, Final

from quorate.broker.groups.classic import ClassicGroup
from quorate.broker.groups.consumer import ConsumerGroup
from quorate.broker.groups.group import CommitSender
from quorate.broker.shards.effects import Done, Effects
from quorate.broker.shards.shard import Shard
from quorate.errors import ErrorCode
from quorate.jepsen.mutants.mutant import Mutant, Proof
from quorate.jepsen.mutants.patching import Patches

REGRESSED: Final = frozenset(
    {
        "commit-regression",
        "stale-committed-offset",
        "nonlinearizable-commit",
        "nonlinearizable-register",
        "zombie-commit",
        "skipped-record",
    }
)


def commit_before_replicated(patches: Patches) -> None:
    """Tell who commits, and who asks, as soon as the coordinator has written it."""
    write: Any = None

    def write_and_tell(self: Shard[Any], effects: Effects) -> bool:
        done = effects.done

        def ignore(code: ErrorCode) -> None:
            """Be told of it by others."""

        appended: bool = write(self, effects._replace(done=ignore))
        done(ErrorCode.NONE if appended else ErrorCode.NOT_COORDINATOR)
        return appended

    def tell(_self: Shard[Any], _subject: str, done: Done) -> None:
        done(ErrorCode.NONE)

    write = patches.method(Shard, "write", write_and_tell)
    patches.method(Shard, "when_committed", tell)


def old_generation_commits(patches: Patches) -> None:
    """Take offsets from whoever was a member once."""

    def check_classic(_self: ClassicGroup, _sender: CommitSender) -> None:
        return

    def check_consumer(_self: ConsumerGroup, _sender: CommitSender) -> None:
        return

    patches.method(ClassicGroup, "check_commit", check_classic)
    patches.method(ConsumerGroup, "check_commit", check_consumer)


MUTANTS: Final = (
    Mutant(
        "commit-before-replicated",
        "Commits of offsets are acknowledged when only the coordinator has them.",
        ("O1", "O2"),
        REGRESSED,
        Proof(("offsets",), ("directed:lonely-coordinators",), 8),
        commit_before_replicated,
    ),
    Mutant(
        "old-generation-commits",
        "A member that was thrown out commits offsets all the same.",
        ("C2", "C3"),
        REGRESSED,
        Proof(("groups",), ("none",), 20),
        old_generation_commits,
    ),
)
