"""Whatever members, administrators, connections, disks and coordinators do, a group keeps its word.

Random members join, sync, send heartbeats, leave, come back under their instance id, lose their
connection, and are silent; the log refuses records and commits them late; the coordinator moves.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorate.broker.groups.classic import ClassicGroup
from quorate.broker.groups.classic_generations import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupState
from quorate.broker.groups.classic_members import Assigner, Leaver
from quorate.errors import ErrorCode, KafkaError
from quorate.promise import Promise
from quorate.protocol.messages.groups import JoinGroupResponse, SyncGroupResponse
from tests.unit.broker.groups.classic import GROUP, REBALANCE_MS, SESSION_MS, World

T = TypeVar("T")

PROTOCOLS = {
    "range": (("range", b"r"),),
    "either": (("sticky", b"s"), ("range", b"r")),
    "sticky": (("sticky", b"s"),),
}
LONGEST_WAIT_MS = NEW_MEMBER_JOIN_TIMEOUT_MS + REBALANCE_MS + SESSION_MS

clients = st.integers(0, 5)


@dataclass
class Client:
    """One client as it sees itself; the static ones have a name."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    members: list[str] = field(default_factory=list[str])
    joining: Promise[JoinGroupResponse] | None = None
    syncing: Promise[SyncGroupResponse] | None = None
    assigns: str = ""


class GroupMachine(RuleBasedStateMachine):
    """A coordinator, its log and six clients; the model is what clients may conclude."""

    @initialize(delay_ms=st.sampled_from([0, 3_000]), size_max=st.sampled_from([3, 100]))
    def begin(self, delay_ms: int, size_max: int) -> None:
        self.settings = {"group_initial_rebalance_delay_ms": delay_ms, "group_max_size": size_max}
        self.world = World((), **self.settings)
        self.clients = [Client(None) for _ in range(4)] + [Client("a"), Client("b")]
        self.waiting: list[tuple[int, Promise[JoinGroupResponse] | Promise[SyncGroupResponse]]] = []
        self.highest = 0
        self.leaders: dict[int, str] = {}
        self.assigned: dict[int, str] = {}
        self.promised: dict[int, str] = {}
        self.now_ms = 0

    # --- what clients do ------------------------------------------------------

    @rule(who=clients, knows=st.sampled_from(sorted(PROTOCOLS)), old=st.booleans())
    def join(self, who: int, knows: str, old: bool) -> None:
        client = self.clients[who]
        if self._waits(client):
            return
        client.syncing = None
        promise = self._attempt(
            client,
            lambda: self.world.join(
                client.member_id,
                instance_id=client.instance_id,
                protocols=PROTOCOLS[knows],
                version=3 if old else 9,
            ),
        )
        if promise is not None:
            client.joining = promise
            self._note(promise)
            promise.when_resolved(lambda answer: self._joined(client, answer))

    def _joined(self, client: Client, answer: JoinGroupResponse) -> None:
        code = ErrorCode(answer.error_code)
        client.generation, client.leads = -1, False
        if code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            client.member_id = answer.member_id
        elif code is not ErrorCode.REBALANCE_IN_PROGRESS:
            client.member_id = ""
        if code is not ErrorCode.NONE:
            return
        client.generation = answer.generation_id
        client.members = [member.member_id for member in answer.members]
        client.leads = bool(answer.members) and not answer.skip_assignment
        assert answer.generation_id >= self.highest, "generations only grow"
        self.highest = answer.generation_id
        if client.leads:
            assert answer.member_id == answer.leader
            assert answer.member_id in client.members
            assert len(set(client.members)) == len(client.members)
            leader = self.leaders.setdefault(answer.generation_id, answer.member_id)
            assert leader == answer.member_id, "a generation has one leader"

    @rule(who=clients, text=st.sampled_from(["x", "y"]))
    def sync(self, who: int, text: str) -> None:
        client = self.clients[who]
        if self._waits(client) or client.generation < 0:
            return
        answer = JoinGroupResponse(member_id=client.member_id, generation_id=client.generation)
        world, generation = self.world, client.generation
        plan = f"{text}{generation}"
        assigner = Assigner(
            member_id=answer.member_id,
            instance_id=client.instance_id,
            generation=generation,
            protocol_type="consumer",
            protocol_name=None,
            assignments={m: plan.encode() for m in client.members} if client.leads else {},
        )
        promise = self._attempt(client, lambda: world.groups.sync(GROUP, assigner))
        if promise is not None:
            client.syncing = promise
            self._note(promise)
            promise.when_resolved(lambda told: self._synced(client, generation, told))

    def _synced(self, client: Client, generation: int, answer: SyncGroupResponse) -> None:
        if answer.error_code:
            self._take_error(client, ErrorCode(answer.error_code))
        elif answer.assignment:
            plan = self.assigned.setdefault(generation, answer.assignment.decode())
            assert answer.assignment.decode() == plan, "all get what one leader assigned"

    @rule(who=clients)
    def heartbeat(self, who: int) -> None:
        client = self.clients[who]
        if client.generation < 0:
            return

        def beat() -> None:
            self.world.groups.heartbeat(
                GROUP, client.member_id, client.instance_id, client.generation
            )

        self._attempt(client, beat)

    @rule(who=clients)
    def leave(self, who: int) -> None:
        client = self.clients[who]
        if client.member_id:
            leaver = Leaver(client.member_id, client.instance_id, "")
            (code,) = self.world.groups.leave(GROUP, [leaver])
            if code is ErrorCode.NONE:
                client.member_id, client.generation = "", -1

    @rule(who=clients)
    def crash(self, who: int) -> None:
        """Lose the connection, and all memory but the instance id."""
        client = self.clients[who]
        for promise in (client.joining, client.syncing):
            if promise is not None:
                promise.abandon()
                self.waiting = [each for each in self.waiting if each[1] is not promise]
        self.clients[who] = Client(client.instance_id)

    # --- what else happens ----------------------------------------------------

    @rule(ms=st.sampled_from([1, 500, 2_999, 5_000, 10_000, REBALANCE_MS]))
    def time_passes(self, ms: int) -> None:
        self.world.pass_ms(ms)
        self.now_ms += ms

    @rule(code=st.sampled_from([ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def writes_settle(self, code: ErrorCode) -> None:
        self.world.writer.settle(code)

    @rule(at_once=st.booleans(), refuses=st.booleans())
    def the_disk_is_moody(self, at_once: bool, refuses: bool) -> None:
        self.world.writer.commits_at_once = at_once
        self.world.writer.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE if refuses else None

    @precondition(lambda self: not self.world.writer.uncommitted)
    @rule()
    def the_coordinator_moves(self) -> None:
        before = self.world
        before.groups.unload()
        assert all(promise.resolved for _, promise in self.waiting)
        self.world = World(before.log, at_ms=self.now_ms, **self.settings)
        # A generation of which nothing was stored may come again.
        stored = self.world.group.generation if GROUP in self.world.known else 0
        self.highest = stored
        self.leaders = {g: leader for g, leader in self.leaders.items() if g <= stored}

    # --- what must hold -------------------------------------------------------

    @invariant()
    def nobody_waits_forever(self) -> None:
        self.waiting = [each for each in self.waiting if not each[1].resolved]
        if self.world.writer.uncommitted:
            self.waiting = [(self.now_ms, promise) for _, promise in self.waiting]
        for since_ms, _ in self.waiting:
            assert self.now_ms - since_ms <= LONGEST_WAIT_MS

    @invariant()
    def counts_agree(self) -> None:
        group = self.world.known.get(GROUP)
        if not isinstance(group, ClassicGroup):
            assert len(self.world.deadlines) == 0
            return
        members = list(group.members)
        assert group.members.joined_count == sum(m.joining is not None for m in members)
        assert (group.state is GroupState.EMPTY) <= (not members)
        assert (group.members.leader_id in {m.member_id for m in members}) or not members
        for member in members:
            if group.state is not GroupState.PREPARING_REBALANCE:
                assert member.joining is None
            if group.state is not GroupState.COMPLETING_REBALANCE:
                assert member.syncing is None
        if members and not self.world.writer.uncommitted:
            assert len(self.world.deadlines) > 0, "somebody's silence would not be noticed"

    def teardown(self) -> None:
        """In the end all is well again: who joins and stays is in, and the rest is gone."""
        world = self.world
        world.writer.refuses, world.writer.commits_at_once = None, True
        world.writer.settle()
        for _ in range(12):
            world.pass_ms(REBALANCE_MS)
        self.now_ms += 12 * REBALANCE_MS
        self.nobody_waits_forever()
        assert not [p for _, p in self.waiting if not p.resolved]
        told = world.join().value
        promise = world.join(told.member_id)
        world.pass_ms(3_000)
        assert promise.value.error_code == ErrorCode.NONE
        assert len(promise.value.members) == 1
        assert world.sync(promise.value).value.assignment

    # --- helpers --------------------------------------------------------------

    def _waits(self, client: Client) -> bool:
        return any(p is not None and not p.resolved for p in (client.joining, client.syncing))

    def _note(self, promise: Promise[JoinGroupResponse] | Promise[SyncGroupResponse]) -> None:
        self.waiting.append((self.now_ms, promise))

    def _attempt(self, client: Client, act: Callable[[], T]) -> T | None:
        try:
            return act()
        except KafkaError as error:
            self._take_error(client, error.code)
            return None

    def _take_error(self, client: Client, code: ErrorCode) -> None:
        """Conclude what clients conclude."""
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            client.generation = -1
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id, client.generation = "", -1


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
