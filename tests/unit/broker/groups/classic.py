"""A classic group on a log that is a list: what is written can be refused, or committed later."""

import random
from collections.abc import Sequence

from quorate.broker.groups.classic import ClassicGroup
from quorate.broker.groups.classic_groups import ClassicGroups
from quorate.broker.groups.classic_members import Applicant, Assigner, Leaver
from quorate.broker.groups.group import Group, GroupContext, GroupProtocol, Surroundings
from quorate.broker.groups.records import KeyType
from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.shards.effects import Entry
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise
from quorate.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from quorate.quorum.metadata.image import EMPTY_IMAGE
from quorate.settings import NodeConfig
from tests.unit.broker.groups.logs import NONE, ListWriter, pass_ms

GROUP = "readers"
RANGE = (("range", b"range: t"),)
SESSION_MS = 10_000
REBALANCE_MS = 60_000
WALL_CLOCK_AHEAD_MS = 1_700_000_000_000


class World:
    """One coordinator of classic groups, and its time."""

    def __init__(self, log: Sequence[Entry] = (), *, at_ms: int = 0, **settings: int) -> None:
        self.deadlines = Deadlines()
        self.deadlines.now_ms = at_ms
        protocols: dict[int, GroupProtocol] = {}
        self.writer = ListWriter(protocols)
        self.log = self.writer.log
        self.known: dict[str, Group] = {}
        surroundings = Surroundings(
            config=NodeConfig(**settings),  # type: ignore[arg-type]
            deadlines=self.deadlines,
            random=random.Random(1),
            now_ms=lambda: WALL_CLOCK_AHEAD_MS + self.deadlines.now_ms,
            image=lambda: EMPTY_IMAGE,
        )
        self.groups = ClassicGroups(GroupContext(self.known, self.writer, surroundings))
        protocols[KeyType.GROUP_METADATA] = self.groups
        self.writer.append(log)
        self.groups.loaded()

    @property
    def group(self) -> ClassicGroup:
        group = self.known[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def pass_ms(self, ms: int) -> None:
        """Let time pass, deadline by deadline."""
        pass_ms(self.deadlines, ms)

    # --- what members do ------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        reason: str = "",
        version: int = 9,
        client_id: str = "app",
    ) -> Promise[JoinGroupResponse]:
        applicant = Applicant(
            member_id=member_id,
            instance_id=instance_id,
            client_id=client_id,
            client_host="/10.0.0.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(protocols),
            reason=reason,
            returns_with_id=version >= 4,
            may_skip_assignment=version >= 9,
        )
        return self.groups.join(GROUP, applicant)

    def come(self, **said: object) -> Promise[JoinGroupResponse]:
        """Join as stock clients do: ask for an id, and come back with it."""
        told = self.join(**said).value  # type: ignore[arg-type]
        assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return self.join(told.member_id, **said)  # type: ignore[arg-type]

    def sync(
        self,
        answer: JoinGroupResponse,
        *,
        instance_id: str | None = None,
        generation: int | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        assigns: bool = True,
    ) -> Promise[SyncGroupResponse]:
        """Sync as a member that got this answer; its leader assigns everybody its own id."""
        assignments = {m.member_id: m.member_id.encode() for m in answer.members} if assigns else {}
        assigner = Assigner(
            member_id=answer.member_id,
            instance_id=instance_id,
            generation=answer.generation_id if generation is None else generation,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments,
        )
        return self.groups.sync(GROUP, assigner)

    def beat(
        self, answer: JoinGroupResponse, *, instance_id: str | None = None, generation: int = -1
    ) -> ErrorCode:
        """Send a heartbeat as a member that got this answer."""
        generation = answer.generation_id if generation == -1 else generation
        try:
            self.groups.heartbeat(GROUP, answer.member_id, instance_id, generation)
        except KafkaError as error:
            return error.code
        return NONE

    def leave(self, *answers: JoinGroupResponse, reason: str = "") -> list[ErrorCode]:
        """Let the members that got these answers leave."""
        leavers = [Leaver(answer.member_id, None, reason) for answer in answers]
        return self.groups.leave(GROUP, leavers)

    def stable(self, count: int, **said: object) -> list[JoinGroupResponse]:
        """Have so many members, who have synced; the first leads."""
        promises = [self.come(**said) for _ in range(count)]
        self.pass_ms(3_000 if count == 1 else 6_000)
        answers = [promise.value for promise in promises]
        synced = [self.sync(answer) for answer in answers]
        assert all(promise.value.assignment for promise in synced)
        return answers
