"""What handlers may use: the broker they serve, and who calls."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from quorate.broker.groups.coordinator import GROUPS_TOPIC, GroupCoordinator
from quorate.broker.groups.group import Surroundings
from quorate.broker.handlers.internal_topics import InternalTopic, groups_topic
from quorate.broker.handlers.producer_ids import ProducerIds
from quorate.broker.replication.deadlines import Deadlines
from quorate.broker.replication.host import Aside, here_and_now
from quorate.broker.replication.replicas import Replicas
from quorate.broker.shards.effects import Writer
from quorate.broker.shards.shard import ShardHost
from quorate.broker.shards.shards import Shards
from quorate.control.messages import Answer, ErrorAnswer, Request
from quorate.errors import ErrorCode, KafkaError, QuorateError, known_code
from quorate.promise import Promise
from quorate.quorum.metadata.delta import MetadataDelta
from quorate.settings import NodeConfig

if TYPE_CHECKING:
    from random import Random

A = TypeVar("A", bound=Answer)

ANONYMOUS: Final = "User:ANONYMOUS"
"""Who every caller is, as long as nobody has to prove who they are."""


ASK_TIMEOUT_MS: Final = 30_000
"""How long a controller may take with a request whose client does not say how long it waits."""


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
        sync_count: how often logs were synced before they could be acknowledged.
        sync_s: how many seconds that took.
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
    coordinators: Shards[GroupCoordinator] = field(init=False)
    groups_topic: InternalTopic = field(init=False)

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
        replicas.on_followed.append(self._forget_topics)
        replicas.host.aside = self._run_aside

    def _wall_ms(self) -> int:
        return self.now_ms

    def _run_aside(self, run: Callable[[], None], then: Callable[[], None]) -> None:
        self.aside(run, then)  # whatever does it by then

    def _forget_topics(self, delta: MetadataDelta) -> None:
        """Forget what groups have read of topics that exist no more: others may be called so."""
        for topic in delta.removed_topics():
            for coordinator in self.coordinators:
                coordinator.keeper.forget_topic(topic.name)

    def ask(
        self,
        request: Request[A],
        on_answer: Callable[[A], None],
        on_error: Callable[[ErrorCode, str], None],
        timeout_ms: int = 0,
    ) -> None:
        """Ask the controller, and call one of the two back once.

        Without a time of its own, the request takes at most :data:`ASK_TIMEOUT_MS`.
        """

        def answered(answer: A | ErrorAnswer) -> None:
            if isinstance(answer, ErrorAnswer):
                on_error(known_code(answer.code), answer.message)
            else:
                on_answer(answer)

        assert self.ask_controller is not None, "set before requests are served"
        timeout_ms = timeout_ms if timeout_ms > 0 else ASK_TIMEOUT_MS
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
