"""A broker's process: does what the Trio shells do around the replicas, but in virtual time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from quorate.broker.controller_link import followed
from quorate.broker.handlers.context import Broker, Caller
from quorate.broker.handlers.fetch import fetch
from quorate.broker.handlers.markers import write_txn_markers
from quorate.broker.handlers.produce import produce
from quorate.broker.handlers.producer_ids import ProducerIds
from quorate.broker.log.files import FatalStorageError
from quorate.broker.log.flush import Flush
from quorate.broker.log.store import open_store
from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.replication.fetching import FetchRules, LeaderFetcher
from quorate.broker.replication.follower import FollowerReplica
from quorate.broker.replication.leader import LeaderReplica
from quorate.broker.replication.replicas import Replicas
from quorate.broker.transactions.verifying import Verified
from quorate.control import messages as m
from quorate.control import partition_messages as p
from quorate.errors import ErrorCode, KafkaError, StorageError
from quorate.model import Endpoint, TopicPartition
from quorate.promise import Promise
from quorate.protocol.messages.data import FetchRequest, FetchResponse, ProduceRequest
from quorate.protocol.messages.transactions import WriteTxnMarkersRequest
from quorate.quorum.metadata.features import SUPPORTED
from quorate.quorum.metadata.image import EMPTY_IMAGE, MetadataImage
from quorate.records.slices import FileSlice
from quorate.settings import node_config
from tests.simulation.disk import SimDisk
from tests.simulation.replication.controllers import CLUSTER_ID
from tests.simulation.replication.network import Answered, Line, NoAnswerError
from tests.unit.broker.log.batches import bytes_of

if TYPE_CHECKING:
    from tests.simulation.replication.world import World

NO_TOPIC_ID: Final = bytes(16)
DATA: Final = "/data"
BY_NAME: Final = Caller("PLAINTEXT", 12)
BY_ID: Final = Caller("PLAINTEXT", 13)
RULES: Final = FetchRules(wait_max_ms=200, backoff_max_ms=200)
"""But for how much is fetched at once."""
LAG_MAX_MS: Final = 1000
HEARTBEAT_S: Final = 0.3
CONTROL_TIMEOUT_S: Final = 0.5
FETCH_TIMEOUT_S: Final = 0.8
FOLLOW_WAIT_MS: Final = 400
RETRY_S: Final = 0.05
REVIEW_S: Final = 0.25
CHECKPOINT_S: Final = 0.7
TRASH_S: Final = 0.5
SYNC_S_MAX: Final = 0.004
SYNC_RETRY_S: Final = 0.2
VERIFY_S_MAX: Final = 0.1
SHUT_DOWN_S_MAX: Final = 3.0
BEATS_S: Final = 0.05
MAY_REFUSE: Final = 0.8
GONE: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})


class _VouchingBroker(Broker):
    """A broker that asks about transactions as it is told."""

    vouch: Callable[[int, int, Sequence[TopicPartition]], Promise[Verified]]

    def verify_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Promise[Verified]:
        """See :class:`Broker`."""
        del transactional_id, add
        return self.vouch(producer_id, producer_epoch, partitions)


class BrokerProcess:
    """One run of a broker, from its start to its end."""

    def __init__(self, world: "World", broker_id: int, disk: SimDisk) -> None:
        self.name = f"b{broker_id}"
        self.alive = True
        self.paused_until_s = 0.0
        self._world = world
        self._rng = world.rng(f"{self.name} at {world.timeline.now_s}")
        self._timeline = world.timeline
        self._store = open_store(
            disk, DATA, cluster_id=CLUSTER_ID, node_id=broker_id, now_ms=self._wall_ms
        )
        config = node_config({"node.id": str(broker_id)})
        rules = replace(
            RULES,
            partition_bytes_max=world.scenario.fetch_bytes,
            response_bytes_max=world.scenario.response_bytes,
        )
        self._replicas = Replicas(broker_id, self._store, EMPTY_IMAGE, {}, rules)
        self._replicas.host.lag_time_max_ms = LAG_MAX_MS
        self._broker = _VouchingBroker(
            config=config,
            node_texts={},
            cluster_id=CLUSTER_ID,
            replicas=self._replicas,
            deadlines=Deadlines(),
            producer_ids=ProducerIds(),
            random=self._rng,
        )
        self._broker.vouch = self._vouch
        self._incarnation_id = self._rng.randbytes(16)
        self._previous_epoch = self._store.previous_broker_epoch
        self._epoch = -1
        self._fenced = True
        self._controller = self._rng.choice(list(world.controllers.all))
        self._syncing = False
        self._altering = False
        self._shutting_down: Callable[[], None] | None = None
        self._fetching = dict[int, _Fetching]()
        self._seen = dict[int, tuple[LeaderReplica | FollowerReplica, int, int]]()
        self._replicas.on_unsynced = self._sync
        self._replicas.on_alterations = self._alter
        self._replicas.on_fetchers = self._fetch_from
        self._register()
        self._every(REVIEW_S, self._review)
        self._every(CHECKPOINT_S, self._checkpoint)
        if world.scenario.recreated:
            self._every(TRASH_S, partial(self.empty_trash, later_ms=0))

    # --- time

    @property
    def _wall_ms(self) -> int:
        return self._world.controllers.wall_ms

    def at(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something later, if the process still lives, and not while it is paused."""

        def do() -> None:
            if self.alive and self._timeline.now_s < self.paused_until_s:
                self._timeline.at(self.paused_until_s, do)
            elif self.alive:
                action()

        self._timeline.after(delay_s, do)

    def _every(self, interval_s: float, action: Callable[[], None]) -> None:
        def again() -> None:
            action()
            self._every(interval_s, action)

        self.at(self._rng.uniform(0.5, 1.0) * interval_s, again)

    def begin_turn(self) -> None:
        now_ms = int(self._timeline.now_s * 1000)
        self._broker.now_ms = self._wall_ms
        self._broker.deadlines.now_ms = self._replicas.host.now_ms = now_ms

    def end_turn(self) -> None:
        self._replicas.settle()
        self._look()
        next_ms = self._broker.deadlines.next_ms()
        if next_ms is not None:
            self.at(max(0.0, (next_ms + 1) / 1000 - self._timeline.now_s), self._meet_deadlines)

    def _meet_deadlines(self) -> None:
        self.begin_turn()
        next_ms = self._broker.deadlines.next_ms()
        if next_ms is not None and next_ms <= self._broker.deadlines.now_ms:
            self._broker.deadlines.fire()
            self.end_turn()

    # --- requests

    def serve(self, source: str, request: object, reply: Answered) -> None:
        self.begin_turn()
        handler: Any
        match request:
            case ProduceRequest():
                handler = produce
            case FetchRequest():
                handler = fetch
            case WriteTxnMarkersRequest():
                handler = write_txn_markers
            case _:
                raise AssertionError(f"nobody asks brokers this: {request}")
        caller = BY_ID if _names_topics_by_id(request) else BY_NAME
        answer = handler(self._broker, request, caller)
        if isinstance(answer, Promise):
            promise: Promise[object] = answer  # pyright: ignore[reportUnknownVariableType]
            promise.when_resolved(lambda response: reply(_materialised(response)))
        else:
            reply(_materialised(answer))
        self.end_turn()

    def _vouch(
        self, producer_id: int, epoch: int, partitions: Sequence[TopicPartition]
    ) -> Promise[Verified]:
        """Ask the coordinator of a transaction, whose answer takes its time."""
        promise: Promise[Verified] = Promise()
        code = self._world.coordinator.vouch(producer_id, epoch)

        def told() -> None:
            self.begin_turn()
            promise.resolve(dict.fromkeys(partitions, code))
            self.end_turn()

        self.at(self._rng.uniform(0, VERIFY_S_MAX), told)
        return promise

    # --- the controllers

    def _ask(self, request: object, answered: Answered, timeout_s: float) -> None:
        def received(answer: object) -> None:
            failed = isinstance(answer, NoAnswerError | m.ErrorAnswer)
            if isinstance(answer, m.ErrorAnswer):
                failed = answer.code == ErrorCode.NOT_CONTROLLER
            if failed:
                self._controller = self._rng.choice(list(self._world.controllers.all))
            answered(answer)

        self._world.network.ask((self.name, self), self._controller, request, received, timeout_s)

    def _register(self) -> None:
        broker_id = self._replicas.node_id
        request = m.RegisterBroker(
            broker_id=broker_id,
            incarnation_id=self._incarnation_id,
            endpoints={"PLAINTEXT": Endpoint(self.name, 9092)},
            directory_id=self._store.meta.directory_id.encode(),
            cluster_id=CLUSTER_ID,
            features=tuple(SUPPORTED.values()),
            previous_broker_epoch=self._previous_epoch,
        )
        self._ask(request, self._registered, CONTROL_TIMEOUT_S)

    def _registered(self, answer: object) -> None:
        if not isinstance(answer, m.RegisterBrokerAnswer):
            self.at(self._rng.uniform(1, 4) * RETRY_S, self._register)
            return
        first = self._epoch < 0
        self._epoch = self._replicas.host.broker_epoch = answer.broker_epoch
        self._store.registered(self._epoch)
        if first:
            self._follow()
            self._beat()

    def _beat(self) -> None:
        request = m.BrokerHeartbeat(
            self._replicas.node_id,
            self._epoch,
            self._replicas.image.version,
            wants_shut_down=self._shutting_down is not None,
            cannot_write=self._cannot_write(),
        )
        self._ask(request, self._beaten, CONTROL_TIMEOUT_S)

    def _cannot_write(self) -> bool:
        """Whether the disk refuses, or may again; for how long is another time each time."""
        if self._store.refusals.go_on(self._replicas.host.now_ms):
            return True
        ours = self._replicas.image.brokers.get(self._replicas.node_id)
        return ours is not None and ours.cannot_write and self._rng.random() < MAY_REFUSE

    def _beaten(self, answer: object) -> None:
        if isinstance(answer, m.ErrorAnswer):
            # No controller that decides lacks what a broker was told.
            assert answer.code != ErrorCode.INCONSISTENT_CLUSTER_ID, answer.message
        if isinstance(answer, m.ErrorAnswer) and answer.code in GONE:
            self._register()
        if isinstance(answer, m.BrokerHeartbeatAnswer):
            self._fenced = answer.fenced
            if self._shutting_down is not None and answer.should_shut_down:
                self._end()
                return
        quick = self._fenced or self._shutting_down is not None
        self.at(BEATS_S if quick else HEARTBEAT_S, self._beat)

    def shut_down(self, then: Callable[[], None]) -> None:
        """Begin a controlled shutdown; ``then`` is called at its end, unless it dies before."""
        if self._shutting_down is None:
            self._shutting_down = then
            self.at(SHUT_DOWN_S_MAX, self._end)

    def _end(self) -> None:
        then = self._shutting_down
        assert then is not None, "only after shut_down"
        self._world.trace.note("stopped", self.name)
        try:
            self._store.close(
                clean=True,
                now_ms=self._wall_ms,
                high_watermarks=self._replicas.high_watermarks(),
                broker_epoch=self._epoch,
            )
        except StorageError as error:
            self._world.trace.note("not closed", f"{self.name}: {error}")
        self._world.ended(self)
        then()

    def _follow(self) -> None:
        version = self._replicas.image.version
        request = m.FetchMetadata(version, FOLLOW_WAIT_MS)
        timeout_s = FOLLOW_WAIT_MS / 1000 + CONTROL_TIMEOUT_S
        self._ask(request, self._news_came, timeout_s)

    def _news_came(self, answer: object) -> None:
        if not isinstance(answer, m.FetchMetadataAnswer):
            self.at(RETRY_S, self._follow)
            return
        delta = followed(self._replicas.image, answer)
        if delta.before.version < delta.after.version >= self._epoch:
            self._follow_on(self._replicas.follow(delta, self._broker.now_ms))
        elif delta.after.version > delta.before.version:
            self.at(RETRY_S, self._follow)  # too old to be applied: another controller knows more
        else:
            self._follow()

    def _follow_on(self, steps: Iterator[None]) -> None:
        """Follow the metadata by another step; others are served between them."""
        self.begin_turn()
        for _ in steps:
            self.end_turn()
            wait_s = self._rng.uniform(0, self._world.scenario.step_s_max)
            self.at(wait_s, partial(self._follow_on, steps))
            return
        self._world.ledger.image_is(self.name, self._replicas.image)
        self.end_turn()
        self._follow()

    # --- the ISR

    def _review(self) -> None:
        self.begin_turn()
        self._replicas.review()
        self.end_turn()

    def _alter(self) -> None:
        alterations = self._replicas.news.alterations
        if self._altering or not alterations:
            return
        pairs = [(leader, leader.alteration()) for leader in alterations]
        alterations.clear()
        proposals = [(leader, change) for leader, change in pairs if change is not None]
        if not proposals:
            return
        self._altering = True
        request = p.AlterPartition(
            self._replicas.node_id, self._epoch, tuple(change for _, change in proposals)
        )
        self._ask(request, partial(self._altered, proposals), CONTROL_TIMEOUT_S)

    def _altered(
        self, proposals: list[tuple[LeaderReplica, p.PartitionAlteration]], answer: object
    ) -> None:
        self.begin_turn()
        self._altering = False
        if isinstance(answer, p.AlterPartitionAnswer):
            for (leader, change), altered in zip(proposals, answer.partitions, strict=True):
                if self._replicas.hosts(leader):
                    leader.altered(change, altered)
            self.end_turn()
        else:
            for leader, _ in proposals:
                if self._replicas.hosts(leader):
                    leader.retry_alteration()
            self.at(RETRY_S, self._alter)

    # --- fetching

    def _fetch_from(self, leader_id: int) -> None:
        fetching = self._fetching.get(leader_id)
        if fetching is None:
            fetching = _Fetching(self, self._replicas.fetchers[leader_id])
            self._fetching[leader_id] = fetching
        fetching.go_on()

    def open_line(self, leader_id: int) -> Line:
        return self._world.network.connect((self.name, self), f"b{leader_id}")

    @property
    def now_s(self) -> float:
        return self._timeline.now_s

    @property
    def wall_ms(self) -> int:
        return self._broker.now_ms

    def synced(
        self,
        followers: list[FollowerReplica],
        then: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        """Go on once logs are synced, or otherwise if they cannot be."""

        def done(flush: Flush) -> None:
            flush.run()
            try:
                self._store.finish_flush(flush)
            except StorageError as error:
                self.end_if_fatal(error)
                failed()
            else:
                then()

        try:
            flush = self._store.start_flush([follower.log for follower in followers])
        except StorageError:
            failed()
        else:
            self.at(self._rng.uniform(0, SYNC_S_MAX), partial(done, flush))

    def end_if_fatal(self, error: KafkaError) -> None:
        """End, if it is not known any more what is on the disk."""
        if isinstance(error, FatalStorageError):
            self._world.kill(self.name, power_cut=False)

    # --- the disk

    def _sync(self) -> None:
        if not self._syncing:
            self._syncing = True
            self.at(0.0, self._sync_on)

    def _sync_on(self) -> None:
        unsynced = self._replicas.news.unsynced
        replicas = list(unsynced)
        unsynced.clear()
        if not replicas:
            self._syncing = False
            return
        try:
            flush = self._store.start_flush([replica.log for replica in replicas])
        except StorageError as error:
            self._sync_again(replicas, error)
        else:
            self.at(self._rng.uniform(0, SYNC_S_MAX), partial(self._synced, replicas, flush))

    def _synced(self, replicas: list[LeaderReplica], flush: Flush) -> None:
        flush.run()
        failure = None
        try:
            self._store.finish_flush(flush)
        except StorageError as error:
            failure = error
        if not isinstance(failure, FatalStorageError):
            self.begin_turn()
            for replica in filter(self._replicas.hosts, replicas):
                replica.advance()
            self.end_turn()
        if failure is None:
            self._sync_on()
        else:
            self._sync_again(replicas, failure)

    def _sync_again(self, replicas: list[LeaderReplica], error: StorageError) -> None:
        self.end_if_fatal(error)

        def again() -> None:
            ours = filter(self._replicas.hosts, replicas)
            self._replicas.news.unsynced.update(dict.fromkeys(ours))
            self._sync_on()

        self.at(SYNC_RETRY_S, again)

    def _checkpoint(self) -> None:
        try:
            self._checkpoint_once()
        except StorageError as error:
            self.end_if_fatal(error)

    def _checkpoint_once(self) -> None:
        for logs in self._store.take_dirty():
            flush = self._store.start_checkpoint(logs)
            flush.run()
            self._store.finish_flush(flush)
        self._store.checkpoint(self._replicas.high_watermarks())

    def empty_trash(self, *, later_ms: int) -> None:
        """Remove what was deleted long enough ago, or will have been by then."""
        for now_ms in (self._wall_ms, self._wall_ms + later_ms):
            self._store.remove_paths(self._store.empty_trash(now_ms))

    def delete_records(self, partition: TopicPartition, offset: int) -> bool:
        """Delete what lies before an offset, if this broker leads, and knows that it may."""
        leader = self._replicas.find(*partition)
        if leader is None or offset > leader.high_watermark:
            return False
        self.begin_turn()
        leader.delete_records_before(offset)
        self.end_turn()
        return True

    # --- what others look at

    @property
    def image(self) -> MetadataImage:
        """The metadata that it has followed."""
        return self._replicas.image

    def _look(self) -> None:
        """Show the ledger what has changed."""
        ledger = self._world.ledger
        seen = dict[int, tuple[LeaderReplica | FollowerReplica, int, int]]()
        for replica in self._replicas.hosted():
            log = replica.log
            known = self._seen.get(id(replica))
            is_leader = isinstance(replica, LeaderReplica)
            if known is None or known[0] is not replica:
                if is_leader:
                    ledger.leader_begins(self.name, replica)
                before, end = log.log_start_offset, log.log_end_offset
            else:
                _, before, end = known
            now = replica.high_watermark
            if is_leader and log.log_end_offset > end:
                ledger.appended(self._replicas.node_id, replica)
            if now < before and not is_leader:
                before = now  # a follower's goes back with its log
            if now != before:
                ledger.high_watermark_is(self.name, replica, before, now)
            seen[id(replica)] = replica, now, log.log_end_offset
        self._seen = seen

    def _replica(self, partition: TopicPartition) -> LeaderReplica | FollowerReplica | None:
        return self._replicas.find(*partition) or self._replicas.follower(*partition)

    def ends_of(self, partition: TopicPartition) -> tuple[int, int]:
        """Return the log end and the high watermark of a replica; -1 if there is none."""
        replica = self._replica(partition)
        return (-1, -2) if replica is None else (replica.log.log_end_offset, replica.high_watermark)

    def proposed(self) -> set[int]:
        """Return who is in an ISR that is proposed."""
        return {b for replica in self._replicas for b in replica.isr.proposed or ()}

    def hosted(self, partition: TopicPartition) -> LeaderReplica | FollowerReplica:
        """Return the replica of a partition that is hosted here."""
        replica = self._replica(partition)
        assert replica is not None, "it is hosted"
        return replica

    def describe(self) -> str:
        replicas = [
            f"{type(r).__name__[0]}{r.topic_partition.partition}"
            f" epoch {r.leader_epoch} {r.high_watermark}/{r.log.log_end_offset}"
            for r in self._replicas.hosted()
        ]
        version = self._replicas.image.version
        return f"epoch {self._epoch} version {version} fenced {self._fenced} {replicas}"


class _Fetching:
    """What a broker fetches from one leader, over one connection after the other."""

    def __init__(self, process: BrokerProcess, fetcher: LeaderFetcher) -> None:
        self._process = process
        self._fetcher = fetcher
        self._line: Line | None = None
        self._waiting = False
        self._planned = False

    def go_on(self) -> None:
        """Ask for what is new, if a request may be sent."""
        fetcher = self._fetcher
        if self._waiting or (self._line is None and not len(fetcher)):
            return
        self._process.begin_turn()
        if self._line is None:
            self._line = self._process.open_line(fetcher.leader_id)
        if unsynced := fetcher.unsynced():
            self._waiting = True
            line = self._line
            self._process.synced(
                unsynced, partial(self._synced, line), partial(self._not_synced, line)
            )
            return
        if fetcher.in_flight == 0:
            self._send()
        next_ms = fetcher.next_ms()
        if next_ms is not None and fetcher.in_flight == 1 and not self._planned:
            self._planned = True
            due_s = max(0.0, (next_ms + 0.5) / 1000 - self._process.now_s)
            self._process.at(due_s, self._ask_in_between)

    def _ask_in_between(self) -> None:
        """Ask for what is new while the leader still holds an answer back."""
        self._planned = False
        self._process.begin_turn()
        next_ms = self._fetcher.next_ms()
        due = next_ms is not None and next_ms <= self._process.now_s * 1000
        if due and self._line is not None and self._fetcher.in_flight == 1:
            self._send()
        else:
            self.go_on()

    def _send(self) -> None:
        line = self._line
        assert line is not None, "there is a connection"
        line.send(self._fetcher.build(), partial(self._answered, line), FETCH_TIMEOUT_S)

    def _answered(self, line: Line, answer: object) -> None:
        if line is not self._line:
            return
        process = self._process
        process.begin_turn()
        if not isinstance(answer, FetchResponse):
            self._begin_anew()
            return
        try:
            self._fetcher.take(answer, process.wall_ms)
        except KafkaError as error:
            process.end_if_fatal(error)
            self._begin_anew()
            return
        process.end_turn()
        self.go_on()

    def _synced(self, line: Line) -> None:
        if line is self._line:
            self._waiting = False
            self.go_on()

    def _not_synced(self, line: Line) -> None:
        if line is self._line:
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._line = None
        self._waiting = True
        self._fetcher.disconnected()
        self._process.at(RETRY_S, self._resume)

    def _resume(self) -> None:
        self._waiting = False
        self.go_on()


def _names_topics_by_id(request: object) -> bool:
    match request:
        case ProduceRequest():
            return any(topic.topic_id != NO_TOPIC_ID for topic in request.topic_data)
        case FetchRequest():
            return any(topic.topic_id != NO_TOPIC_ID for topic in request.topics)
        case _:
            return False


def _materialised(response: object) -> object:
    """Read the records of a response, as they are sent."""
    if isinstance(response, FetchResponse):
        for data in _partitions(response):
            if isinstance(data.records, FileSlice):
                data.records = memoryview(bytearray(bytes_of(data.records)))
    return response


def _partitions(response: FetchResponse) -> Iterator[Any]:
    for topic in response.responses:
        yield from topic.partitions
