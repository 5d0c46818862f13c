"""A member of a consumer group by our client, which may also die, and oversleep."""

import threading
import time
from collections.abc import Callable
from random import Random
from typing import Final, Literal, cast

import trio

from quorate.client import Consumer, RebalanceListener, TopicPartition
from quorate.errors import QuorateError
from quorate.jepsen.clients.cutting import Line
from quorate.jepsen.clients.grouping import (
    CLOSE_S_MAX,
    COMMIT_ODDS,
    DIE_ODDS,
    LIFE_POLLS,
    POLL_RECORDS,
    POLL_S,
    SLEEP_ODDS,
    Diary,
    Membership,
    past_session_s,
)
from quorate.jepsen.clients.values import decode
from quorate.jepsen.history import Kind
from quorate.jepsen.recorder import Recorder

AGAIN_S: Final = 0.2
CONNECT_TIMEOUT_MS: Final = 2_000
REQUEST_TIMEOUT_MS: Final = 3_000


class OwnMember:
    """A thread with one consumer of ours after the other."""

    def __init__(self, recorder: Recorder, membership: Membership, rng: Random) -> None:
        self.errors: list[str] = []
        self._membership = membership
        self._rng = rng
        self._diary = Diary(recorder, membership)
        self._stopping = False
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group."""
        self._stopping = True
        self._thread.join(CLOSE_S_MAX)
        if self._thread.is_alive():
            self.errors.append("a member of ours did not leave its group in time")

    async def _run(self) -> None:
        while not self._stopping:
            try:
                with trio.CancelScope() as scope:
                    await self._live(scope)
            except QuorateError:  # nobody answers, or the group does not want it
                await trio.sleep(AGAIN_S)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                self.errors.append(f"a member of ours: {error!r}")
                return
            finally:
                self._diary.revoked()

    def _consumer(self, line: Line) -> Consumer:
        membership = self._membership
        protocol = cast('Literal["classic", "consumer"]', membership.protocol)
        if not membership.is_classic:
            return Consumer(
                membership.bootstrap,
                group_id=membership.group,
                group_protocol=protocol,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                dial=line.dial,
            )
        return Consumer(
            membership.bootstrap,
            group_id=membership.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=membership.session_ms,
            heartbeat_interval_ms=membership.session_ms // 5,
            partition_assignment_strategy=(membership.strategy,),
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            dial=line.dial,
        )

    async def _live(self, scope: trio.CancelScope) -> None:
        line = Line()
        async with self._consumer(line) as consumer:
            listener = _Ear(lambda: self._hear(consumer), self._diary.revoked)
            consumer.subscribe(self._membership.topic, listener=listener)
            polls = self._rng.randint(*LIFE_POLLS)
            oversleeps = self._rng.random() < SLEEP_ODDS
            for number in range(polls):
                await self._poll(consumer)
                if oversleeps and number == polls // 2:
                    # All of it stands still, as a process that is stopped: no heartbeats either.
                    time.sleep(past_session_s(self._membership.session_ms))  # noqa: ASYNC251
                    await self._commit(consumer)
                if self._rng.random() < COMMIT_ODDS:
                    await self._commit(consumer)
                if self._stopping:
                    return
            if self._membership.may_die and self._rng.random() < DIE_ODDS:
                line.cut()
                scope.cancel()

    def _hear(self, consumer: Consumer) -> None:
        metadata = consumer.group_metadata
        names = [str(partition) for partition in consumer.assignment]
        self._diary.assigned(metadata.member_id, metadata.generation_id, names)

    async def _poll(self, consumer: Consumer) -> None:
        self._diary.begin_poll()
        reads: dict[str, tuple[list[int], list[int]]] = {}
        try:
            records = await consumer.poll(max_records=POLL_RECORDS, timeout_ms=int(POLL_S * 1000))
        except QuorateError:
            self._diary.fail_poll()
            raise
        for record in records:
            offsets, values = reads.setdefault(str(record.topic_partition), ([], []))
            offsets.append(record.offset)
            values.append(decode(record.value))
        self._diary.end_poll(reads)

    async def _commit(self, consumer: Consumer) -> None:
        offsets = self._diary.begin_commit()
        if not offsets:
            return
        try:
            await consumer.commit({_partition(name): offset for name, offset in offsets.items()})
        except QuorateError:  # an attempt before may have been carried out
            self._diary.end_commit(Kind.INFO)
        else:
            self._diary.end_commit(Kind.OK)


class _Ear(RebalanceListener):
    """Hears what a member of ours is assigned."""

    def __init__(self, hear: Callable[[], None], forget: Callable[[], None]) -> None:
        self._hear = hear
        self._forget = forget

    async def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        del partitions  # these are the new ones
        self._hear()

    async def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        del partitions
        self._forget()


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))
