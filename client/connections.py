"""A connection per broker; metadata, refreshed when stale; whom to ask, with retries."""

import logging
import math
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from operator import attrgetter
from random import Random
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

import trio

from quorate.client.arguments import require_text
from quorate.client.errors import (
    BootstrapError,
    ClosedError,
    in_words,
    topic_error,
    unknown_partition,
)
from quorate.client.routing.cluster import ClusterView, Leader, TopicView, parse_bootstrap
from quorate.client.routing.retries import Backoff, Remedy, remedy_for
from quorate.dataclass import dataclass
from quorate.errors import (
    ErrorCode,
    KafkaError,
    NetworkError,
    QuorateError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from quorate.model import Endpoint, TopicPartition
from quorate.net.bell import Bell
from quorate.net.rpc import Connection, connect
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

logger = logging.getLogger(__name__)

Dial: TypeAlias = Callable[[Endpoint], Awaitable[trio.abc.Stream]]
"""Opens a byte stream to a broker; raises NetworkError if it cannot."""

MAIN_LANE: Final = ""
RECONNECT: Final = Backoff(first_ms=50, max_ms=1_000)
NEXT_BROKER_S: Final = 2.0
"""How long to wait for any one broker while there are others to ask."""

QUICK: Final = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID})
"""What any broker answers at once, and may be asked twice: then not one that hangs."""

PATIENCE: Final = Backoff(first_ms=2_000, max_ms=60_000)

T = TypeVar("T")

RETRY: Final = Backoff(first_ms=100, max_ms=1_000)
REFRESH_INTERVALS_S: Final = (0.1, 1.0)
"""How often to ask for metadata: at a tenth of the time for which leaders are missing."""


class ConnectionOptions(TypedDict, total=False):
    """Keyword arguments that Producer, Consumer and Admin have in common."""

    client_id: str
    """What brokers call this client in their logs and quotas; "quorate" if not given."""

    connect_timeout_ms: int
    """How long to look for a first broker, and how long one attempt may take (10,000)."""

    request_timeout_ms: int
    """How long a broker may take for an answer (30,000)."""

    metadata_max_age_ms: int
    """How old knowledge about leaders may get without a reason to doubt it (300,000)."""

    topic_wait_ms: int
    """How long a topic that does not exist may take to appear, and a leader (5,000)."""

    allow_auto_create_topics: bool
    """Whether brokers may create the topics asked for, if they are set up to (False)."""

    ssl_context: ssl.SSLContext | None
    """For TLS: whom to trust, and who we are."""

    dial: Dial | None
    """Another way to open a byte stream to a broker, for tunnels and tests."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The connection options with what was left out filled in."""

    bootstrap: tuple[Endpoint, ...]
    client_id: str
    connect_timeout_ms: int
    request_timeout_ms: int
    metadata_max_age_ms: int
    topic_wait_ms: int
    allow_auto_create_topics: bool
    dial: Dial


def client_settings(bootstrap: str | Sequence[str], options: ConnectionOptions) -> ClientSettings:
    """Check and complete what a public constructor was given.

    Raises:
        ValueError: An address or a number makes no sense.
        TypeError: There is no such option.
    """
    unknown = sorted(set(options) - set(ConnectionOptions.__annotations__))
    if unknown:
        raise TypeError(f"there is no option {unknown[0]!r}")
    connect_timeout_ms = options.get("connect_timeout_ms", 10_000)
    settings = ClientSettings(
        bootstrap=parse_bootstrap(bootstrap),
        client_id=options.get("client_id", "quorate"),
        connect_timeout_ms=connect_timeout_ms,
        request_timeout_ms=options.get("request_timeout_ms", 30_000),
        metadata_max_age_ms=options.get("metadata_max_age_ms", 300_000),
        topic_wait_ms=options.get("topic_wait_ms", 5_000),
        allow_auto_create_topics=options.get("allow_auto_create_topics", False),
        dial=options.get("dial") or _tcp_dial(options.get("ssl_context"), connect_timeout_ms),
    )
    require_text("client_id", settings.client_id)
    for name in ("connect_timeout_ms", "request_timeout_ms", "metadata_max_age_ms"):
        require_at_least(name, getattr(settings, name), 1)
    require_at_least("topic_wait_ms", settings.topic_wait_ms, 0)
    return settings


def _tcp_dial(ssl_context: ssl.SSLContext | None, timeout_ms: int) -> Dial:
    async def dial(endpoint: Endpoint) -> trio.abc.Stream:
        return await connect(endpoint, ssl_context=ssl_context, timeout_ms=timeout_ms)

    return dial


def require_at_least(name: str, value: int, least: int) -> None:
    """Raise ValueError, naming the argument, unless the value is a number no smaller than that."""
    if value < least:
        raise ValueError(f"{name} is {value}, but must be at least {least}")


def several(what: str, given: Iterable[T]) -> list[T]:
    """Return what was given as a list; a single one would be taken for its letters or parts.

    Raises:
        TypeError: One name or partition was given instead of several.
    """
    if isinstance(given, str | bytes | TopicPartition):
        raise TypeError(f"{what} takes several, in a list or so: [{given!r}], not {given!r}")
    return list(given)


def now_ms() -> int:
    """Return Trio's clock, which deadlines are reckoned in; not the time of day."""
    return int(trio.current_time() * 1000)


class _Link:
    """The way to one endpoint: its connection, or how it went the last time.

    Invariant: at most one task at a time tries to connect.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.connection: Connection | None = None
        self.connecting = False
        self.failures = 0
        self.retry_at_s = 0.0
        self.last_error: QuorateError | None = None

    @property
    def ready(self) -> Connection | None:
        """The connection, if there is one that works."""
        if self.connection is not None and self.connection.closed_because is None:
            return self.connection
        return None


class Cluster:
    """All brokers of a cluster as one client sees them.

    It owns the connections and the view, and runs their tasks in the nursery that it is given.
    Whoever wants to know when something changed (a connection came or went, metadata arrived)
    registers a callback.
    """

    def __init__(self, settings: ClientSettings, nursery: trio.Nursery, rng: Random) -> None:
        self.settings = settings
        self.view = ClusterView()
        self._nursery = nursery
        self._rng = rng
        self._links: dict[tuple[Endpoint, str], _Link] = {}
        self._topics: set[str] = set()
        self._new_topics = False
        self._stale_bell = Bell()
        self._stale = False
        self._changed = trio.lowlevel.ParkingLot()
        self._listeners: list[Callable[[], None]] = []
        self._metadata_error: QuorateError | None = None
        self._metadata_failures = 0
        self._closed: ClosedError | None = None
        self._missing_since_s = math.inf
        """Since when metadata lacks a topic, or the leader of a partition."""

    async def open(self) -> None:
        """Find a broker and learn about the cluster; then keep what is known fresh.

        Raises:
            BootstrapError: No bootstrap address led to a broker in time.
        """
        deadline_s = trio.current_time() + self.settings.connect_timeout_ms / 1000
        attempts = 0
        while True:
            try:
                with trio.CancelScope(deadline=deadline_s):
                    await self._fetch_metadata()
                    self._nursery.start_soon(self._keep_metadata)
                    return
            except NetworkError as error:
                self._metadata_error = error
            attempts += 1
            pause_s = RECONNECT.pause_ms(attempts, self._rng) / 1000
            if trio.current_time() + pause_s >= deadline_s:
                raise self._bootstrap_error() from None
            await trio.sleep(pause_s)

    def _bootstrap_error(self) -> BootstrapError:
        addresses = ", ".join(map(str, self.settings.bootstrap))
        why = in_words(self._metadata_error) if self._metadata_error else "no answer in time"
        return BootstrapError(
            f"no broker at {addresses}: {why}. Is one running there? Try 'quorate up', or check the"
            " address and whether the listener wants TLS"
        )

    def close(self, error: ClosedError) -> None:
        """Fail whoever waits for a broker, or will, with that error; connections end with tasks."""
        self._closed = error
        self._changed.unpark_all()

    async def _check_open(self) -> None:
        """Raise why there will be no connections and no metadata any more, if so."""
        if self._closed is not None:
            await trio.lowlevel.checkpoint_if_cancelled()  # the client's own tasks end by that
            raise copy(self._closed)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call back whenever a connection comes or goes or metadata arrives; never wait in it."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        self._changed.unpark_all()
        for listener in self._listeners:
            listener()

    def pause_s(self, backoff: Backoff, attempts: int) -> float:
        """Return how long to wait before another attempt."""
        return backoff.pause_ms(attempts, self._rng) / 1000

    # Connections

    def connection(self, broker_id: int, lane: str = MAIN_LANE) -> Connection | None:
        """Return the connection to a broker; without one, start to make it in the background.

        What may keep a broker waiting (a fetch) goes on a lane of its own, for brokers answer the
        requests of a connection in order.
        """
        endpoint = self.view.brokers.get(broker_id)
        if endpoint is None:
            return None
        link = self._link(endpoint, lane)
        if link.ready is None and not link.connecting:
            link.connecting = True
            self._nursery.start_soon(self._open_in_background, link)
        return link.ready

    def finalized_level(self, feature: str) -> int:
        """Return the level of a feature that the cluster agreed on (KIP-584); 0 if it did not."""
        ready = [link.ready for link in self._links.values()]
        newest = max(filter(None, ready), key=lambda each: each.features_epoch, default=None)
        return 0 if newest is None else newest.finalized_features.get(feature, 0)

    def last_error(self, broker_id: int) -> QuorateError | None:
        """Return why there is no connection to a broker, if that is known."""
        endpoint = self.view.brokers.get(broker_id)
        return None if endpoint is None else self._link(endpoint).last_error

    async def reach(self, broker_id: int, lane: str = MAIN_LANE) -> Connection:
        """Return a connection to a broker, once there is one; the caller sets the deadline.

        Raises:
            NetworkError: There is no such broker, or it cannot be reached.
        """
        endpoint = self.view.brokers.get(broker_id)
        if endpoint is None:
            raise NetworkError(f"the cluster has no broker {broker_id} that is alive")
        return await self._reach(self._link(endpoint, lane))

    def _link(self, endpoint: Endpoint, lane: str = MAIN_LANE) -> _Link:
        link = self._links.get((endpoint, lane))
        if link is None:
            link = self._links[endpoint, lane] = _Link(endpoint)
        return link

    async def _reach(self, link: _Link) -> Connection:
        while link.ready is None:
            await self._check_open()
            if link.connecting:
                await self._changed.park()
                if not link.connecting and link.ready is None and link.last_error is not None:
                    raise NetworkError(in_words(link.last_error))
            else:
                link.connecting = True
                await self._open(link)
        return link.ready

    async def _open_in_background(self, link: _Link) -> None:
        try:
            await trio.sleep_until(link.retry_at_s)
            await self._open(link)
        except QuorateError as error:
            logger.debug("%s", error)
        finally:
            link.connecting = False

    async def _open(self, link: _Link) -> None:
        """Connect; the link says already that somebody does."""
        try:
            stream = await self.settings.dial(link.endpoint)
            peer = f"broker at {link.endpoint}"
            connection = Connection(stream, peer=peer, client_id=self.settings.client_id)
            await self._nursery.start(self._run, link, connection)
            try:
                await connection.negotiate(timeout_ms=self.settings.connect_timeout_ms)
            except BaseException:
                connection.close("it could not be used")
                raise
            link.connection = connection
            link.failures = 0
            link.last_error = None
        except QuorateError as error:
            link.failures += 1
            link.last_error = error
            pause_ms = RECONNECT.pause_ms(link.failures, self._rng)
            link.retry_at_s = trio.current_time() + pause_ms / 1000
            self.refresh_soon()
            raise
        finally:
            link.connecting = False
            self._notify()

    async def _run(
        self, link: _Link, connection: Connection, *, task_status: trio.TaskStatus[None]
    ) -> None:
        try:
            await connection.run(task_status=task_status)
        finally:
            if link.connection is connection:
                link.connection = None
                link.last_error = connection.closed_because
                self.refresh_soon()
            self._notify()

    async def _any(self) -> Connection:
        """Return a connection to some broker: the idlest that is open, or the first that opens."""
        await self._check_open()
        endpoints = list(self.view.brokers.values())
        self._rng.shuffle(endpoints)
        endpoints += [e for e in self.settings.bootstrap if e not in endpoints]
        links = [self._link(endpoint) for endpoint in endpoints]
        links.sort(key=lambda link: link.ready is not None and link.ready.is_silent)
        ready = [each for link in links if (each := link.ready) and not each.is_silent]
        if ready:  # not one that hangs, and has been asked something already
            return min(ready, key=attrgetter("in_flight"))
        errors: list[str] = []
        for link in links:
            patience_s = math.inf if link is links[-1] else NEXT_BROKER_S
            try:
                # One that hangs takes connections and says nothing; others may be well.
                with trio.move_on_after(patience_s):
                    return await self._reach(link)
                errors.append(f"broker at {link.endpoint} does not answer")
            except QuorateError as error:
                errors.append(in_words(error))
        raise NetworkError("; ".join(errors))

    # Metadata

    def refresh_soon(self) -> None:
        """Ask for metadata anew, in the background and not more often than is good for brokers."""
        self._stale = True
        self._stale_bell.ring()

    def watch(self, topics: Iterable[str]) -> None:
        """Keep metadata of these topics from now on."""
        fresh = [topic for topic in topics if topic not in self._topics]
        for topic in fresh:
            require_text("topic", topic)
        if fresh:
            self._topics.update(fresh)
            self._new_topics = True
            self.refresh_soon()

    async def topic(self, name: str) -> TopicView:
        """Return a topic that exists, waiting for it to appear for ``topic_wait_ms``.

        Raises:
            UnknownTopicOrPartitionError: It does not exist.
            KafkaError: It may not be seen.
            NetworkError: No broker answers.
        """
        self.watch([name])
        with trio.move_on_after(self.settings.topic_wait_ms / 1000):
            while True:
                view = self.view.topics.get(name)
                if view is not None and view.partitions and view.error == ErrorCode.NONE:
                    return view
                if view is not None and remedy_for(view.error) is Remedy.GIVE_UP:
                    self._topics.discard(name)
                    raise topic_error(view.name, view.error)
                self.refresh_soon()
                await self._check_open()
                await self._changed.park()
        self._topics.discard(name)
        view = self.view.topics.get(name)
        if view is not None and view.error != ErrorCode.NONE:
            raise topic_error(view.name, view.error)
        if self._metadata_error is not None:
            raise NetworkError(
                f"nothing is known of topic {name!r}: {in_words(self._metadata_error)}"
            )
        raise UnknownTopicOrPartitionError(f"nothing was heard of topic {name!r} in time")

    async def _keep_metadata(self) -> None:
        last_s = trio.current_time()
        while True:
            max_age_s = self.settings.metadata_max_age_ms / 1000
            await self._stale_bell.wait_until(last_s + max_age_s)
            if not self._new_topics:
                least_s, most_s = REFRESH_INTERVALS_S
                tenth_s = (last_s - self._missing_since_s) / 10
                await trio.sleep_until(last_s + min(most_s, max(least_s, tenth_s)))
            if not self._stale and trio.current_time() < last_s + max_age_s:
                continue
            try:
                await self._fetch_metadata()
            except QuorateError as error:
                self._metadata_error = error
                self.refresh_soon()
                self._notify()
                await trio.sleep(self.pause_s(RETRY, self._metadata_failures))
            last_s = trio.current_time()

    async def _fetch_metadata(self) -> None:
        """Ask a broker about the topics that are watched."""
        self._stale = self._new_topics = False
        names = sorted(self._topics)
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=self.settings.allow_auto_create_topics,
        )
        self._metadata_failures += 1
        connection = await self._any()
        response: MetadataResponse = await connection.call(
            ApiKey.METADATA,
            request,
            timeout_ms=self.settings.request_timeout_ms,
            patience_s=self.pause_s(PATIENCE, self._metadata_failures),
        )
        self._metadata_error = None
        self._metadata_failures = 0
        self.view.update(response)
        since_s = min(self._missing_since_s, trio.current_time())
        self._missing_since_s = since_s if self.view.lacks_leaders(names) else math.inf
        if self.view.lacks_leaders([name for name in names if self._may_appear(name)]):
            self.refresh_soon()
        self._notify()

    def _may_appear(self, name: str) -> bool:
        view = self.view.topics.get(name)
        return view is None or remedy_for(view.error) is not Remedy.GIVE_UP

    async def metadata_of(self, topics: Sequence[str] | None) -> MetadataResponse:
        """Ask about some topics, or all for None, without watching them."""
        asked = None if topics is None else [MetadataRequestTopic(name=t) for t in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        response: MetadataResponse = await self.call_any(ApiKey.METADATA, request)
        return response

    async def names_of_topics(self, topic_ids: Iterable[bytes]) -> dict[bytes, str]:
        """Return what topics are called; those that the asked broker does not know are left out."""
        asked = [MetadataRequestTopic(name=None, topic_id=each) for each in sorted(topic_ids)]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        response: MetadataResponse = await self.call_any(ApiKey.METADATA, request)
        return {each.topic_id: each.name for each in response.topics if each.name is not None}

    # Requests with retries

    async def call_any(self, api_key: int, request: Any) -> Any:
        """Ask any broker; ask another one while the connection breaks and time is left.

        What is quick is asked of another one, too, when a broker does not answer for a while.

        Raises:
            QuorateError: What went wrong the last time.
        """
        return await self._retry(self._any, api_key, request)

    async def call_broker(
        self, broker_id: int, api_key: int, request: Any, *, version_max: int | None = None
    ) -> Any:
        """Ask one broker, again while the connection breaks and time is left."""

        async def reach() -> Connection:
            return await self.reach(broker_id)

        return await self._retry(reach, api_key, request, version_max)

    async def _retry(
        self,
        reach: Callable[[], Awaitable[Connection]],
        api_key: int,
        request: Any,
        version_max: int | None = None,
    ) -> Any:
        timeout_ms = self.settings.request_timeout_ms
        last_error: QuorateError | None = None
        attempts = 1
        with trio.move_on_after(timeout_ms / 1000):
            while True:
                patience_s = self.pause_s(PATIENCE, attempts) if api_key in QUICK else math.inf
                try:
                    connection = await reach()
                    return await connection.call(
                        api_key,
                        request,
                        timeout_ms=timeout_ms,
                        version_max=version_max,
                        patience_s=patience_s,
                    )
                except NetworkError as error:
                    last_error = error
                await trio.sleep(self.pause_s(RETRY, attempts))
                attempts += 1
        why = f": {in_words(last_error)}" if last_error else ""
        raise RequestTimedOutError(f"no answer within {timeout_ms} ms{why}")

    async def wait_for_partition(self, topic_partition: TopicPartition) -> None:
        """Return once a partition is known, waiting for it to appear for ``topic_wait_ms``.

        Who was given a new partition by a group may know of it before this client's metadata does.

        Raises:
            UnknownTopicOrPartitionError: There is no such partition.
            KafkaError: It may not be seen.
        """
        topic, number = topic_partition.topic, topic_partition.partition
        view = await self.topic(topic)
        with trio.move_on_after(self.settings.topic_wait_ms / 1000):
            while number not in view.partitions:
                self.refresh_soon()
                await self._check_open()
                await self._changed.park()
                view = self.view.topics.get(topic, view)
            return
        raise unknown_partition(topic_partition, len(view.partitions))

    def leader_if_known(self, topic_partition: TopicPartition) -> Leader | None:
        """Return who leads a partition; if nobody is known to, find out in the background."""
        leader = self.view.leader_of(topic_partition)
        if leader is None:
            self.watch((topic_partition.topic,))  # who did not find it watches it no more
            self.refresh_soon()
        return leader

    async def leader_of(self, topic_partition: TopicPartition) -> int:
        """Return who leads a partition, waiting for an election for ``topic_wait_ms``.

        Raises:
            UnknownTopicOrPartitionError: There is no such partition.
            KafkaError: Nobody leads it.
        """
        await self.wait_for_partition(topic_partition)
        with trio.move_on_after(self.settings.topic_wait_ms / 1000):
            while (leader := self.view.leader_of(topic_partition)) is None:
                self.refresh_soon()
                await self._check_open()
                await self._changed.park()
            return leader.broker_id
        message = f"nobody leads {topic_partition}: its brokers are down, or an election is on"
        raise KafkaError(message, code=ErrorCode.LEADER_NOT_AVAILABLE)
