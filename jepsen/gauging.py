"""A thread that asks brokers again and again how far is committed what they lead."""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from quorate.errors import ErrorCode
from quorate.jepsen.clients.raw import NotNowError, Raw
from quorate.jepsen.clients.wire import LATEST, LIST_OFFSETS_VERSION, ClosedError
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder, Scribe
from quorate.model import Endpoint, TopicPartition
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

GAUGE_S: Final = 1.0
PATIENCE_S: Final = 1.0
END_S_MAX: Final = 10.0

Partitions = Callable[[], Collection[str]]


class Gauge:
    """Asks from :meth:`start` to :meth:`stop`, and writes ``high-watermark`` operations.

    Whoever does not lead a partition says so, and is not believed; of who believes to lead one the
    leader epoch is written down, too.
    """

    def __init__(self, bootstrap: str, recorder: Recorder, partitions: Partitions) -> None:
        self._bootstrap = bootstrap
        self._scribe = Scribe(recorder)
        self._partitions = partitions
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(END_S_MAX)

    def _run(self) -> None:
        with Raw(self._bootstrap, PATIENCE_S) as raw:
            while not self._stopping.wait(GAUGE_S):
                self._look(raw)

    def _look(self, raw: Raw) -> None:
        """Ask each leader once."""
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        endpoints: dict[int, Endpoint] = {}
        for name in self._partitions():
            topic, _, number = name.rpartition("-")
            where = TopicPartition(topic, int(number))
            try:
                leader_id = raw.leader_id(where)
                endpoints[leader_id] = raw.leader(where)
            except NotNowError:
                continue
            led[leader_id].append(where)
        for leader_id, places in led.items():
            self._scribe.begin("high-watermark", leader_id)
            try:
                told = _ask(raw, endpoints[leader_id], places)
            except (ClosedError, NotNowError) as error:
                self._scribe.end(Kind.FAIL, "high-watermark", str(error))
                told = []
            else:
                self._scribe.end(Kind.OK, "high-watermark", told)
            if len(told) < len(places):  # somebody else leads
                for topic in {where.topic for where in places}:
                    raw.forget(topic)


def _ask(raw: Raw, endpoint: Endpoint, places: Sequence[TopicPartition]) -> list[list[Any]]:
    """Return what a broker says of the partitions that it leads."""
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, partition in places:
        topics[topic].append(ListOffsetsPartition(partition_index=partition, timestamp=LATEST))
    asked = [ListOffsetsTopic(name=name, partitions=some) for name, some in topics.items()]
    request = ListOffsetsRequest(replica_id=-1, topics=asked)
    answer = raw.ask(endpoint, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
    return [
        [f"{topic.name}-{found.partition_index}", found.offset, found.leader_epoch]
        for topic in answer.topics
        for found in topic.partitions
        if found.error_code == ErrorCode.NONE
    ]
