"""Where directed scenarios play: observe, act, wait for a state, and not for a time."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from quorate.control.messages import DescribeQuorum, DescribeQuorumAnswer
from quorate.dataclass import dataclass
from quorate.errors import QuorateError
from quorate.jepsen.clients.controllers import MaybeDoneError, NotDoneError, QuorumClient
from quorate.jepsen.lab.cluster import NOBODY, Lab, PartitionView
from quorate.jepsen.lab.equipment import Wiring
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.lab.network import Pair
from quorate.jepsen.lab.views import Eyes
from quorate.jepsen.nemesis.fault import Note, NotNowError
from quorate.model import Endpoint

logger = logging.getLogger(__name__)

POLL_S: Final = 0.005
ASK_S_MAX: Final = 1.0
ANEW_S_MAX: Final = 30.0
TRIES: Final = 2
"""Of a scenario that did not come to its end: a busy machine may be too slow for one."""
GROUPS: Final = "__consumer_offsets-"
TRANSACTIONS: Final = "__transaction_state-"
INTERNAL: Final = "__"
LOG_SUFFIX: Final = ".log"


class NotReachedError(QuorateError):
    """A state that a scenario needs did not come: it ends there, and has shown nothing."""


@dataclass(frozen=True, slots=True)
class Cast:
    """A partition, who leads it, and its other replicas in the order in which they are elected."""

    partition: str
    leader: Host
    others: tuple[Host, ...]


class Stage:
    """Acts on a cluster, and owns what is to be put right afterwards."""

    def __init__(self, lab: Lab, rng: Random, note: Note) -> None:
        self.lab: Final = lab
        self.rng: Final = rng
        self._note: Note | None = note
        self._eyes = Eyes()
        self._network: Wiring | None = None

    def cast(self, *, of: str = "", others_min: int = 1) -> Cast:
        """Choose a partition all of whose replicas are in sync and run; note what is about to be.

        It is one of the workloads' topics, or one with records in which GROUPS or TRANSACTIONS are
        kept; and it has at least so many replicas besides the leader.

        Raises:
            NotNowError: there is none.
        """
        partitions = sorted(self.lab.view().partitions.items())
        for name, state in self.rng.sample(partitions, len(partitions)):
            is_wanted = name.startswith(of) if of else not name.startswith(INTERNAL)
            if not is_wanted or state.in_sync != frozenset(state.replicas):
                continue
            hosts = [self.lab.host(node_id) for node_id in state.replicas]
            answering = [host for host in hosts if host is not None and host.answers]
            leader = self.lab.host(state.leader)
            if leader is None or leader not in answering or len(answering) < len(state.replicas):
                continue
            others = tuple(host for host in answering if host is not leader)
            if len(others) >= others_min and not (of and is_empty(leader, name)):
                self.note([leader, *others], partition=name)
                return Cast(name, leader, others)
        raise NotNowError(f"no partition with {1 + others_min} replicas has all of them in sync")

    def note(self, targets: Sequence[Host], **detail: str) -> None:
        """Note on whom something is about to happen; once, before anything does."""
        note, self._note = self._note, None
        if note is not None:
            note(targets, **detail)

    # --- the network

    @property
    def network(self) -> Wiring:
        """The network between the nodes.

        Raises:
            NotNowError: it is none that can be cut.
        """
        equipment = self.lab.equipment
        if equipment is None or equipment.network is None:
            raise NotNowError("the network between these nodes cannot be cut")
        self._network = equipment.network
        return self._network

    @property
    def proxy(self) -> Wiring:
        """The network between the nodes, if what is cut is held back there, and links can be late.

        Raises:
            NotNowError: it is none of this kind.
        """
        network = self.network
        if network.has_clients:
            raise NotNowError("links are late only with --network proxy")
        return network

    def place(self, host: Host) -> int:
        """Return a node's place in the network."""
        return [*self.lab.brokers, *self.lab.controllers].index(host)

    def between(self, sources: Sequence[Host], targets: Sequence[Host]) -> frozenset[Pair]:
        """Return what to cut so that these are not heard by those."""
        return frozenset(
            (self.place(source), self.place(target)) for source in sources for target in targets
        )

    def apart(self, one: Sequence[Host], other: Sequence[Host]) -> frozenset[Pair]:
        """Return what to cut so that neither these nor those hear of each other."""
        return self.between(one, other) | self.between(other, one)

    def heal(self, *, hard: bool) -> None:
        """Let everything through again, and at once."""
        if self._network is not None:
            self._network.slow({})
            self._network.heal(hard=hard)

    # --- what is seen

    def seen_by(self, host: Host, partition: str) -> PartitionView | None:
        """Return what one broker says of a partition."""
        if not host.answers:
            return None
        said = self._eyes.look([Endpoint(*host.address)])
        return said[0].partitions.get(partition) if said else None

    def leads(self, host: Host, partition: str, who: Host) -> bool:
        """Whether one broker says that another leads."""
        seen = self.seen_by(host, partition)
        return seen is not None and seen.leader == who.node_id

    def has_isr(self, host: Host, partition: str, members: Sequence[Host]) -> bool:
        """Whether one broker says that exactly these are in sync."""
        seen = self.seen_by(host, partition)
        return seen is not None and seen.in_sync == frozenset(member.node_id for member in members)

    def leads_alone(self, host: Host) -> bool:
        """Whether a broker says that nobody else is in sync in any partition that it leads."""
        said = self._eyes.look([Endpoint(*host.address)]) if host.answers else []
        led = [p for each in said for p in each.partitions.values() if p.leader == host.node_id]
        return bool(led) and all(state.in_sync == frozenset((host.node_id,)) for state in led)

    def is_led_by_another(self, partition: str, than: Host) -> bool:
        """Whether somebody says that the partition has another leader by now."""
        state = self.lab.view().partitions.get(partition)
        return state is not None and state.leader not in (NOBODY, than.node_id)

    def quorum_of(self, controller: Host) -> DescribeQuorumAnswer | None:
        """Return what one controller knows of itself and of who leads; None if it does not say."""
        try:
            with QuorumClient([Endpoint(*controller.address)], 0) as client:
                return client.ask(
                    DescribeQuorum(local=True),
                    DescribeQuorumAnswer,
                    request_id=b"",
                    timeout_s=ASK_S_MAX,
                )
        except (NotDoneError, MaybeDoneError):
            return None

    def until(self, complaint: str, seconds: float, holds: Callable[[], bool]) -> None:
        """Wait for a state.

        Raises:
            NotReachedError: it did not come in this time.
        """
        if not self.comes(seconds, holds):
            raise NotReachedError(complaint)

    @staticmethod
    def comes(seconds: float, holds: Callable[[], bool]) -> bool:
        """Wait for a state; return whether it came in this time."""
        deadline_s = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(POLL_S)
        return True

    @staticmethod
    def load(seconds: float) -> None:
        """Let clients go on for a while: there is no state to wait for."""
        time.sleep(seconds)

    # --- in the end

    def restore(self) -> None:
        """Let everybody run and hear each other again."""
        self.heal(hard=self.rng.random() < 0.5)
        for host in (*self.lab.controllers, *self.lab.brokers):
            if not host.runs:
                host.start()
            elif host.paused:
                host.resume()
        self._eyes.close()

    def begin_anew(self) -> None:
        """Have everything as it was before a scenario began, or as much as comes in time."""
        self.restore()
        self.comes(ANEW_S_MAX, self._is_whole)

    def _is_whole(self) -> bool:
        partitions = self.lab.view().partitions.values()
        return bool(partitions) and all(
            state.leader != NOBODY and state.in_sync == frozenset(state.replicas)
            for state in partitions
        )


def last_segment(host: Host, partition: str) -> Path | None:
    """Return the file that a node appends a partition's records to; None if it has none."""
    segments = sorted((host.data / partition).glob(f"*{LOG_SUFFIX}"))
    return segments[-1] if segments else None


def is_empty(host: Host, partition: str) -> bool:
    """Whether nothing was ever written to a partition there."""
    log = last_segment(host, partition)
    return log is None or log.stat().st_size == 0


Play = Callable[[Stage], str]
"""Plays a scenario and returns a sentence: what was seen to happen."""


class Directed:
    """A fault that is a scenario; :meth:`heal` puts everything right, wherever it ended."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._stage: Stage | None = None
        self._seen = ""

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Play.

        Raises:
            NotNowError: it cannot be played now; nothing was done.
        """
        self._stage = Stage(lab, rng, note)
        for tried in range(1, TRIES + 1):
            try:
                self._seen = self._play(self._stage)
            except NotReachedError as error:
                logger.info("a scenario did not come to its end: %s", error)
            except NotNowError:
                if tried == 1:
                    raise
            else:
                break
            if tried < TRIES:
                self._stage.begin_anew()

    def verified(self) -> str:
        """Say what was seen; nothing if the scenario did not come to its end."""
        return self._seen

    def heal(self) -> None:
        """Let everybody run and hear each other again."""
        if self._stage is not None:
            self._stage.restore()
