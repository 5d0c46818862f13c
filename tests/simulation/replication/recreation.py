"""A topic that is deleted and made again, under the same name and another id; and its clients.

Whoever names topics by id begins anew with a new one, under the same producer id: with the first
sequence, and at the first offset. Whoever names them by name goes on with both, as far as brokers
let it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from quorate.control import messages as m
from quorate.errors import ErrorCode
from quorate.model import UNKNOWN_EPOCH
from quorate.protocol.messages.data import PartitionData
from quorate.quorum.control import topics
from tests.simulation.replication.clients import Consumer, Producer
from tests.simulation.replication.controllers import DEFAULTS
from tests.simulation.replication.scenario import TOPIC

if TYPE_CHECKING:
    from tests.simulation.replication.world import Known, World

Find = Callable[[str], "Known | None"]
"""Returns what a broker tells of a client's partition."""

DELETIONS_PER_S: Final = 0.5
PAUSES_S: Final = (0.0, 0.0, 0.02, 0.3, 1.5)
"""Between a deletion and the creation that follows it, at most."""
AT_ONCE: Final = 0.15
"""How often a topic is deleted that has just been made."""
RETRY_S: Final = 0.2


class Recreator:
    """Deletes the topic at random moments, and makes it again; when it rests, there is one."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._rng = world.rng("recreation")
        self._resting = False
        self._plan()

    def rest(self) -> None:
        """Delete nothing any more."""
        self._resting = True

    def _plan(self) -> None:
        self._world.timeline.after(self._rng.expovariate(DELETIONS_PER_S), self._delete)

    def _delete(self) -> None:
        if self._resting:
            return
        controllers, request = self._world.controllers, m.DeleteTopics((TOPIC,))
        controllers.decide(lambda image: topics.delete_topics(image, request, controllers.wall_ms))
        self._world.trace.note("recreator", "deletes")
        pause_s = self._rng.choice(PAUSES_S) * self._rng.random()
        if pause_s:
            self._world.timeline.after(pause_s, self._create)
        else:
            self._create()

    def _create(self) -> None:
        scenario, rng = self._world.scenario, self._rng
        partitions = rng.choice((scenario.partitions, scenario.partitions, 1, 2, 3))
        replicas = rng.choice((scenario.replication_factor, scenario.replication_factor, 1, 2, 3))
        new = self._world.new_topic(partitions, min(replicas, scenario.brokers))
        controllers, request = self._world.controllers, m.CreateTopics((new,))
        answer: Any = controllers.decide(
            lambda image: topics.create_topics(image, request, DEFAULTS, controllers.wall_ms, rng)
        )
        failure = answer.topics[0].failure
        self._world.trace.note("recreator", f"creates {partitions} x {replicas}: {failure}")
        if failure != m.DONE:
            self._world.timeline.after(RETRY_S, self._create)
        elif rng.random() < AT_ONCE:
            self._delete()
        else:
            self._plan()


class ProducerById(Producer):
    """Writes to the newest topic of the name that it has heard of."""

    def __init__(self, find: Find, *args: Any) -> None:
        self._find = find
        super().__init__(*args)

    def _next(self) -> None:
        if self.topic_id is None and not self._look():
            self.elsewhere()
            self.later(self._next)
        else:
            super()._next()

    def _look(self) -> bool:
        """Ask for the topic's id; return whether it is a new one."""
        known = self._find(self._broker)
        if known is None or not self.ledger.is_newer(known.topic_id, self.topic_id):
            return False
        self.topic_id = known.topic_id
        self._sequence = 0
        return True

    def _value(self, sequence: int) -> bytes:
        assert self.topic_id is not None, "it was looked for"
        return b"%s/%d.%d;" % (self.topic_id.hex()[:6].encode(), self._producer_id, sequence)

    def _again(self) -> None:
        self.elsewhere()
        self.later(self._next if self._look() else self._send)


class ProducerByName(Producer):
    """Writes to whatever has the name, and in a new epoch where its sequence is not the next."""

    def __init__(self, find: Find, *args: Any) -> None:
        del find
        super().__init__(*args)
        self.ledger.resuming.add(self._producer_id)

    def _value(self, sequence: int) -> bytes:
        return b"%d/%d.%d;" % (self._epoch, self._producer_id, sequence)

    def _refused(self, code: ErrorCode) -> None:
        self.elsewhere()
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._in_new_epoch()
            self.later(self._next)
        else:
            self.later(self._send)


class ConsumerById(Consumer):
    """Reads the newest topic of the name that it has heard of."""

    def __init__(self, find: Find, *args: object) -> None:
        self._find = find
        super().__init__(*args)

    def _fetch(self) -> None:
        if self.topic_id is None:
            self.elsewhere()
        if self.topic_id is None:
            self.later(self._fetch)
        else:
            super()._fetch()

    def elsewhere(self) -> None:
        super().elsewhere()
        known = self._find(self._broker)
        if known is not None and self.ledger.is_newer(known.topic_id, self.topic_id):
            self.topic_id = known.topic_id
            self.position = 0


class ConsumerByName(Consumer):
    """Reads whatever has the name, in the leader epoch that it has heard of."""

    def __init__(self, find: Find, *args: object) -> None:
        self._find = find
        super().__init__(*args)

    def elsewhere(self) -> None:
        super().elsewhere()
        known = self._find(self._broker)
        self.leader_epoch = UNKNOWN_EPOCH if known is None else known.leader_epoch

    def _refused(self, data: PartitionData) -> None:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.position = max(data.log_start_offset, 0)
        self.elsewhere()


PRODUCERS_OF_AN_OLD_NAME: Final = (ProducerById, ProducerByName)
CONSUMERS_OF_AN_OLD_NAME: Final = (ConsumerById, ConsumerByName)
