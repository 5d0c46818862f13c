"""`python -m quorate.tools.bench.crowd HOST:PORT TOPIC`: readers that come, read, stay and go.

Each is a connection of its own that does what a consumer with `assign` does, in the same order:
versions, metadata, the first offset, fetches until it has read all there is, and then fetches that
wait for more.  They are plain sockets in one process, so that what others feel of them is the
broker's work and not that of a thousand clients on the broker's own machine.
"""

import json
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from quorate.dataclass import dataclass
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from quorate.protocol.messages.session import ApiVersionsRequest
from quorate.tools.bench.group_load import Wire, answer, checked, framed
from quorate.tools.bench.measuring import MeasurementFailedError
from quorate.tools.bench.topics import Address

READERS: Final = 1_000
PER_S: Final = 100.0
"""So many come a second, and so many go."""
STAY_S: Final = 10.0
WAIT_MS: Final = 500
"""How long the broker may keep a fetch at the end of the log, as by default."""
LATE_S_MAX: Final = 30.0
"""So much longer than planned it may take them all before that is a failure."""

VERSIONS_VERSION, METADATA_VERSION, OFFSETS_VERSION, FETCH_VERSION = 3, 12, 7, 12
EARLIEST: Final = -2

Request = tuple[ApiKey, int, Any]
Reading = Iterator[Request | None]
"""What a reader asks for next; None says that it has read all there was."""


@dataclass(slots=True)
class Told:
    """What became of the crowd."""

    came: int = 0
    finished: int = 0
    """Readers that had read all there was."""
    there_at_once: int = 0
    requests: int = 0
    seconds: float = 0.0


class Reader:
    """One reader: its connection, and the answer that it thinks about."""

    def __init__(self, address: Address, topic: str, last_offset: int) -> None:
        self.wire = Wire(address)
        self.has_finished = False
        self._told: Any = None
        self._topic = topic
        self._last_offset = last_offset
        self._steps = self._reading()
        self._asked: Request | None = None

    def ask(self) -> None:
        """Send the next request."""
        asked = next(self._steps)
        if asked is None:
            self.has_finished = True
            asked = next(self._steps)
        assert asked is not None
        self._asked = asked
        self.wire.sock.sendall(framed(*asked))

    def hear(self) -> bool:
        """Receive; return whether the answer is there."""
        assert self._asked is not None
        key, version, _ = self._asked
        for frame in self.wire.take():
            self._told = answer(key, version, frame)
            return True
        return False

    def _reading(self) -> Reading:
        versions = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
        yield ApiKey.API_VERSIONS, VERSIONS_VERSION, versions
        checked(self._told)
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)])
        yield ApiKey.METADATA, METADATA_VERSION, wanted
        checked(self._told.topics[0])
        asked = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
        topics = [ListOffsetsTopic(name=self._topic, partitions=[asked])]
        yield ApiKey.LIST_OFFSETS, OFFSETS_VERSION, ListOffsetsRequest(replica_id=-1, topics=topics)
        offset: int = checked(self._told.topics[0].partitions[0]).offset
        while True:
            yield ApiKey.FETCH, FETCH_VERSION, fetch_request(self._topic, offset)
            data = checked(self._told.responses[0].partitions[0])
            if data.records and offset <= self._last_offset:
                offset = data.high_watermark  # all there is comes in one answer
                yield None


def fetch_request(topic: str, offset: int) -> FetchRequest:
    """Return what a consumer asks for with its settings' defaults."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


class Crowd:
    """Lets readers come and go by the clock, and does meanwhile what they do.

    State: who is there, by the number of its file; when who is to come or go.
    """

    def __init__(self, come: Callable[[], Reader]) -> None:
        self.told = Told()
        self._come = come
        self._poller = select.epoll()
        self._there: dict[int, Reader] = {}

    def run(self, *, readers: int, per_s: float, stay_s: float) -> None:
        """Return when the last one has gone.

        Raises:
            MeasurementFailedError: a broker refused something, or it took far too long.
        """
        begun_s = time.monotonic()
        end_s = begun_s + readers / per_s + stay_s + LATE_S_MAX
        coming = deque(begun_s + n / per_s for n in range(readers))
        going: deque[tuple[float, int]] = deque()
        while coming or going:
            when_s = min(coming[0] if coming else end_s, going[0][0] if going else end_s)
            self._work(max(0.001, when_s - time.monotonic()))
            now_s = time.monotonic()
            if now_s > end_s:
                raise MeasurementFailedError(f"only {self.told.finished} readers read all there is")
            while coming and coming[0] <= now_s:
                coming.popleft()
                going.append((now_s + stay_s, self._enter()))
            while going and going[0][0] <= now_s and self._there[going[0][1]].has_finished:
                self._leave(going.popleft()[1])
        self.told.seconds = time.monotonic() - begun_s

    def _enter(self) -> int:
        reader = self._come()
        fd = reader.wire.sock.fileno()
        self._there[fd] = reader
        self._poller.register(fd, select.EPOLLIN)
        self.told.came += 1
        self.told.there_at_once = max(self.told.there_at_once, len(self._there))
        self._ask(reader)
        return fd

    def _leave(self, fd: int) -> None:
        reader = self._there.pop(fd)
        self._poller.unregister(fd)
        reader.wire.close()

    def _work(self, wait_s: float) -> None:
        for fd, _ in self._poller.poll(wait_s):
            reader = self._there[fd]
            if reader.hear():
                self._ask(reader)

    def _ask(self, reader: Reader) -> None:
        had_finished = reader.has_finished
        reader.ask()
        self.told.requests += 1
        self.told.finished += reader.has_finished and not had_finished


def main(arguments: Sequence[str]) -> None:
    """Be the crowd; print what became of it as JSON."""
    bootstrap, topic, last_offset = arguments
    address = Address.parse(bootstrap)
    crowd = Crowd(lambda: Reader(address, topic, int(last_offset)))
    crowd.run(readers=READERS, per_s=PER_S, stay_s=STAY_S)
    sys.stdout.write(json.dumps(asdict(crowd.told)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
