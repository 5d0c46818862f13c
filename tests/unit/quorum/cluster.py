"""Several Raft replicas in memory: rounds, a network that can be cut, and disks that forget."""
# pyright: reportPrivateUsage=false

from collections.abc import Callable, Iterable
from random import Random

from quorate.model import Endpoint
from quorate.promise import Promise
from quorate.quorum.raft.messages import (
    AppendAnswer,
    PreVote,
    PreVoteRequest,
    RaftMessage,
    Vote,
    decode_message,
    encode_message,
)
from quorate.quorum.raft.outcomes import NotDone
from quorate.quorum.raft.rounds import Outgoing, Rounds
from quorate.quorum.raft.rules import Rules
from quorate.quorum.raft.simulated_storage import SimulatedStorage
from quorate.quorum.raft.timing import Timing
from quorate.quorum.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet

TIMING = Timing(heartbeat_s=0.1, election_min_s=0.5, election_max_s=1.0, snapshot_entries=5000)
RULES = Rules(TIMING)


def key(node_id: int, directory: int = 0) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([node_id, directory]) * 8)


def voter(node_id: int, directory: int = 0) -> Voter:
    return Voter(key(node_id, directory), Endpoint("localhost", 9000 + node_id))


def voters(*node_ids: int) -> VoterSet:
    return VoterSet.of(voter(node_id) for node_id in node_ids)


class Tape:
    """A state machine that remembers every command."""

    def __init__(self) -> None:
        self.commands: list[bytes] = []

    def apply(self, index: int, term: int, command: bytes) -> int:
        del index, term
        self.commands.append(command)
        return len(self.commands)

    def freeze(self) -> Callable[[], bytes]:
        dumped = b"\n".join(self.commands)
        return lambda: dumped

    def prepare(self, data: bytes) -> Callable[[], None]:
        commands = data.split(b"\n") if data else []
        return lambda: self._take_over(commands)

    def _take_over(self, commands: list[bytes]) -> None:
        self.commands = commands


class Node:
    """One replica, driven as its shell does."""

    def __init__(
        self, me: ReplicaKey, bootstrap: VoterSet, storage: SimulatedStorage, rules: Rules
    ) -> None:
        self.key = me
        self.storage = storage
        self.tape = Tape()
        rng = Random(storage.steps * 100 + me.node_id)
        self.rounds = Rounds[int](me, bootstrap, storage, self.tape, rules, rng)

    def round(self, now_s: float) -> list[Outgoing]:
        early = self.rounds.start(now_s)
        while flush := self.rounds.start_flush():
            flush.run()
            self.rounds.finish_flush(flush)
        late = self.rounds.finish()
        while snapshot := self.rounds.start_snapshot():
            snapshot.run()
            self.rounds.finish_snapshot(snapshot)
        return [*early, *late]


class Puppet(Node):
    """One replica among voters that are played by the test."""

    def __init__(
        self,
        bootstrap: VoterSet,
        rules: Rules = RULES,
        storage: SimulatedStorage | None = None,
    ) -> None:
        super().__init__(key(1), bootstrap, storage or SimulatedStorage(Random(1)), rules)
        self.now_s = 100.0
        for other in bootstrap.keys:
            if other != self.key:
                self.rounds.peer_connected(other)
        self.round(self.now_s)

    def hear(self, source: int, *messages: RaftMessage) -> list[RaftMessage]:
        """Deliver messages; return what is sent to their source."""
        for message in messages:
            self.rounds.receive(key(source), message)
        return [m for target, m in self.round(self.now_s) if target == key(source)]

    def wait(self, seconds: float) -> list[RaftMessage]:
        """Let time pass; return what is sent, to whomever."""
        self.now_s += seconds
        return [message for _, message in self.round(self.now_s)]

    def lead(self, *supporters: int) -> None:
        """Be elected by these."""
        pre_vote = next(m for m in self.wait(1.1) if isinstance(m, PreVoteRequest))
        for supporter in supporters:
            self.rounds.receive(key(supporter), PreVote(pre_vote.term, pre_vote.number))
        self.round(self.now_s)
        for supporter in supporters:
            self.rounds.receive(key(supporter), Vote(pre_vote.term + 1))
        self.round(self.now_s)
        assert self.rounds.leader == self.key

    def propose(self, command: bytes) -> Promise[int | NotDone]:
        promise = self.rounds.propose(command, self.now_s + 1000)
        self.round(self.now_s)
        return promise

    def acknowledged(self, source: int, index: int, term: int | None = None) -> None:
        """Hear that another one's log matches up to an index."""
        if term is None:
            term = self.rounds.term
        self.hear(source, AppendAnswer(term, index + 1, True, False, 0))

    @property
    def log(self) -> list[tuple[int, int]]:
        """Index and term of the entries."""
        return [(e.log_index, e.term) for e in self.rounds._core.journal.entries]


Judge = Callable[[ReplicaKey, ReplicaKey, RaftMessage], bool]


class Cluster:
    """Replicas that hear each other at once, unless a judge says no; owns the time."""

    def __init__(self, bootstrap: VoterSet, rules: Rules = RULES) -> None:
        self.bootstrap = bootstrap
        self.rules = rules
        self.now_s = 100.0
        self.nodes: dict[ReplicaKey, Node] = {}
        self.storages: dict[ReplicaKey, SimulatedStorage] = {}
        self.judge: Judge = lambda _source, _target, _message: True
        self.sent: list[tuple[ReplicaKey, ReplicaKey, RaftMessage]] = []
        for member in bootstrap.keys:
            self.start(member, bootstrap)

    def start(self, me: ReplicaKey, bootstrap: VoterSet = NO_VOTERS) -> Node:
        storage = self.storages.setdefault(me, SimulatedStorage(Random(me.node_id)))
        node = Node(me, bootstrap, storage, self.rules)
        for other in self.nodes.values():
            other.rounds.peer_connected(me)
            node.rounds.peer_connected(other.key)
        self.nodes[me] = node
        return node

    def stop(self, me: ReplicaKey, *, power_cut: bool = False) -> None:
        self.nodes.pop(me)
        self.storages[me].crash(power_cut=power_cut)
        for other in self.nodes.values():
            other.rounds.peer_disconnected(me)

    def cut(self, *groups: Iterable[ReplicaKey]) -> None:
        """Let only those of one group hear each other."""
        of = {member: number for number, group in enumerate(groups) for member in group}
        self.judge = lambda source, target, _message: of.get(source) == of.get(target)

    def heal(self) -> None:
        self.judge = lambda _source, _target, _message: True

    def step(self, seconds: float) -> None:
        """Let time pass, with a round of everybody, until nobody has anything to say."""
        self.now_s += seconds
        for _ in range(1000):
            outgoing = [
                (node.key, target, message)
                for node in list(self.nodes.values())
                for target, message in node.round(self.now_s)
            ]
            self.sent += outgoing
            delivered = False
            for source, target, message in outgoing:
                if target in self.nodes and self.judge(source, target, message):
                    copy = decode_message(encode_message(message))
                    self.nodes[target].rounds.receive(source, copy)
                    delivered = True
            if not delivered:
                return
        raise AssertionError("they do not stop talking")

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            self.step(0.05)

    @property
    def leader(self) -> Node:
        leaders = [node for node in self.nodes.values() if node.rounds.is_leader]
        assert leaders, "nobody leads"
        return max(leaders, key=lambda node: node.rounds.term)

    def elect(self) -> Node:
        """Run until somebody leads."""
        for _ in range(200):
            if any(node.rounds.is_leader for node in self.nodes.values()):
                return self.leader
            self.step(0.05)
        raise AssertionError("nobody was elected")

    def followers(self) -> list[Node]:
        return [node for node in self.nodes.values() if not node.rounds.is_leader]

    def commit(self, command: bytes) -> object:
        promise = self.leader.rounds.propose(command, self.now_s + 5)
        self.run(0.2)
        return promise.value
