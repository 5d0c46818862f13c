"""Trio shell: looks at a cluster, a part at a time; what does not answer stays as it was."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from quorate.client.admin import Admin
from quorate.client.transactions.describing import OVER, TransactionDescription
from quorate.errors import KafkaError, QuorateError
from quorate.tools.cluster_looking import min_isr_of
from quorate.tools.configs import parse_resource
from quorate.tools.groups_work import described, lags_of, with_times
from quorate.tools.partitions_work import replicas_on_brokers, topics_of
from quorate.tools.problems import CommandError, explain
from quorate.tools.quorum.view import QuorumView, view_of_answers, view_of_description
from quorate.tools.quorum_work import ask_all, wall_clock_ms
from quorate.tools.reaching import tls_of
from quorate.tools.topics import Client
from quorate.tools.tui.asked import Asked
from quorate.tools.tui.views import places
from quorate.tools.tui.views.frames import DEFAULT_RESOURCE
from quorate.tools.tui.views.places import Place
from quorate.tools.tui.views.snapshot import Measures, Snapshot, measures_of

if TYPE_CHECKING:
    from quorate.model import Endpoint
    from quorate.tools.groups.lag import PartitionLag

TREND_MS: Final = 10_000
"""Over how long rates and trends are taken."""

CONTROLLER_TIMEOUT_S: Final = 1.0
REQUEST_TIMEOUT_MS: Final = 3_000
TOPICS_WITH_MIN_ISR_MAX: Final = 200
"""With more topics, ``min.insync.replicas`` is asked for only where replicas are missing."""

TIMED_LAGS_MAX: Final = 300
"""With more partitions that somebody lags in, the lag is told in records only."""

TOLD_TRANSACTIONS_MAX: Final = 300
LATE_TRANSACTION_MS: Final = 10_000
"""With more transactions open, only those that were begun so long ago are asked for details."""

NEED_SIZES: Final = frozenset({places.TOPICS, places.BROKERS, places.PARTITIONS})
STREAMS: Final = frozenset({places.MESSAGES, places.EVENTS})
NEED_GROUPS: Final = frozenset({places.GROUPS, places.OFFSETS})


def patient_client(client: Client) -> Client:
    """Return a client like another one that gives up soon: the next look is never far away."""
    options = dict(client.options)
    for name in ("connect_timeout_ms", "request_timeout_ms"):
        options[name] = min(options.get(name, REQUEST_TIMEOUT_MS), REQUEST_TIMEOUT_MS)
    return Client(client.bootstrap, options)


class Looker:
    """Owns what was seen last; every look takes over what cannot be asked anew."""

    def __init__(self, asked: Asked) -> None:
        self._client = patient_client(asked.client)
        self._tls = tls_of(asked.options)
        self._controllers: tuple[Endpoint, ...] = ()
        self._measures: deque[Measures] = deque(maxlen=12)
        self._troubles: list[str] = []
        self._stream_trouble = ""
        self.snapshot = Snapshot(0, bootstrap=asked.client.bootstrap)

    def turn_to(self, client: Client) -> None:
        """Ask others from now on."""
        self._client = patient_client(client)
        self._take(bootstrap=client.bootstrap)

    async def look_on(
        self, place: Callable[[], Place], tick: Callable[[], Awaitable[None]]
    ) -> None:
        """Look again and again, as long as brokers answer; ``tick`` is called after each look.

        Raises:
            QuorateError: no broker answers.
        """
        async with self._client.admin() as admin:
            while True:
                await self.look(admin, place())
                await tick()

    async def look(self, admin: Admin, place: Place) -> None:
        """Look once at what a place needs.

        Raises:
            QuorateError: no broker answers.
        """
        self._troubles = []
        try:
            cluster = await admin.describe_cluster(include_fenced=True)
            topics = await topics_of(admin)
            everywhere = len(topics) <= TOPICS_WITH_MIN_ISR_MAX
            least = await min_isr_of(admin, topics, everywhere=everywhere)
        except QuorateError:
            await self.look_at_controllers(None)
            raise
        now_ms = wall_clock_ms()
        self._take(
            now_ms=now_ms,
            answered_ms=now_ms,
            problem=None,
            cluster_id=cluster.cluster_id,
            brokers=cluster.brokers,
            topics=tuple(topics),
            min_isr=least,
        )
        await self.look_at_controllers(admin)
        if place.view in NEED_SIZES:
            await self._part("sizes", self._sizes(admin))
        if place.view in NEED_GROUPS:
            await self._part("groups", self._groups(admin))
        if place.view == places.TXNS:
            await self._part("transactions", self._transactions(admin))
        if place.view == places.CONFIGS:
            resource = place.argument or DEFAULT_RESOURCE
            await self._part("settings", self._configs(admin, resource))
        if self._stream_trouble and place.view in STREAMS:
            self._troubles.append(self._stream_trouble)
        self._measure()
        self._take(troubles=tuple(self._troubles))

    async def look_at_controllers(self, admin: Admin | None) -> None:
        """Ask the controllers how the quorum is, and a broker, if one answers."""
        told = None
        if admin is not None:
            try:
                told = await admin.describe_quorum()
            except QuorateError as error:
                self._troubles.append(f"no controller tells of the quorum: {_short(error)}")
            else:
                known = (replica.endpoint for replica in (*told.voters, *told.observers))
                found = dict.fromkeys(endpoint for endpoint in known if endpoint is not None)
                self._controllers = tuple(found)
        said, _ = await ask_all(self._controllers, CONTROLLER_TIMEOUT_S, self._tls)
        now_ms = wall_clock_ms()
        view: QuorumView | None = None
        if told is not None:
            view = view_of_description(told, said, self.snapshot.cluster_id, now_ms)
        elif said:
            view = view_of_answers(said, now_ms)
        if view is not None:
            self._take(quorum=view)

    def trouble(self, error: Exception) -> None:
        """Remember that no broker answers."""
        self._take(
            now_ms=wall_clock_ms(),
            troubles=(f"no broker answers: {_short(error)}",),
            problem=explain(error),
        )

    def stream_trouble(self, error: Exception) -> None:
        """Remember that what has no end cannot be followed now."""
        self._stream_trouble = _short(error)

    def take_stream(self, **found: Any) -> None:
        """Take over what comes one after the other: records, events."""
        self._stream_trouble = ""
        self._take(**found)

    def _take(self, **found: Any) -> None:
        self.snapshot = replace(self.snapshot, **found)

    async def _part(self, what: str, found: Awaitable[Mapping[str, Any]]) -> None:
        try:
            self._take(**await found)
        except QuorateError as error:
            self._troubles.append(f"{what}: {_short(error)}")

    async def _sizes(self, admin: Admin) -> Mapping[str, Any]:
        found = await replicas_on_brokers(admin)
        alive = {broker.broker_id for broker in self.snapshot.brokers if not broker.is_fenced}
        silent = sorted(alive - set(found))
        if silent:
            names = ", ".join(map(str, silent))
            self._troubles.append(f"broker{'s' if len(silent) > 1 else ''} {names} silent")
        return {"on_brokers": found}

    async def _groups(self, admin: Admin) -> Mapping[str, Any]:
        names = [listing.group_id for listing in await admin.list_groups()]
        groups = await described(admin, names)
        lags: list[PartitionLag] = await lags_of(admin, groups)
        if sum(lag.first_unread is not None for lag in lags) <= TIMED_LAGS_MAX:
            lags = await with_times(self._client, lags)
        ordered = sorted(groups, key=lambda group: group.group_id)
        return {"groups": tuple(ordered), "lags": tuple(lags)}

    async def _transactions(self, admin: Admin) -> Mapping[str, Any]:
        listed = await admin.list_transactions()
        names = [each.transactional_id for each in listed if each.state not in OVER]
        if len(names) > TOLD_TRANSACTIONS_MAX:
            late = await admin.list_transactions(open_for_ms=LATE_TRANSACTION_MS)
            names = [each.transactional_id for each in late][:TOLD_TRANSACTIONS_MAX]
        told = await admin.describe_transactions(names) if names else {}
        found = {n: t for n, t in told.items() if isinstance(t, TransactionDescription)}
        return {"transactions": tuple(listed), "transactions_told": found}

    async def _configs(self, admin: Admin, name: str) -> Mapping[str, Any]:
        resource = parse_resource(name)
        told = (await admin.describe_configs([resource]))[resource]
        if isinstance(told, QuorateError):
            raise told
        return {"configs": {name: told}}

    def _measure(self) -> None:
        """Keep what grows; compare with what it was some seconds ago."""
        now_ms = self.snapshot.now_ms
        old = [m for m in self._measures if now_ms - m.now_ms >= TREND_MS]
        earlier = old[-1] if old else next(iter(self._measures), None)
        self._measures.append(measures_of(self.snapshot))
        self._take(earlier=earlier)


def _short(error: Exception) -> str:
    """Return an error in a few words: without what to try."""
    if isinstance(error, CommandError):
        return error.what
    text = error.message if isinstance(error, KafkaError) else str(error)
    return " ".join(text.split(";")[0].split()) or type(error).__name__
