"""Reads a range of a partition for a task of Spark: fetches, decodes, and fetches on meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, cast

from quorate.client.errors import in_words
from quorate.client.routing.retries import Remedy, remedy_for
from quorate.client.spark.batches import BatchReader
from quorate.client.spark.decode import Decoder
from quorate.client.spark.losses import report_loss
from quorate.client.spark.nearest import LEADER, NearestReplica
from quorate.client.spark.places import EARLIEST, LATEST
from quorate.dataclass import dataclass
from quorate.errors import MEANINGS, ErrorCode, KafkaError, NetworkError, known_code
from quorate.protocol.apis import ApiKey
from quorate.protocol.messages.data import FetchPartition, FetchRequest, FetchTopic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quorate.client.routing.cluster import Leader
    from quorate.client.spark.arrow import RecordBatch
    from quorate.client.spark.cluster import Cluster
    from quorate.client.spark.connection import Connection
    from quorate.client.spark.options import ReadOptions
    from quorate.client.spark.plan import Task
    from quorate.protocol.messages.data import FetchResponse, PartitionData
    from quorate.records.batch import BatchHeader

CHUNK_BYTES: Final = 2 * 1024 * 1024
CHUNK_ROWS: Final = 65_536
"""What is decoded at once, about: Spark likes Arrow's batches at one to four megabytes."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A Fetch request that is on its way."""

    connection: Connection
    offset: int


class RangeReader:
    """Goes through one range, whoever leads the partition, from a replica in its rack if told to.

    Invariant: at most one request is on its way, for ``batches.next_offset``; when reading ends in
    any way none is, or its connection is closed.
    """

    def __init__(
        self, cluster: Cluster, options: ReadOptions, task: Task, columns: Sequence[str]
    ) -> None:
        wanted = task.offsets
        self.cluster = cluster
        self.options = options
        self.task = task
        self.partition = wanted.topic_partition
        self.batches = BatchReader(
            self.partition, wanted.start, committed_only=options.fetch.committed_only
        )
        self.decoder = Decoder(self.batches, columns, wanted.start, wanted.end)
        self._sent: _Sent | None = None
        self._failures = 0
        self._progress_s = time.monotonic()
        self._nearest = NearestReplica(options.fetch.rack)

    def read(self) -> Iterator[RecordBatch]:
        """Give out the records of the range.

        Raises:
            DataLossError: Some are gone, and that is an error.
            CorruptRecordError: Some are damaged.
            NetworkError: No leader gave them in time.
        """
        end = self.task.offsets.end
        try:
            while self.batches.next_offset < end:
                data = self._fetched()
                if data is None:
                    continue
                fetched = memoryview(cast("bytearray", data.records or b""))
                aborted = [(a.first_offset, a.producer_id) for a in data.aborted_transactions or ()]
                wanted = self.batches.take(fetched, aborted, end)
                if self.batches.next_offset < end:
                    self._send_ahead()
                for chunk in _chunks(wanted):
                    yield from self.decoder.decode(self.batches.chunk(fetched, chunk))
                if not fetched:
                    self._nearest.leave(time.monotonic())  # it may lag behind the leader
                    self._check_progress("no records came")
        finally:
            self._drop()

    # One fetch

    def _fetched(self) -> PartitionData | None:
        """Return what a replica has for the next offset; None if one is to be asked again."""
        try:
            if self._sent is None:
                self._send()
            data = self._receive()
        except NetworkError as error:
            self._drop()
            self._try_again(in_words(error))
            return None
        if data is None:
            return None
        code = known_code(data.error_code)
        if code == ErrorCode.NONE and data.preferred_read_replica != LEADER:
            self._nearest.follow(data.preferred_read_replica, time.monotonic())
            return None
        if code == ErrorCode.NONE:
            self._failures = 0
            if data.records:
                self._progress_s = time.monotonic()
            return data
        if self._nearest.leave(time.monotonic()):
            self._try_again(MEANINGS[code])  # whatever a follower lacks, the leader may have
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._leave_range()
        elif remedy_for(code) is Remedy.GIVE_UP:
            raise KafkaError(f"cannot read {self.partition}: {MEANINGS[code]}", code=code)
        else:
            self._try_again(MEANINGS[code])
        return None

    def _send_ahead(self) -> None:
        """Ask for what comes next, while this is decoded; if that fails, when that is done."""
        try:
            self._send()
        except NetworkError:
            self._drop()

    def _send(self) -> None:
        """Ask the leader, or whom it named, for the next offset; without a leader, do nothing."""
        leader = self.cluster.leader_of(self.partition)
        if leader is None or self._is_replaced():
            return
        follower = self._nearest.follower(time.monotonic())
        asked = leader.broker_id if follower is None else follower
        connection = self.cluster.connection(self.cluster.endpoint_of(asked))
        connection.send(ApiKey.FETCH, self._request(leader))
        self._sent = _Sent(connection, self.batches.next_offset)

    def _request(self, leader: Leader) -> FetchRequest:
        fetch = self.options.fetch
        name, number = self.partition
        partition = FetchPartition(
            partition=number,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.batches.next_offset,
            partition_max_bytes=fetch.partition_max_bytes,
        )
        topic_id = self.cluster.view.topics[name].topic_id
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=fetch.max_wait_ms,
            min_bytes=fetch.min_bytes,
            max_bytes=fetch.max_bytes,
            isolation_level=int(fetch.committed_only),
            topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])],
            rack_id=self._nearest.rack(time.monotonic()),
        )

    def _receive(self) -> PartitionData | None:
        sent = self._sent
        if sent is None:
            self._try_again("nobody leads it")
            return None
        response: FetchResponse = sent.connection.receive()
        self._sent = None
        if response.error_code != ErrorCode.NONE:
            self._try_again(MEANINGS[known_code(response.error_code)])
            return None
        answers = [data for topic in response.responses for data in topic.partitions]
        if len(answers) != 1:
            self._try_again(f"an answer about {len(answers)} partitions")
            return None
        return answers[0]

    def _drop(self) -> None:
        """Forget a request that is on its way, and with it its connection."""
        if self._sent is not None:
            self._sent.connection.close()
            self._sent = None

    # What goes wrong

    def _try_again(self, why: str) -> None:
        """Wait, and learn anew who leads the partition; from there, if a follower was asked."""
        self._nearest.leave(time.monotonic())
        self._check_progress(why)
        self._failures += 1
        self.cluster.pause(self._failures)
        try:
            self.cluster.refresh([self.partition.topic])
        except NetworkError as error:
            self._check_progress(in_words(error))
            return
        view = self.cluster.view.topics.get(self.partition.topic)
        if view is not None and view.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._check_progress("there is no such topic any more")
        if self._is_replaced():
            self._lose(
                f"Topic {self.partition.topic} was deleted and created again while"
                f" {self.partition} was read at offset {self.batches.next_offset}",
                self.task.offsets.end,
            )

    def _is_replaced(self) -> bool:
        if not self.task.topic_id:
            return False
        now = self.cluster.topic_ids([self.partition.topic])
        return now.get(self.partition.topic, self.task.topic_id) != self.task.topic_id

    def _check_progress(self, why: str) -> None:
        """Give up when nothing came for too long."""
        waited_ms = (time.monotonic() - self._progress_s) * 1_000
        if waited_ms > self.options.poll_timeout_ms:
            raise NetworkError(
                f"Cannot fetch record for offset {self.batches.next_offset} of {self.partition} in"
                f" {self.options.poll_timeout_ms} milliseconds: {why}"
            )

    def _leave_range(self) -> None:
        """Go on behind what is gone, if that may be."""
        offset = self.batches.next_offset
        bounds = [
            self.cluster.list_offsets(
                {self.partition: which}, committed_only=self.options.fetch.committed_only
            )[self.partition]
            for which in (EARLIEST, LATEST)
        ]
        first, end = bounds
        if first <= offset <= end:
            self._try_again("its leader did not have that offset a moment ago")
            return
        self._lose(
            f"Cannot fetch offset {offset} of topic {self.partition.topic}, partition"
            f" {self.partition.partition}: there are offsets {first} to {end}",
            first if first > offset else self.task.offsets.end,
        )

    def _lose(self, what: str, next_offset: int) -> None:
        report_loss(self.options, what)
        self.batches.next_offset = self.decoder.start = min(next_offset, self.task.offsets.end)


def _chunks(wanted: list[tuple[int, BatchHeader]]) -> Iterator[list[tuple[int, BatchHeader]]]:
    """Give out batches in groups to be decoded at once."""
    group: list[tuple[int, BatchHeader]] = []
    size_bytes = rows = 0
    for at, header in wanted:
        group.append((at, header))
        size_bytes += header.size_bytes
        rows += header.record_count
        if size_bytes >= CHUNK_BYTES or rows >= CHUNK_ROWS:
            yield group
            group, size_bytes, rows = [], 0, 0
    if group:
        yield group
