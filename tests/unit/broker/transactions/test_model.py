"""Whatever producers, brokers, clocks and failures do: each transaction ends once, one way."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.transactions.coordinator import TransactionCoordinator, TxnSurroundings
from quorate.broker.transactions.deciding import ProducerKey
from quorate.broker.transactions.records import read_transaction_value
from quorate.broker.transactions.transaction import FOLLOWS, PREPARED, Transaction, TxnState
from quorate.errors import ErrorCode
from quorate.model import TopicPartition
from tests.unit.broker.transactions.coordinating import ID, NONE, Answers, World

if TYPE_CHECKING:
    from tests.unit.broker.transactions.senders import Asked

PARTITIONS = [TopicPartition("t", n) for n in range(3)]
CODES = st.sampled_from(
    [NONE, NONE, NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]
)


@dataclass
class Producer:
    """A producer as it sees itself; it does what Kafka's do, one request after the other."""

    key: ProducerKey
    version: int
    added: set[TopicPartition] = field(default_factory=set[TopicPartition])
    asked: Callable[[], bool] | None = None
    """Takes note of the answer that is waited for, if there is one: whether there was."""


class Coordinator(RuleBasedStateMachine):
    """One transactional id, producers that take it from each other, and what is told to them."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(transaction_max_timeout_ms="1000000")
        self.producers: list[Producer] = []
        self.given: set[ProducerKey] = set()
        self.sent: list[Asked] = []
        self.committed = 0
        """So many records cannot be lost any more."""

    def take_sent(self) -> None:
        """Take note of the markers that are sent: each of an end that nobody can take back."""
        sent = self.world.brokers.take()
        safe = {(t.producer_id, t.producer_epoch, t.commits) for t in self.ends(self.committed)}
        for asked in sent:
            for marker in asked.request.markers:
                end = (marker.producer_id, marker.producer_epoch, marker.transaction_result)
                assert end in safe, "only what is committed is carried out"
        self.sent += sent

    # --- producers ------------------------------------------------------------

    @rule(version=st.sampled_from([0, 2]))
    def somebody_begins(self, version: int) -> None:
        answers = self.world.init(timeout_ms=60_000)

        def told() -> bool:
            if answers and answers[0][0] == NONE:
                key = answers.producer
                self.give(key)
                self.producers.append(Producer(key, version))
            return bool(answers)

        if not told():
            self.producers.append(Producer(ProducerKey(-1, -1), version, asked=told))

    def give(self, key: ProducerKey) -> None:
        assert key not in self.given, "nobody gets what somebody else had"
        self.given.add(key)

    def idle(self) -> list[Producer]:
        """Return who waits for no answer."""
        for producer in self.producers:
            if producer.asked is not None and producer.asked():
                producer.asked = None
        self.producers = [
            p for p in self.producers if p.asked is not None or p.key.producer_id >= 0
        ]
        return [p for p in self.producers if p.asked is None]

    @precondition(lambda self: self.idle())
    @rule(data=st.data(), partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def add(self, data: st.DataObject, partitions: set[TopicPartition]) -> None:
        producer = data.draw(st.sampled_from(self.idle()))
        answers = self.world.add(producer.key, *partitions, version=producer.version)

        def told() -> bool:
            if answers and answers.code == NONE:
                producer.added |= partitions
            return bool(answers)

        producer.asked = told

    @precondition(lambda self: self.idle())
    @rule(data=st.data(), commit=st.booleans())
    def end(self, data: st.DataObject, commit: bool) -> None:
        producer = data.draw(st.sampled_from(self.idle()))
        before, added = producer.key, set(producer.added)
        answers = self.world.end(producer.key, commit=commit, version=producer.version)
        producer.asked = lambda: self.ended(producer, before, added, answers, commit=commit)

    def ended(
        self,
        producer: Producer,
        before: ProducerKey,
        added: set[TopicPartition],
        answers: Answers,
        *,
        commit: bool,
    ) -> bool:
        if answers and answers.code == NONE:
            key = answers.producer
            if producer.version == 0:
                assert key == before
            else:
                self.give(key)
            producer.key = key
            producer.added = set()
            if commit and added:
                last = self.ends()[-1]
                assert last.commits, "what was told to be committed is"
                assert added <= last.partitions, "with all that takes part"
        return bool(answers)

    def ends(self, count: int | None = None) -> list[Transaction]:
        """Return all ends that were written down, or those in the first records."""
        return [t for t in self.history(count) if t.state in PREPARED]

    def history(self, count: int | None = None) -> list[Transaction]:
        entries = self.world.log.entries[:count]
        return [read_transaction_value(value) for _, value in entries if value is not None]

    # --- brokers, disks, clocks -----------------------------------------------

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), code=CODES)
    def broker_answers(self, data: st.DataObject, code: ErrorCode) -> None:
        asked = self.sent.pop(data.draw(st.integers(0, len(self.sent) - 1)))
        asked.answer(code)

    @rule(commits=st.booleans())
    def replication_is_slow_or_not(self, commits: bool) -> None:
        self.committed = len(self.world.log.entries)
        self.world.log.commits_at_once = commits
        self.world.log.settle()

    @rule(refuses=st.sampled_from([None, None, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def partition_refuses(self, refuses: ErrorCode | None) -> None:
        self.world.log.refuses = refuses

    @rule(wait_ms=st.sampled_from([5, 250, 12_000, 70_000]))
    def time_passes(self, wait_ms: int) -> None:
        self.world.wait(wait_ms)

    @rule(data=st.data())
    def another_takes_over(self, data: st.DataObject) -> None:
        if self.world.log.commits_at_once and not self.world.log.waiting:
            self.committed = len(self.world.log.entries)
        keep = data.draw(st.integers(self.committed, len(self.world.log.entries)))
        self.world.log.commits_at_once = True
        self.world.fail_over(keep)
        self.committed = keep
        self.idle()

    # --- what holds -----------------------------------------------------------

    def fold(self, count: int) -> TransactionCoordinator:
        world = self.world
        surroundings = TxnSurroundings(
            world.config, Deadlines(), lambda: world.now_ms, lambda _taker: None, world.markers
        )
        coordinator = TransactionCoordinator(world.log, surroundings)
        for key, value in world.log.entries[:count]:
            coordinator.replay(key, value)
        return coordinator

    @invariant()
    def the_state_is_what_the_log_says(self) -> None:
        if self.world.log.commits_at_once and not self.world.log.waiting:
            self.committed = len(self.world.log.entries)
        self.take_sent()
        folded = self.fold(len(self.world.log.entries))
        assert dict(folded.items()) == dict(self.world.coordinator.items())

    @invariant()
    def states_follow_each_other_as_the_table_says(self) -> None:
        history = self.history()
        for before, after in pairwise(history):
            assert before.state in FOLLOWS[after.state]
            assert (before.producer_id, before.producer_epoch) <= (
                after.producer_id,
                after.producer_epoch,
            ), "no epoch comes back"

    def teardown(self) -> None:
        """In the end nothing hangs, once everybody answers."""
        world = self.world
        world.log.refuses = None
        world.log.commits_at_once = True
        world.log.settle()
        for _ in range(50):
            self.committed = len(world.log.entries)
            self.take_sent()
            if not self.sent and world.state() not in (*PREPARED, TxnState.ONGOING):
                break
            for asked in self.sent:
                asked.answer()
            self.sent.clear()
            world.wait(70_000)
        transaction = world.coordinator.find(ID)
        assert transaction is None or transaction.state not in (*PREPARED, TxnState.ONGOING)


TestCoordinator = Coordinator.TestCase
TestCoordinator.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
