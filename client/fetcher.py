"""Trio shell: fetches ahead what a consumer reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from quorate.client.connections import Cluster, now_ms
from quorate.client.receiving.fetches import (
    Asked,
    Fetch,
    FetchSettings,
    offsets_request,
    pause,
    plan_fetches,
    plan_searches,
    take_fetched,
    take_found,
)
from quorate.client.receiving.merging import by_number, take_earliest
from quorate.client.receiving.truncation import (
    Check,
    checks_request,
    plan_checks,
    take_checked,
)
from quorate.errors import NetworkError, QuorateError, UnsupportedVersionError
from quorate.model import TopicPartition
from quorate.net.bell import Bell
from quorate.protocol.apis import ApiKey

if TYPE_CHECKING:
    from random import Random

    from quorate.client.receiving.streams import PartitionStream
    from quorate.client.routing.cluster import Leader
    from quorate.protocol.messages.data import (
        FetchResponse,
        ListOffsetsResponse,
        OffsetForLeaderEpochResponse,
    )
    from quorate.records.record import Record

FETCH_VERSION_MAX: Final = 12
"""Later versions name topics by id only."""

FETCH_LANE: Final = "fetch"
NEVER_S: Final = float("inf")


class Fetcher:
    """Keeps the streams of a consumer filled.

    Requests go out from :meth:`run` and, to lose no time, from where an answer arrives. At most one
    fetch is under way at each broker, on a connection of its own. ``changed`` wakes those who wait
    for records or positions.
    """

    def __init__(
        self, cluster: Cluster, settings: FetchSettings, nursery: trio.Nursery, rng: Random
    ) -> None:
        self.changed = trio.lowlevel.ParkingLot()
        self.merges = False
        """Whether partitions of one number are given out together, by the times of records."""

        self._cluster = cluster
        self._settings = settings
        self._nursery = nursery
        self._rng = rng
        self._bell = Bell()
        self._streams: list[PartitionStream] = []
        self._fetching: set[int] = set()
        self._checked: set[TopicPartition] = set()
        cluster.on_change(self.wake)

    def wake(self) -> None:
        """There may be something to fetch."""
        self._bell.ring()

    def read(self, streams: list[PartitionStream]) -> None:
        """Fetch for these streams from now on, and no others."""
        self._streams = streams
        self._cluster.watch({stream.topic_partition.topic for stream in streams})
        for stream in streams:
            if stream.topic_partition not in self._checked:
                self._checked.add(stream.topic_partition)
                self._nursery.start_soon(self._check_existence, stream.topic_partition)
        self.wake()
        self.changed.unpark_all()  # somebody may wait for what is not read any more

    async def _check_existence(self, topic_partition: TopicPartition) -> None:
        """Turn a partition that does not exist into an error, instead of waiting for ever."""
        attempts = 0
        while self._streams_of(topic_partition):
            try:
                await self._cluster.wait_for_partition(topic_partition)
            except NetworkError:  # nobody has said that it does not exist
                attempts += 1
                await trio.sleep(self._cluster.pause_s(self._settings.backoff, attempts))
            except QuorateError as error:
                for stream in self._streams_of(topic_partition):
                    stream.fail(error)
                break
            else:
                return
        self._checked.discard(topic_partition)
        self.changed.unpark_all()

    def _streams_of(self, topic_partition: TopicPartition) -> list[PartitionStream]:
        """Return the stream of a partition, if it is read: by now it may be another one."""
        return [stream for stream in self._streams if stream.topic_partition == topic_partition]

    def take(self, records_max: int, begun: dict[TopicPartition, tuple[int, int]]) -> list[Record]:
        """Return the next records, of one partition after the other; none if none are there.

        Args:
            records_max: How many at most.
            begun: Gets offset and epoch where this began in each partition.

        Raises:
            QuorateError: A partition cannot be read on.
        """
        if self.merges:
            return self._take_merged(records_max, begun)
        records: list[Record] = []
        has_room = False
        order = self._streams
        for turn, stream in enumerate(order):
            if not stream.has_records:
                continue
            # The next ones come first next time.
            self._streams = order[turn + 1 :] + order[: turn + 1]
            position = stream.position
            before = (position.offset or 0, position.epoch)
            try:
                taken = stream.take(records_max - len(records))
            except QuorateError:
                if not records:
                    raise
                # Nobody has these records yet. So this one comes first next time, with its error.
                self._streams = order[turn:] + order[:turn]
                break
            has_room = has_room or not stream.asking
            if taken:
                begun[stream.topic_partition] = before
            if records:
                records += taken
            else:
                records = taken
            if len(records) >= records_max:
                break
        if has_room:  # also if nobody is to see what made it
            self._request()
        return records

    def _take_merged(
        self, records_max: int, begun: dict[TopicPartition, tuple[int, int]]
    ) -> list[Record]:
        """Return the next records, those of partitions of one number in the order of their times.

        What is left behind stays in its stream, which fetches no more than it always does.
        """
        records: list[Record] = []
        groups = by_number(self._streams)
        first = 0
        try:
            for turn, group in enumerate(groups):
                first = turn + 1  # the next ones come first next time
                self._take_of_group(group, records, records_max, begun)
                if len(records) >= records_max:
                    break
        except QuorateError:
            if not records:
                raise
            first -= 1  # nobody has these records yet: this one is next, with its error
        finally:
            self._streams = [s for g in groups[first:] + groups[:first] for s in g]
        self._request()
        return records

    @staticmethod
    def _take_of_group(
        group: list[PartitionStream],
        records: list[Record],
        records_max: int,
        begun: dict[TopicPartition, tuple[int, int]],
    ) -> None:
        before = {s.topic_partition: (s.position.offset or 0, s.position.epoch) for s in group}
        while len(records) < records_max:
            found = take_earliest(group, records_max - len(records))
            if found is None:
                break
            stream, taken = found
            begun.setdefault(stream.topic_partition, before[stream.topic_partition])
            records += taken

    async def run(self) -> None:
        """Send requests whenever there is a reason to, until the consumer is closed."""
        while True:
            self._request()
            await self._bell.wait_until(self._next_retry_s())

    def _next_retry_s(self) -> float:
        now = now_ms()
        retries_ms = [s.retry_at_ms for s in self._streams if s.retry_at_ms > now]
        return (min(retries_ms) + 0.5) / 1000 if retries_ms else NEVER_S

    def _request(self) -> None:
        """Ask brokers for all that is missing and not asked for yet."""
        now = now_ms()
        for broker_id, searches in plan_searches(
            self._streams, self._cluster.leader_if_known, now
        ).items():
            self._search(broker_id, searches)
        for broker_id, checks in plan_checks(
            self._streams, self._cluster.leader_if_known, now
        ).items():
            self._check(broker_id, checks)
        fetches = plan_fetches(self._streams, self._settings, self._free_leader_of, now)
        for broker_id, fetch in fetches.items():
            self._fetch(broker_id, fetch)

    def _free_leader_of(self, topic_partition: TopicPartition) -> Leader | None:
        leader = self._cluster.leader_if_known(topic_partition)
        return None if leader is None or leader.broker_id in self._fetching else leader

    # Positions

    def _search(self, broker_id: int, searches: list[Asked]) -> None:
        connection = self._cluster.connection(broker_id)
        if connection is None:
            return
        request = offsets_request(
            ((asked.stream.topic_partition, asked.offset) for asked in searches),
            committed_only=self._settings.committed_only,
            timeout_ms=self._cluster.settings.request_timeout_ms,
        )
        for asked in searches:
            asked.stream.asking = True
        try:
            answer = connection.submit(
                ApiKey.LIST_OFFSETS, request, timeout_ms=self._cluster.settings.request_timeout_ms
            )
        except QuorateError as error:
            self._on_found(searches, error)
        else:
            answer.when_resolved(partial(self._on_found, searches))

    def _on_found(self, searches: list[Asked], answer: ListOffsetsResponse | QuorateError) -> None:
        now, stale = now_ms(), False
        found = {
            TopicPartition(topic.name, partition.partition_index): partition
            for topic in ([] if isinstance(answer, QuorateError) else answer.topics)
            for partition in topic.partitions
        }
        for asked in searches:
            asked.stream.asking = False
            told = found.get(asked.stream.topic_partition)
            stale |= take_found(asked, told, self._settings.backoff, now, self._rng)
        self._continue(stale=stale)

    # Truncation

    def _check(self, broker_id: int, checks: list[Check]) -> None:
        connection = self._cluster.connection(broker_id)
        if connection is None:
            return
        for check in checks:
            check.stream.asking = True
        timeout_ms = self._cluster.settings.request_timeout_ms
        try:
            answer = connection.submit(
                ApiKey.OFFSET_FOR_LEADER_EPOCH, checks_request(checks), timeout_ms=timeout_ms
            )
        except UnsupportedVersionError:
            for check in checks:  # a broker that cannot tell: read on, as one always did
                check.stream.asking = False
                check.stream.agreed_epoch = check.leader_epoch
        else:
            answer.when_resolved(partial(self._on_checked, checks))

    def _on_checked(
        self, checks: list[Check], answer: OffsetForLeaderEpochResponse | QuorateError
    ) -> None:
        now, stale = now_ms(), False
        told = {
            TopicPartition(topic.topic, end.partition): end
            for topic in ([] if isinstance(answer, QuorateError) else answer.topics)
            for end in topic.partitions
        }
        for check in checks:
            check.stream.asking = False
            end = told.get(check.stream.topic_partition)
            stale |= take_checked(check, end, self._settings, now, self._rng)
        self._continue(stale=stale)

    # Records

    def _fetch(self, broker_id: int, fetch: Fetch) -> None:
        connection = self._cluster.connection(broker_id, FETCH_LANE)
        if connection is None:
            return
        for asked in fetch.asked.values():
            asked.stream.asking = True
        self._fetching.add(broker_id)
        timeout_ms = self._cluster.settings.request_timeout_ms + self._settings.max_wait_ms
        try:
            answer = connection.submit(
                ApiKey.FETCH, fetch.request, timeout_ms=timeout_ms, version_max=FETCH_VERSION_MAX
            )
        except QuorateError as error:
            self._on_fetched(broker_id, fetch, error)
        else:
            answer.when_resolved(partial(self._on_fetched, broker_id, fetch))

    def _on_fetched(
        self, broker_id: int, fetch: Fetch, answer: FetchResponse | QuorateError
    ) -> None:
        self._fetching.discard(broker_id)
        now = now_ms()
        for asked in fetch.asked.values():
            asked.stream.asking = False
        if isinstance(answer, QuorateError):
            for asked in fetch.asked.values():
                pause(asked.stream, self._settings.backoff, now, self._rng)
            self._continue(stale=True)
        else:
            stale = take_fetched(fetch, answer, self._settings, now, self._rng)
            self._continue(stale=stale)

    def _continue(self, *, stale: bool) -> None:
        if stale:
            self._cluster.refresh_soon()
        self.changed.unpark_all()
        self._request()
        if self._next_retry_s() < NEVER_S:
            self.wake()  # the task looks after the streams that must wait
