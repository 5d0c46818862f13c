"""Trio shell: compacts logs in worker threads, the filthiest first, no faster than it may."""

import logging
import math
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import trio

from quorate.broker.aside import sync_logs
from quorate.broker.handlers.context import Broker
from quorate.broker.log.compacting import BufferTooSmallError, Compaction, Outcome
from quorate.broker.log.compaction import ClosedPart, Filth, filth_of, filthiest
from quorate.broker.log.compaction_steps import LogChangedError, compaction_steps
from quorate.broker.log.files import FatalStorageError, OpenFiles
from quorate.broker.log.log import Log
from quorate.broker.replication.replica import Replica
from quorate.errors import KafkaError, QuorateError, StorageError
from quorate.quorum.metadata.image import BROKER, CLUSTER_DEFAULT, ConfigResource

logger = logging.getLogger(__name__)

RATE: Final = "log.cleaner.io.max.bytes.per.second"
OPEN_FILES_MAX: Final = 8
WAIT_MAX_S: Final = 0.1
"""How long a thread sleeps at once: so long it takes at most to hear that it should stop."""

WINDOW_S: Final = 0.3
"""So much time that was not used may be made up for (Kafka's throttle looks as far back)."""

PAUSE_S: Final = 0.0001
"""After each piece, whatever the rate, so that the event loop need not fight for its turn."""

SWITCH_S: Final = 0.0005
"""How long a thread keeps the interpreter from the event loop at most; by default it is 5 ms, and
whoever reads while batches of small records are compacted felt it two or three times over."""


class CleanerStoppedError(QuorateError):
    """The broker stops."""


class Throttle:
    """Lets all threads of a cleaner together read and write so many bytes a second.

    State: until when they have read and written what they may by then.
    """

    def __init__(
        self,
        rate: Callable[[], float],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._until_s = 0.0
        self.stopped = False

    def charge(self, size_bytes: int) -> None:
        """Wait, in a worker thread, until so many bytes may be read or written.

        Raises:
            CleanerStoppedError: nothing is to be read or written any more.
        """
        with self._lock:
            begin_s = max(self._until_s, self._clock() - WINDOW_S)
            self._until_s = begin_s + size_bytes / self._rate()
        # One may go on at once, and the next one waits until what that one takes is due.
        while (wait_s := begin_s - self._clock()) > 0 and not self.stopped:
            self._sleep(min(wait_s, WAIT_MAX_S))
        if self.stopped:
            raise CleanerStoppedError
        self._sleep(PAUSE_S)


class Cleaner:
    """The threads that compact logs.

    State: which logs are being compacted, and which cannot be; and which could not be last time, so
    that others come first.
    """

    def __init__(self, broker: Broker, begin_turn: Callable[[], int]) -> None:
        self._broker = broker
        self._begin_turn = begin_turn
        self._busy: set[Log] = set()
        self._hopeless: set[Log] = set()
        self._put_off: set[Log] = set()
        self._throttle = Throttle(self._bytes_per_second)
        self._limiter = trio.CapacityLimiter(2 * broker.config.log_cleaner_threads)

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            FatalStorageError: the disk failed.
        """
        config = self._broker.config
        if not config.log_cleaner_enable:
            return
        before_s = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH_S, before_s))
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(config.log_cleaner_threads):
                    nursery.start_soon(self._work)
        finally:
            self._throttle.stopped = True
            sys.setswitchinterval(before_s)

    def _bytes_per_second(self) -> float:
        """Return the rate; called in any thread, on an image that never changes."""
        config = self._broker.replicas.image.config
        own = ConfigResource(BROKER, str(self._broker.replicas.node_id))
        text = config(own).get(RATE) or config(ConfigResource(BROKER, CLUSTER_DEFAULT)).get(RATE)
        rate = self._broker.config.log_cleaner_io_max_bytes_per_second
        return rate if text is None else float(text)

    async def _work(self) -> None:
        backoff_s = self._broker.config.log_cleaner_backoff_ms / 1000
        while True:
            if not await self._clean_filthiest():
                await trio.sleep(backoff_s)

    async def _clean_filthiest(self) -> bool:
        """Compact the log that needs it most; return whether one was compacted."""
        self._begin_turn()
        replicas = self._candidates()
        await self._sync([replica.log for replica in replicas])
        parts = {
            replica.log: replica.log.closed_part(replica.high_watermark)
            for replica in replicas
            if replica.log.failure is None and replica.log not in self._busy
        }
        files = OpenFiles(self._broker.replicas.store.fs, OPEN_FILES_MAX)
        now_ms = self._broker.now_ms
        filths: dict[Log, Filth] = {}

        def look() -> None:
            for log, part in parts.items():
                filth = _look(part, files, now_ms)
                if filth is not None:
                    filths[log] = filth

        await self._aside(look)
        # Another thread may have begun with one meanwhile, or given it up.
        taken = self._busy | self._hopeless
        free = {id(filth): log for log, filth in filths.items() if log not in taken}
        # What the disk refuses for one log, for want of space say, it may have for the others.
        fresh = [filths[log] for log in free.values() if log not in self._put_off]
        chosen = filthiest(fresh) or filthiest([filths[log] for log in free.values()])
        return chosen is not None and await self._clean(free[id(chosen)], chosen)

    def _candidates(self) -> list[Replica]:
        hosted = list(self._broker.replicas.hosted())
        there = {replica.log for replica in hosted}
        self._hopeless &= there
        self._put_off &= there
        return [
            replica
            for replica in hosted
            if replica.log.config.compacts
            and replica.log.segment_count > 1
            and replica.log.failure is None
            and replica.log not in self._busy
            and replica.log not in self._hopeless
        ]

    async def _sync(self, logs: list[Log]) -> None:
        """Sync what was closed since the last checkpoint: only what is on disk is compacted."""
        unsynced = [log for log in logs if log.has_unsynced_segments]
        if not unsynced:
            return
        try:
            await sync_logs(self._broker.replicas.store, unsynced)
        except FatalStorageError:
            raise
        except StorageError as error:
            logger.warning("cannot sync what is to be compacted: %s", error)

    async def _clean(self, log: Log, filth: Filth) -> bool:
        """Compact a log; return whether that went well."""
        config = self._broker.config
        compaction = Compaction(
            self._broker.replicas.store.fs,
            filth.part,
            producers=log.producers.last_written(),
            buffer_bytes=config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads,
            now_ms=self._broker.now_ms,
            charge=self._throttle.charge,
        )
        self._busy.add(log)
        begin_s = time.monotonic()
        try:
            for step in compaction_steps(log, compaction):
                await self._aside(step.run)
        except LogChangedError as error:
            logger.info("%s is not compacted for now: %s", log.topic_partition, error)
            return False
        except FatalStorageError:
            raise
        except (OSError, StorageError) as error:
            logger.warning("cannot compact %s, trying again: %s", log.topic_partition, error)
            self._put_off.add(log)
            return False
        except (KafkaError, BufferTooSmallError) as error:
            logger.error("%s cannot be compacted: %s", log.topic_partition, error)  # noqa: TRY400
            self._hopeless.add(log)
            return False
        finally:
            self._busy.discard(log)
        self._put_off.clear()
        _tell(log, filth, compaction.outcome, time.monotonic() - begin_s)
        return True

    async def _aside(self, run: Callable[[], None]) -> None:
        """Run it in a thread, which is left to itself if we are cancelled: it will not be long."""
        await trio.to_thread.run_sync(run, limiter=self._limiter, abandon_on_cancel=True)


def _look(part: ClosedPart, files: OpenFiles, now_ms: int) -> Filth | None:
    try:
        return filth_of(part, files, now_ms)
    except (OSError, KafkaError, struct.error):
        return None  # it is being shortened, or what is wrong with it is found when it is read


def _tell(log: Log, filth: Filth, outcome: Outcome, took_s: float) -> None:
    logger.info(
        "compacted %s: dirty ratio %.2f, %d keys, segments %d to %d, bytes %d to %d,"
        " records %d to %d, %.1f MB/s",
        log.topic_partition, filth.dirty_ratio, outcome.keys,
        outcome.segments_before, outcome.segments_after,
        outcome.bytes_before, outcome.bytes_after,
        outcome.records_before, outcome.records_after,
        outcome.bytes_before / 1e6 / max(took_s, math.ulp(1)),
    )  # fmt: skip
