"""Consumer groups read along, whose members come, leave, die, oversleep and come back.

Proves that in one generation of a group no partition has two owners and no record of one is given
to two members; that commits pass no record that nobody was given, never go back, and are not lost;
that who slept past its session commits nothing any more; and that in the end every group has come
to the end of its partitions. There are an eager group, a cooperative one, and one of the protocol
of KIP-848, in which the coordinator assigns; with ``--client librdkafka`` most members are stock
ones, and one in each group is ours.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from quorate.errors import KafkaError
from quorate.jepsen.clients import choosing, committed
from quorate.jepsen.clients.grouping import Member, Membership
from quorate.jepsen.clients.own_member import OwnMember
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.rereading import list_offset
from quorate.jepsen.clients.stock_member import StockMember
from quorate.jepsen.clients.wire import LATEST, ClosedError
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe
from quorate.jepsen.workloads.producing import Producing, start_all, stop_all
from quorate.jepsen.workloads.reading_back import read_back
from quorate.jepsen.workloads.workload import Context, Topic, WorkloadKind
from quorate.model import TopicPartition

TOPIC: Final = "groups"
PROTOCOLS: Final[Mapping[str, tuple[str, str]]] = {
    "eager": ("classic", "range"),
    "cooperative": ("classic", "cooperative-sticky"),
    "kip-848": ("consumer", ""),
}
"""The groups, by name: protocol and strategy."""
MEMBERS: Final = 3
SESSION_MS: Final = 3_000
OTHERS_SESSION_MS: Final = 6_000
"""Where nobody has said that less is enough."""
PRODUCERS: Final = 2
OBSERVE_S: Final = 0.2
ANSWERED_S_MAX: Final = 32.0
CAUGHT_UP_S_MAX: Final = 60.0
LEFT_S_MAX: Final = 70.0
"""More than a member waits for itself."""
AT_ONCE_S_MAX: Final = 3.0
CLOSE_S_MAX: Final = 10.0


class Observer:
    """A thread that asks again and again what a group has committed, and is no member of it."""

    def __init__(
        self, recorder: Recorder, bootstrap: str, group: str, partitions: Sequence[TopicPartition]
    ) -> None:
        self.told: dict[TopicPartition, int] = {}
        """What it was told last."""
        self.group: Final = group
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._scribe = Scribe(recorder)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopping.set()
        self._thread.join(CLOSE_S_MAX)

    def _run(self) -> None:
        with Raw(self._bootstrap) as raw:
            while not self._stopping.wait(OBSERVE_S):
                self._scribe.begin("committed", [self.group, [str(p) for p in self._partitions]])
                try:
                    found = committed.fetch(raw, self.group, self._partitions)
                except (NotNowError, ClosedError, KafkaError) as error:
                    self._scribe.end(Kind.FAIL, "committed", str(error))
                else:
                    self.told = {where: offset for where, (offset, _) in found.items()}
                    told = [[str(where), max(offset, -1)] for where, offset in self.told.items()]
                    self._scribe.end(Kind.OK, "committed", told)


class Groups:
    """Producers, groups with their members and observers."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topic = context.topic_options.topic(TOPIC)
        self._partitions = [
            TopicPartition(self._topic.name, number) for number in range(self._topic.partitions)
        ]
        self._producers: list[Producing] = []
        self._members: list[Member] = []
        self._observers: list[Observer] = []
        self._errors: list[str] = []

    def topics(self) -> Sequence[Topic]:
        """Return the one topic."""
        return [self._topic]

    def start(self) -> None:
        """Begin to send, and to read in groups."""
        context = self._context
        self._producers = start_all(
            context, self._topic.name, lambda: self._topic.partitions, shares=[1] * PRODUCERS
        )
        is_ours = bool(context.lab.brokers)  # elsewhere sessions may be long
        session_ms = SESSION_MS if is_ours else OTHERS_SESSION_MS
        for name, (protocol, strategy) in PROTOCOLS.items():
            group = f"{self._topic.name}-{name}"
            membership = Membership(
                context.bootstrap,
                group,
                self._topic.name,
                protocol,
                strategy,
                session_ms,
                may_die=is_ours,
            )
            self._members += [self._member(number, membership) for number in range(MEMBERS)]
            observer = Observer(context.recorder, context.bootstrap, group, self._partitions)
            self._observers.append(observer)

    def _member(self, number: int, membership: Membership) -> Member:
        kind = StockMember if self._context.client == choosing.LIBRDKAFKA and number else OwnMember
        rng = Random(self._context.rng.getrandbits(64))
        return kind(self._context.recorder, membership, rng)

    def stop(self) -> None:
        """Send no more; wait for the answers, and until the groups have read all of it."""
        stop_all(self._producers, ANSWERED_S_MAX)
        self._wait_for_groups()
        self._stop_members(LEFT_S_MAX)

    def _wait_for_groups(self) -> None:
        """Wait until what is committed stands still at the end of each partition."""
        deadline_s = time.monotonic() + CAUGHT_UP_S_MAX
        with Raw(self._context.bootstrap) as raw:
            behind = self._behind(raw)
            while behind and time.monotonic() < deadline_s:
                time.sleep(OBSERVE_S)
                behind = self._behind(raw)
        if behind:
            Scribe(self._context.recorder).tell("complaint", ["group-stuck", "; ".join(behind)])

    def _behind(self, raw: Raw) -> list[str]:
        """Say which groups have not committed the end of which partitions."""
        try:
            ends = {where: list_offset(raw, where, LATEST) for where in self._partitions}
        except (NotNowError, ClosedError) as error:
            raw.forget(self._topic.name)
            return [f"the ends of partitions are not known: {error}"]
        return [
            f"{observer.group} has committed {observer.told.get(where)} of {end} in {where}"
            for observer in self._observers
            for where, end in ends.items()
            if end and observer.told.get(where) != end
        ]

    def final(self) -> None:
        """Read all partitions."""
        self._errors += read_back(self._context, self._partitions)

    def errors(self) -> Sequence[str]:
        """Return what went wrong with clients."""
        return self._errors

    def close(self) -> None:
        """End at once."""
        stop_all(self._producers, 0)
        self._stop_members(AT_ONCE_S_MAX)

    def _stop_members(self, seconds_max: float) -> None:
        deadline_s = time.monotonic() + seconds_max
        members, self._members = self._members, []
        observers, self._observers = self._observers, []
        threads = [threading.Thread(target=member.stop, daemon=True) for member in members]
        for thread in threads:  # each leaves on its own
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        for member in members:
            self._errors += member.errors
        for observer in observers:
            observer.stop()


GROUPS: Final = WorkloadKind(
    "groups",
    "groups of all protocols read along; members come, leave, die and oversleep",
    Groups,
    clients=(choosing.OWN, choosing.LIBRDKAFKA),
    quotas_per_s={"acks": 5},
)
