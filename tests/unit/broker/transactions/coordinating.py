"""A coordinator on a log that is a list, with brokers that answer when the test says so."""

from typing import Any

from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.shards.effects import Done, Effects, Entry
from quorate.broker.transactions.coordinator import TransactionCoordinator, TxnSurroundings
from quorate.broker.transactions.deciding import ProducerKey
from quorate.broker.transactions.markers import Markers
from quorate.broker.transactions.transaction import V2, Transaction, TxnState
from quorate.errors import ErrorCode, KafkaError
from quorate.model import TopicPartition
from quorate.quorum.metadata import records as r
from quorate.quorum.metadata.applying import apply_records
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.settings import node_config
from tests.unit.broker.transactions.senders import Brokers
from tests.unit.broker.transactions.standing import NOW_MS, T0, TIMEOUT_MS

NONE = ErrorCode.NONE
ID = "my-id"


def image_of(topic: str = "t", partitions: int = 3, leader: int = 1) -> MetadataImage:
    topic_id = topic.encode().ljust(16, b"\1")
    created = [
        r.PartitionCreated("test", 0, topic_id, n, (1,), (1,), leader) for n in range(partitions)
    ]
    return apply_records(EMPTY_IMAGE, 1, [r.TopicCreated("test", 0, topic, topic_id), *created])


class Log:
    """What was written, and who waits for it to be committed; led by one coordinator at a time."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.subjects: set[str] = set()
        """Whose state was said to change with the last write."""
        self.epoch = 0
        self.coordinator: TransactionCoordinator | None = None
        self.refuses: ErrorCode | None = None
        self.commits_at_once = True
        self.waiting: list[Done] = []

    def begin_verification(self, producer_id: int, producer_epoch: int, *, adds: bool) -> None:
        raise AssertionError("nothing here is written in transactions")

    def write(self, effects: Effects) -> bool:
        assert effects.transaction is None
        if self.refuses is not None:
            effects.done(self.refuses)
            return False
        self.entries += effects.entries
        self.subjects = {effects.subject, *effects.also}
        assert self.coordinator is not None
        for key, value in effects.entries:
            self.coordinator.replay(key, value)
        self.when_committed(effects.subject, effects.done)
        return True

    def when_committed(self, subject: str, done: Done) -> None:
        if self.commits_at_once and not self.waiting:
            done(NONE)
        else:
            self.waiting.append(done)

    def settle(self, code: ErrorCode = NONE) -> None:
        """Say what came of all that was written: it is committed, or nobody knows."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(code)


class Answers(list[tuple[ErrorCode, Transaction | None]]):
    """What somebody was told."""

    def __call__(self, code: ErrorCode, transaction: Transaction | None) -> None:
        self.append((code, transaction))

    @property
    def code(self) -> ErrorCode:
        ((code, _),) = self
        return code

    @property
    def producer(self) -> ProducerKey:
        """Return who the producer is from now on."""
        ((code, transaction),) = self
        assert transaction is not None, code
        return ProducerKey(transaction.producer_id, transaction.producer_epoch)


class World:
    """The coordinator, and all it stands in."""

    def __init__(self, **texts: str) -> None:
        self.config = node_config({name.replace("_", "."): text for name, text in texts.items()})
        self.now_ms = NOW_MS
        self.deadlines = Deadlines()
        self.brokers = Brokers()
        self.image = image_of()
        self.next_id = 4000
        self.gives_ids = True
        self.log = Log()
        self.markers = Markers(self.deadlines, lambda: self.image, self.brokers.ask)
        self.coordinator = self._begin()

    def _begin(self) -> TransactionCoordinator:
        surroundings = TxnSurroundings(
            self.config, self.deadlines, lambda: self.now_ms, self._take_id, self.markers
        )
        coordinator = TransactionCoordinator(self.log, surroundings)
        self.log.coordinator = coordinator
        for key, value in self.log.entries:
            coordinator.replay(key, value)
        coordinator.loaded()
        return coordinator

    def _take_id(self, taker: Any) -> None:
        if self.gives_ids:
            self.next_id += 1
        taker(self.next_id - 1 if self.gives_ids else None)

    def fail_over(self, keep: int | None = None) -> None:
        """Let another coordinator take over, with as many entries as survive."""
        self.coordinator.unload()
        self.log.settle(ErrorCode.NOT_COORDINATOR)
        if keep is not None:
            del self.log.entries[keep:]
        self.log.epoch += 1
        self.coordinator = self._begin()

    def wait(self, wait_ms: int) -> None:
        end_ms = self.deadlines.now_ms + wait_ms
        while (next_ms := self.deadlines.next_ms()) is not None and next_ms <= end_ms:
            self._at(max(next_ms, self.deadlines.now_ms))
            self.deadlines.fire()
        self._at(end_ms)

    def _at(self, now_ms: int) -> None:
        self.now_ms += now_ms - self.deadlines.now_ms
        self.deadlines.now_ms = now_ms

    # --- requests -------------------------------------------------------------

    def init(self, expected: ProducerKey | None = None, **more: Any) -> Answers:
        answers = Answers()
        transactional_id: str = more.get("transactional_id", ID)
        timeout_ms: int = more.get("timeout_ms", TIMEOUT_MS)
        try:
            self.coordinator.init(transactional_id, timeout_ms, expected, answers)
        except KafkaError as error:
            answers(error.code, None)
        return answers

    def add(
        self,
        producer: ProducerKey,
        *partitions: TopicPartition,
        version: int = V2,
        transactional_id: str = ID,
        is_batched: bool = False,
    ) -> Answers:
        answers = Answers()
        try:
            added = partitions or (T0,)
            self.coordinator.add(
                transactional_id, producer, added, version, answers, is_batched=is_batched
            )
        except KafkaError as error:
            answers(error.code, None)
        return answers

    def end(
        self,
        producer: ProducerKey,
        *,
        commit: bool = True,
        version: int = V2,
        transactional_id: str = ID,
    ) -> Answers:
        answers = Answers()
        try:
            self.coordinator.end(
                transactional_id, producer, commit=commit, version=version, answer=answers
            )
        except KafkaError as error:
            answers(error.code, None)
        return answers

    def begun(self, *partitions: TopicPartition) -> ProducerKey:
        """Return a producer with a transaction under way."""
        producer = self.init().producer
        assert self.add(producer, *partitions).code == NONE
        return producer

    def state(self, transactional_id: str = ID) -> TxnState | None:
        transaction = self.coordinator.find(transactional_id)
        return None if transaction is None else transaction.state
