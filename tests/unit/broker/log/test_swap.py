"""A swap step by step: what each leaves on disk, and what a start makes of it."""

# pyright: reportPrivateUsage=false

import errno
import os
from collections.abc import Callable, Iterable
from itertools import islice

import pytest

from quorate.broker.log.compacting import CompactedSegment, Compaction
from quorate.broker.log.compaction_steps import LogChangedError, Steps, compaction_steps
from quorate.broker.log.log import Log
from quorate.broker.log.swap import Swap, recover_swaps
from quorate.errors import StorageError
from quorate.records.batch import CONTROL_BIT, HEADER, parse_header
from quorate.records.checksum import crc32c
from quorate.settings import TopicConfig
from tests.simulation.disk import SimDisk
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    new_disk,
    new_log,
    open_data,
)
from tests.unit.broker.log.compacting import checkpoint, compact, put, records_of, table_of
from tests.unit.broker.log.moody import MoodyDisk

DIRECTORY = f"/data/{PARTITION}"
BIG = TopicConfig(cleanup_policy=("compact",))


def filled(disk: SimDisk, *, rolls: Iterable[int] = (3, 6, 9)) -> Log:
    return fill(new_log(disk, BIG), rolls)


def fill(log: Log, rolls: Iterable[int] = (3, 6, 9)) -> Log:
    for number in range(10):
        if number in rolls:
            log.roll(NOW_MS)
        put(log, (b"%d" % (number % 2), b"%d" % number))
    checkpoint(log)
    return log


def compaction_of(disk: SimDisk, log: Log) -> Compaction:
    part = log.closed_part(log.log_end_offset)
    return Compaction(
        disk, part, producers={}, buffer_bytes=1 << 20, now_ms=NOW_MS, charge=lambda _: None
    )


def copied(disk: SimDisk, log: Log) -> CompactedSegment:
    compaction = compaction_of(disk, log)
    compaction.read_keys()
    (group,) = compaction.groups()
    compacted = compaction.copy(group)
    assert compacted is not None
    return compacted


def run_all(steps: Steps) -> None:
    for step in steps:
        step.run()


def suffixes(disk: SimDisk) -> set[str]:
    return {name.partition(".")[2] for name in disk.list_directory(DIRECTORY) if name[:1].isdigit()}


def test_steps_are_done_once_in_their_order() -> None:
    disk = new_disk()
    log = filled(disk)
    swap = log.begin_swap(copied(disk, log))
    swap.finish()
    assert "log.swap" in suffixes(disk), "nothing is called as usual before its place is free"
    swap.sync()
    swap.set_aside()
    swap.set_aside()
    disk.remove(f"{DIRECTORY}/{3:020d}.log.deleted")
    swap.remove()
    assert "log.deleted" not in suffixes(disk)
    swap.finish()
    assert swap.is_done
    swap.settle()
    assert suffixes(disk) == {"log", "index", "timeindex", "txnindex", "snapshot"}
    assert table_of(records_of(log)) == {b"0": b"8", b"1": b"9"}


def test_a_swap_that_somebody_could_not_wait_for_is_settled_at_once() -> None:
    for stage in range(2):
        disk = new_disk()
        log = filled(disk)
        swap = log.begin_swap(copied(disk, log))
        if stage:
            swap.set_aside()
        log.cleaned.settle()
        assert swap.is_done
        assert len(records_of(log)) == 3


def test_what_a_segment_covers_goes_when_a_start_completes_its_swap() -> None:
    disk = new_disk()
    log = filled(disk)
    Swap(log._context, log.directory, copied(disk, log))
    disk.remove(f"{DIRECTORY}/{3:020d}.timeindex")
    disk.rename(f"{DIRECTORY}/{0:020d}.index.swap", f"{DIRECTORY}/{0:020d}.index")
    recover_swaps(disk, DIRECTORY)
    bases = {name[:20] for name in disk.list_directory(DIRECTORY) if name.endswith(".log")}
    assert bases == {f"{0:020d}", f"{9:020d}"}
    disk.restart()
    assert table_of(records_of(open_data(disk).logs[PARTITION])) == {b"0": b"8", b"1": b"9"}


def test_an_index_that_only_lacks_its_name_gets_it_and_any_other_goes() -> None:
    disk = new_disk()
    log = filled(disk)
    index, times = (f"{DIRECTORY}/{0:020d}.{kind}" for kind in ("index", "timeindex"))
    disk.rename(index, index + ".swap")
    disk.open(times + ".swap", create=True)
    recover_swaps(disk, DIRECTORY)
    assert {"index.swap", "timeindex.swap"}.isdisjoint(suffixes(disk))
    assert disk.exists(index)
    assert len(records_of(log)) == 10


def test_a_swap_that_cannot_begin_leaves_the_log_as_it_was() -> None:
    disk = new_disk()
    log = filled(disk)
    compacted = copied(disk, log)

    def refuse(old: str, new: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), new)

    rename, disk.rename = disk.rename, refuse  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        log.begin_swap(compacted)
    disk.rename = rename  # type: ignore[method-assign]
    assert len(records_of(log)) == 10
    assert log.failure is not None


def test_who_cuts_a_log_has_the_last_word_about_how_far_it_was_compacted() -> None:
    disk = new_disk()
    log = filled(disk)
    steps = compaction_steps(log, compaction_of(disk, log))
    next(steps).run()
    next(steps).run()  # writes down how far records will be missing
    log.truncate_to(10, now_ms=NOW_MS)
    disk.capacity_bytes = disk.used_bytes()
    with pytest.raises(StorageError):
        next(steps)
    assert log.failure is not None


def test_a_log_that_is_cut_behind_what_is_compacted_is_compacted_again_another_time() -> None:
    disk = new_disk()
    log = filled(disk)
    steps = compaction_steps(log, compaction_of(disk, log))
    for step in islice(steps, 5):
        step.run()
    log.truncate_to(10, now_ms=NOW_MS)
    with pytest.raises(LogChangedError):
        run_all(steps)
    assert log.cleaned.offset == 0
    assert table_of(records_of(log)) == {b"0": b"8", b"1": b"9"}


def test_a_log_that_is_not_to_be_compacted_any_more_keeps_what_it_has() -> None:
    disk = new_disk()
    log = filled(disk)
    steps = compaction_steps(log, compaction_of(disk, log))
    for step in islice(steps, 4):
        step.run()  # the last one copies
    log.config = TopicConfig(cleanup_policy=("delete",))
    with pytest.raises(LogChangedError):
        run_all(steps)
    assert len(records_of(log)) == 10
    assert not disk.exists(f"{DIRECTORY}/{0:020d}.log.cleaned")
    log.config = BIG
    compact(disk, log)
    assert table_of(records_of(log)) == {b"0": b"8", b"1": b"9"}
    assert len(records_of(log)) == 3


def test_who_compacted_a_deleted_log_leaves_the_copies_of_another_of_its_name_alone() -> None:
    disk = new_disk()
    store = open_data(disk)
    logs: list[Log] = []
    compactions: list[Steps] = []
    for topic_id in (TOPIC_ID, TOPIC_ID[::-1]):
        log = fill(store.create(PARTITION, topic_id, BIG, now_ms=NOW_MS))
        steps = compaction_steps(log, compaction_of(disk, log))
        for step in islice(steps, 4):
            step.run()  # the last one copies
        logs.append(log)
        compactions.append(steps)
    with pytest.raises(LogChangedError):
        run_all(compactions[0])
    run_all(compactions[1])
    assert (logs[1].failure, len(records_of(logs[1]))) == (None, 3)


def test_markers_stay_as_they_are() -> None:
    disk = new_disk()
    log = filled(disk)
    file = disk.open(f"{DIRECTORY}/{0:020d}.log", create=False)
    header = parse_header(file.read_at(100, 0), 0)
    data = bytearray(file.read_at(header.size_bytes, 0))
    HEADER.pack_into(data, 0, *header._replace(attributes=CONTROL_BIT))
    HEADER.pack_into(data, 0, *header._replace(attributes=CONTROL_BIT, crc=crc32c(data[21:])))
    file.write_at(data, 0)
    compact(disk, log)
    assert [record.offset for record in records_of(log)] == [0, 7, 8, 9]


def test_much_is_written_and_synced_bit_by_bit() -> None:
    disk = new_disk()
    log = new_log(disk, BIG)
    for number in range(30):
        put(log, (b"%d" % number, bytes(400_000)))
    put(log, (b"0", b""))
    log.roll(NOW_MS)
    put(log, (b"head", b""))
    checkpoint(log)
    charged: list[int] = []
    outcome = compact(disk, log, charge=charged.append)
    assert outcome.records_after == 30
    assert sum(charged) >= 3 * outcome.bytes_after


def delete_compacted(log: Log) -> None:
    log.delete_records_before(9)


def cut_behind_compacted(log: Log) -> None:
    log.truncate_to(9, now_ms=NOW_MS)


@pytest.mark.parametrize("shorten", [delete_compacted, cut_behind_compacted])
@pytest.mark.parametrize(
    ("is_aside", "refused"),
    [
        (False, ("sync_directory", DIRECTORY)),
        (False, ("rename", f"{3:020d}.index.deleted")),
        (True, ("sync_directory", DIRECTORY)),
        (True, ("rename", f"{0:020d}.timeindex")),
        (True, ("rename", f"{0:020d}.log")),
    ],
)
def test_a_swap_that_cannot_be_settled_for_the_moment_is_settled_before_the_log_is_shortened(
    shorten: Callable[[Log], None], refused: tuple[str, str], *, is_aside: bool
) -> None:
    disk = MoodyDisk()
    log = filled(disk)
    swap = log.begin_swap(copied(disk, log))
    if is_aside:
        swap.sync()
        swap.set_aside()
    disk.refused[refused] = errno.ENOSPC
    for _ in range(2):
        with pytest.raises(StorageError):
            shorten(log)
        assert (log.log_start_offset, log.log_end_offset) == (0, 10)
    disk.refused.clear()

    shorten(log)

    assert swap.is_done
    assert {suffix for suffix in suffixes(disk) if "swap" in suffix} == set()
    left = records_of(log)
    assert [record.offset for record in left] == ([9] if log.log_start_offset else [7, 8])
    disk.restart()
    again = open_data(disk).logs[PARTITION]
    assert records_of(again)[-len(left) :] == left
