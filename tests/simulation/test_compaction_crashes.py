"""A log that is compacted survives power cuts and kills at any operation, also while recovering."""

import os
from dataclasses import replace
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorate.broker.log.compaction_steps import LogChangedError
from quorate.records.record import NO_PRODUCER, ProducerStamp
from tests.simulation.disk import PowerCut, SimDisk
from tests.simulation.test_log_crashes import check_indexes
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    headers_of,
    new_disk,
    open_data,
    read_all,
)
from tests.unit.broker.log.compacting import COMPACT, compact, put, records_of, table_of

RUNS = int(os.environ.get("CRASH_RUNS", "120"))
CONFIG = replace(COMPACT, file_delete_delay_ms=0, delete_retention_ms=1000)

Entry = tuple[bytes, bytes | None]


class Run:
    """One history of a log: every record that was ever appended, by offset.

    ``safe_end`` is an offset below which nothing may be lost.
    """

    def __init__(self, seed: int, disk: SimDisk) -> None:
        self.rng = disk.rng
        self.disk = disk
        self.now_ms = NOW_MS + seed % 10
        self.written: dict[int, Entry] = {}
        self.safe_end = 0
        self.start_max = 0
        self.leader_epoch = 0
        self.reopen()

    def reopen(self) -> None:
        self.store = open_data(self.disk)
        if self.store.get(PARTITION) is None:  # the power went before its name was synced
            assert self.safe_end == 0
        self.log = self.store.create(PARTITION, TOPIC_ID, CONFIG, now_ms=NOW_MS)
        anew_from = self.log.anew_from
        if anew_from is not None:
            assert self.log.lost_from is None
            assert self.log.log_end_offset >= self.safe_end
            self.safe_end = 0
            self.log.reset_to(anew_from, now_ms=NOW_MS)  # as followers do

    def append(self) -> None:
        rng, log = self.rng, self.log
        keys = [b"%d" % rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
        entries: list[Entry] = [
            (key, rng.randbytes(rng.randint(0, 200)) if rng.random() < 0.8 else None)
            for key in keys
        ]
        self.written = {o: entry for o, entry in self.written.items() if o < log.log_end_offset}
        self.written |= dict(enumerate(entries, log.log_end_offset))
        producer_id = rng.randint(0, 3)
        known = log.producers.get(producer_id)
        stamp = ProducerStamp(producer_id, 0, known.next_sequence if known else 0)
        stamp = stamp if producer_id else NO_PRODUCER
        codec = rng.choice([0, 0, 3])
        put(log, *entries, producer=stamp, codec=codec, leader_epoch=self.leader_epoch)

    def flush(self) -> None:
        flush = self.log.start_flush()
        flush.run()
        self.safe_end = max(self.safe_end, self.log.log_end_offset)
        self.log.finish_flush(flush)

    def checkpoint(self) -> None:
        for logs in self.store.take_dirty():
            flush = self.store.start_checkpoint(logs)
            flush.run()
            self.store.finish_flush(flush)
        self.safe_end = max(self.safe_end, self.log.flushed_offset)
        self.store.checkpoint({PARTITION: self.log.flushed_offset})

    def compact(self) -> None:
        self.flush()
        self.now_ms += 400

        def between() -> None:
            if self.rng.random() < 0.1:
                self.append()
            if self.rng.random() < 0.03:
                self.shorten()

        try:
            compact(
                self.disk,
                self.log,
                now_ms=self.now_ms,
                buffer_bytes=24 * self.rng.choice([8, 100]),
                between=between,
            )
        except LogChangedError:
            return

    def shorten(self) -> None:
        """Cut the log, wherever, or delete what is before somewhere."""
        log = self.log
        offset = self.rng.randint(log.log_start_offset, log.log_end_offset)
        if self.rng.random() < 0.5:
            self.start_max = max(self.start_max, offset)
            log.delete_records_before(offset)
            return
        self.safe_end = 0
        self.leader_epoch += 1
        log.truncate_to(offset, now_ms=NOW_MS)
        self.written = {o: entry for o, entry in self.written.items() if o < log.log_end_offset}

    def restart(self) -> None:
        self.store.close(clean=True, now_ms=NOW_MS)
        self.safe_end = self.log.log_end_offset
        self.disk.restart()
        self.reopen()

    def kill(self) -> None:
        self.disk.restart()
        end_offset = self.log.log_end_offset
        self.reopen()
        assert self.log.log_end_offset == end_offset

    def empty_trash(self) -> None:
        self.store.remove_paths(self.store.empty_trash(NOW_MS))

    def live(self) -> None:
        """Go on until the power goes."""
        operations = [self.append] * 10 + [self.compact] * 3 + [self.checkpoint, self.restart]
        operations += [self.kill, self.empty_trash, self.flush]
        operations += [self.shorten] * (self.rng.random() < 0.3)
        while True:
            self.rng.choice(operations)()

    def check(self) -> None:
        """Whatever happened: no key lost its last record, and none has a wrong one."""
        log = self.log
        assert self.safe_end <= log.log_end_offset
        names = self.disk.list_directory(log.directory) if log.has_files else []
        assert not [name for name in names if name.endswith((".swap", ".cleaned"))]
        found = [header for batch in read_all(log).values() for header in headers_of(batch)]
        for before, after in pairwise(found):
            assert before.next_offset == after.base_offset
        assert not found or found[-1].next_offset == log.log_end_offset
        start, end = log.log_start_offset, log.log_end_offset
        records = [record for record in records_of(log) if record.offset >= start]
        for record in records:
            assert self.written[record.offset] == (record.key, record.value)
        expected: dict[bytes | None, bytes] = {}
        for key, value in (self.written[o] for o in sorted(self.written) if start <= o < end):
            expected.pop(key, None)
            if value is not None:
                expected[key] = value
        assert table_of(records) == expected
        check_indexes(log)


def let_power_go(run: Run, steps_max: int, action: str) -> bool:
    """Do something with the power going at one of the next steps; return whether it went."""
    run.disk.cut_at_step = run.disk.steps + run.rng.randint(1, steps_max)
    try:
        getattr(run, action)()
    except PowerCut:
        run.disk.lose_power()
        return True
    run.disk.cut_at_step = None
    return False


@settings(max_examples=RUNS, deadline=None)
@given(st.integers(0, 2**63))
@example(992)  # while recovering, a rewritten time index was torn in its last entry
def test_compaction_may_be_interrupted_anywhere(seed: int) -> None:
    run = Run(seed, new_disk(seed))
    for _ in range(4):
        let_power_go(run, 250, "live")
        while run.rng.random() < 0.5 and let_power_go(run, 20, "reopen"):
            continue  # it may go while we recover, too
        run.disk.restart()
        run.reopen()
        run.check()


def test_each_operation_of_a_swap_may_be_the_last_one() -> None:
    cut = 0
    while True:
        cut += 1
        run = Run(cut, new_disk(cut))
        for _ in range(30):
            run.append()
        run.log.roll(NOW_MS)
        run.append()
        run.checkpoint()
        run.disk.cut_at_step = run.disk.steps + cut
        try:
            compact(run.disk, run.log, now_ms=run.now_ms)
        except PowerCut:
            run.disk.lose_power()
        else:
            break
        run.reopen()
        run.check()
    assert cut > 50
