"""What handlers may use: the broker they serve, and who calls."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.group import Surroundings
from quorate.broker.handlers.internal_topics import (
    InternalTopic,
    groups_topic,
    transactions_topic,
)
from quorate.broker.handlers.producer_ids import ProducerIds
from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.replication.host import Aside, here_and_now
from quorate.broker.replication.replicas import Replicas
from quorate.broker.shards.effects import Writer
from quorate.broker.shards.errors import CoordinatorNotAvailableError
from quorate.broker.shards.shard import ShardHost
from quorate.broker.shards.shards import Shards
from quorate.broker.shards.topics import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from quorate.broker.transactions.coordinator import TransactionCoordinator, TxnSurroundings
from quorate.broker.transactions.markers import AskBroker, Markers
from quorate.broker.transactions.verifying import Verified, Verifier
from quorate.control.messages import Answer, ErrorAnswer, Request
from quorate.dataclass import dataclass
from quorate.errors import ErrorCode, KafkaError, NetworkError, QuorateError, known_code
from quorate.model import NO_LEADER, TopicPartition
from quorate.promise import Promise, kept
from quorate.quorum.metadata.delta import MetadataDelta
from quorate.settings import NodeConfig

if TYPE_CHECKING:
    from random import Random

A = TypeVar("A", bound=Answer)

ANONYMOUS: Final = "User:ANONYMOUS"
"""Who every caller is, as long as nobody has to prove who they are."""


ASK_TIMEOUT_MS: Final = 30_000
"""How long a controller may take with a request whose client does not say how long it waits."""

ASK_TIMEOUT_MAX_MS: Final = 60_000
"""How long at most, whatever the client says: large requests wait for one another.

Kafka's brokers give up what they forward to a controller after as long.
"""


class CloseConnectionError(QuorateError):
    """The request gets no answer, and the connection must be closed to say that it failed."""


@dataclass(frozen=True, slots=True)
class Caller:
    """How a request came: over which listener, in which version of its API.

    Attributes:
        client_id: what the client calls itself; only for requests that make members of groups.
        client_host: where it is, as Kafka writes it ("/127.0.0.1"); likewise.
    """

    listener: str
    api_version: int
    client_id: str = ""
    client_host: str = ""


class AskController(Protocol):
    """Sends a request to the active controller; the request names the type of its answer."""

    def __call__(self, request: Request[A], /, timeout_ms: int) -> Promise[A | ErrorAnswer]:
        """Return a promise that always resolves, in time; failures come as ErrorAnswer."""
        ...


@dataclass(slots=True)
class Broker:
    """The broker as handlers see it.

    Attributes:
        now_ms: the wall clock, as of the current turn of the loop.
        ask_controller: by the time an answer is given, :attr:`replicas` have followed the metadata
            it speaks of, unless that is much.
        aside: does what may take the disk; by then, the broker may have moved on.
        coordinators: of the groups that this broker coordinates for now.
        groups_topic: where groups are kept; made when the first one is looked for.
        transactions: the coordinators of the transactions that are coordinated here for now.
        transactions_topic: where transactions are kept; made likewise.
        markers: the ends of transactions on their way to where they are written.
        ask_peer: sends another broker a request; None where there are no others.
        serve_own: does the same with this one.
        sync_count: how often logs were synced before they could be acknowledged.
        sync_s: how many seconds that took.
        bytes_out: what consumers were sent, by topic.
    """

    config: NodeConfig
    node_texts: Mapping[str, str]
    cluster_id: str
    replicas: Replicas
    deadlines: Deadlines
    producer_ids: ProducerIds
    random: "Random"
    ask_controller: AskController | None = None
    aside: Aside = here_and_now
    now_ms: int = 0
    sync_count: int = 0
    sync_s: float = 0.0
    bytes_out: dict[str, int] = field(default_factory=dict[str, int])
    ask_peer: AskBroker | None = None
    serve_own: Callable[[int, Any], Promise[Any]] | None = None
    coordinators: Shards[GroupCoordinator] = field(init=False)
    groups_topic: InternalTopic = field(init=False)
    transactions: Shards[TransactionCoordinator] = field(init=False)
    transactions_topic: InternalTopic = field(init=False)
    markers: Markers = field(init=False)
    _verifier: Verifier = field(init=False)

    def __post_init__(self) -> None:
        config, replicas = self.config, self.replicas
        surroundings = Surroundings(
            config, self.deadlines, self.random, self._wall_ms, lambda: replicas.image
        )
        host = ShardHost(
            leads=replicas.hosts,
            aside=self._run_aside,
            deadlines=self.deadlines,
            now_ms=self._wall_ms,
            commit_timeout_ms=config.offsets_commit_timeout_ms,
        )

        def coordinator(writer: Writer) -> GroupCoordinator:
            return GroupCoordinator(writer, surroundings)

        self.coordinators = Shards(GROUPS_TOPIC, coordinator, replicas, host)
        self.groups_topic = groups_topic(GROUPS_TOPIC, config)
        self.markers = Markers(self.deadlines, lambda: replicas.image, self._ask_broker)
        txn_surroundings = TxnSurroundings(
            config, self.deadlines, self._wall_ms, self.producer_ids.take, self.markers
        )

        def txn_coordinator(writer: Writer) -> TransactionCoordinator:
            return TransactionCoordinator(writer, txn_surroundings)

        self.transactions = Shards(TRANSACTIONS_TOPIC, txn_coordinator, replicas, host)
        self.transactions_topic = transactions_topic(TRANSACTIONS_TOPIC, config)
        self._verifier = Verifier(self._txn_coordinator_of, self._ask_broker)
        replicas.on_followed.append(self._forget_topics)
        replicas.on_followed.append(lambda _delta: self.markers.metadata_changed())
        replicas.host.aside = self._run_aside

    def _wall_ms(self) -> int:
        return self.now_ms

    def _run_aside(self, run: Callable[[], None], then: Callable[[], None]) -> None:
        self.aside(run, then)  # whatever does it by then

    def _forget_topics(self, delta: MetadataDelta) -> None:
        """Forget what groups have read of topics that exist no more: others may be called so."""
        for topic in delta.left_topics(self.config.node_id, self.bytes_out):
            del self.bytes_out[topic.name]
        for topic in delta.removed_topics():
            for coordinator in self.coordinators:
                coordinator.keeper.forget_topic(topic.name)

    def _txn_coordinator_of(self, transactional_id: str) -> int:
        """Return which broker coordinates a transactional id.

        Raises:
            CoordinatorNotAvailableError: there is none now.
        """
        partition, state = self.transactions.partition_of(transactional_id)
        if state.leader_id == NO_LEADER:
            raise CoordinatorNotAvailableError(f"{TRANSACTIONS_TOPIC}-{partition} has no leader")
        return state.leader_id

    def _ask_broker(self, broker_id: int, api_key: int, request: Any) -> Promise[Any]:
        """Have a broker serve a request; the answer is a KafkaError if none will come."""
        ask = self.ask_peer
        if broker_id == self.config.node_id:
            assert self.serve_own is not None, "set before anything is coordinated"
            return self.serve_own(api_key, request)
        if ask is not None:
            return ask(broker_id, api_key, request)
        return kept(NetworkError(f"there is no way to broker {broker_id}"))

    def verify_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        add: bool,
    ) -> Promise[Verified]:
        """Ask its coordinator whether partitions take part in a transaction, or let them.

        See :meth:`quorate.broker.transactions.verifying.Verifier.verify` for the answers.
        """
        return self._verifier.verify(
            transactional_id, producer_id, producer_epoch, partitions, add=add
        )

    def ask(
        self,
        request: Request[A],
        on_answer: Callable[[A], None],
        on_error: Callable[[ErrorCode, str], None],
        timeout_ms: int = 0,
    ) -> None:
        """Ask the controller, and call one of the two back once.

        Without a time of its own, the request takes at most :data:`ASK_TIMEOUT_MS`; with one, no
        longer than :data:`ASK_TIMEOUT_MAX_MS`.
        """

        def answered(answer: A | ErrorAnswer) -> None:
            if isinstance(answer, ErrorAnswer):
                on_error(known_code(answer.code), answer.message)
            else:
                on_answer(answer)

        assert self.ask_controller is not None, "set before requests are served"
        timeout_ms = min(timeout_ms, ASK_TIMEOUT_MAX_MS) if timeout_ms > 0 else ASK_TIMEOUT_MS
        self.ask_controller(request, timeout_ms).when_resolved(answered)


Shortcut = Callable[[bytearray, int, int], bytes | Promise[bytes] | None]
"""Serves the commonest requests straight from bytes to bytes: takes a buffer, and where in it a
request begins and ends; returns its answer's frame, which may be known later.

None if it is none of the commonest: then nothing was done, and the handler does it."""


class CodedAnswer(Protocol):
    """The answer about one partition, say, among those in a response."""

    error_code: int


@contextmanager
def code_into(answer: CodedAnswer) -> Generator[None]:
    """Turn a KafkaError of the block into the answer's error code."""
    try:
        yield
    except KafkaError as error:
        answer.error_code = int(error.code)
