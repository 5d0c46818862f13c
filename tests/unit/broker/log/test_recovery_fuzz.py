"""Recovery of damaged data directories: it keeps what is sound, lets nothing wrong in, and ends.

After any history, closed or killed, files are damaged: segments, indexes, snapshots, epochs,
checkpoints and markers. ``make fuzz`` does so 100,000 times (``FUZZ_RUNS``, ``FUZZ_SEED``).
"""

# pyright: reportPrivateUsage=false

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest

from quorate.broker.log.checkpoints import NO_CHECKPOINT, URGENT_NAME, load_checkpoints
from quorate.broker.log.directory import META_NAME, UNKNOWN_BROKER_EPOCH
from quorate.broker.log.epochs import FILE_NAME as EPOCHS_NAME
from quorate.broker.log.log import Log
from quorate.broker.log.naming import PARTITION_NAME
from quorate.broker.log.scan import CHUNK_BYTES
from quorate.broker.log.segment import LOG_SUFFIX
from quorate.broker.log.store import LogStore
from quorate.errors import KafkaError
from quorate.records.batch import MAGIC_AT as OUTSIDE
from quorate.records.batch import check_header, crc_matches, parse_header
from tests.simulation.disk import Folder, Inode, SimDisk, SimFile
from tests.simulation.test_log_crashes import Run
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    append,
    bytes_of,
    find_time,
    headers_of,
    open_data,
)

RUNS = int(os.environ.get("FUZZ_RUNS", "600"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))
PARTS = 6
DAMAGES_PER_HISTORY = 10
BROKER_EPOCH = 7
FOLDER = f"/data/{PARTITION}/"
EPOCHS = FOLDER + EPOCHS_NAME
WHOSE = (META_NAME, PARTITION_NAME)
"""What says whose a directory is: without that, nothing is opened."""
NO_DAMAGE = "~", 0
"""Behind all segments."""
READS_MAX = 10_000
"""To open a damaged directory twice and to read all of it again and again: an eighth will do."""


def flip_a_bit(data: bytearray, rng: Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data))
    data[at : at + rng.randint(1, 16)] = rng.randbytes(rng.randint(1, 16))


def zero_a_sector(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data)) // 512 * 512
    data[at : at + 512] = bytes(len(data[at : at + 512]))


def cut(data: bytearray, rng: Random) -> None:
    del data[rng.randrange(len(data)) :]


def lengthen(data: bytearray, rng: Random) -> None:
    data += rng.choice([bytes(rng.randint(1, 700)), rng.randbytes(rng.randint(1, 700))])


def repeat_a_part(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = data[rng.randrange(len(data)) :][: rng.randint(1, 600)]


def remove_a_part(data: bytearray, rng: Random) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.randint(1, 600)]


def set_a_field(data: bytearray, rng: Random) -> None:
    """Put an extreme number where a header may have one."""
    at = rng.randrange(len(data))
    number = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**31, 0xFFFFFFF4, rng.getrandbits(32)])
    data[at : at + 4] = number.to_bytes(4, "big")


DAMAGES: list[Callable[[bytearray, Random], None]] = [
    flip_a_bit,
    overwrite,
    zero_a_sector,
    cut,
    lengthen,
    repeat_a_part,
    remove_a_part,
    set_a_field,
]


class MeteredFile(SimFile):
    """Ends who reads on and on, or asks for as much memory as a damaged length says."""

    def read_at(self, size_bytes: int, position: int) -> bytes:
        assert size_bytes <= CHUNK_BYTES
        assert self.disk.reads < READS_MAX
        return super().read_at(size_bytes, position)


class MeteredDisk(SimDisk):
    def open(self, path: str, *, create: bool) -> MeteredFile:
        return MeteredFile(self, super().open(path, create=create).inode)


Files = dict[str, bytes]


@dataclass(frozen=True)
class Lived:
    """What the history of a log left: ``batches`` by base offset, which may be deleted in part."""

    files: Files
    batches: dict[int, bytes]
    start_offset: int
    end_offset: int
    recovery_point: int
    closed: bool

    def end_before(self, damage: tuple[str, int]) -> int:
        """Return the offset behind the last batch that ends before a place in the segments."""
        offset = 0
        for path in segments_of(self.files):
            end = 0
            for header in headers_of(self.files[path]):
                end += header.size_bytes
                if (path, end) <= damage:
                    offset = header.next_offset
        return offset


def live(seed: int) -> Lived:
    """Let a log live for a while, then close it or kill its process."""
    run = Run(seed)
    for _ in range(run.rng.randint(10, 60)):
        run.do_something()
    run.append()
    run.before = run.after
    run.store.registered(BROKER_EPOCH)
    closed = run.rng.random() < 0.4
    if closed:
        run.store.close(clean=True, now_ms=NOW_MS, broker_epoch=BROKER_EPOCH)
    saved = load_checkpoints(run.disk, "/data").logs.get(PARTITION, NO_CHECKPOINT)
    return Lived(
        dict(files_in(run.disk.root, "")),
        run.before,
        run.log.log_start_offset,
        run.log.log_end_offset,
        saved.recovery_point,
        closed,
    )


def files_in(folder: Folder, path: str) -> Iterator[tuple[str, bytes]]:
    for name, entry in folder.entries.items():
        if isinstance(entry, Folder):
            yield from files_in(entry, f"{path}/{name}")
        else:
            yield f"{path}/{name}", bytes(entry.data)


def disk_of(files: Files, rng: Random) -> SimDisk:
    disk = MeteredDisk(rng)
    log = Folder()
    data = Folder({str(PARTITION): log})
    disk.root = Folder({"data": data})
    for path, content in files.items():
        folder = log if path.startswith(FOLDER) else data
        folder.entries[path.rpartition("/")[2]] = Inode(bytearray(content))
    return disk


def segments_of(files: Files) -> list[str]:
    return sorted(path for path in files if path.endswith(LOG_SUFFIX))


def damaged(files: Files, rng: Random) -> Files:
    """Return the files with some of them damaged: segments only, none of them, or any."""
    files = dict(files)
    paths = [path for path in files if not path.endswith(WHOSE)]
    segments = segments_of(files)
    paths = rng.choice([segments, paths, [path for path in paths if path not in segments]])
    for _ in range(rng.randint(1, 3)):
        path = rng.choice(paths)
        data = bytearray(files[path])
        if data:
            rng.choice(DAMAGES)(data, rng)
            files[path] = bytes(data)
    path = rng.choice(paths)
    # Its name is there for certain, and without it the other checkpoints would promise too much.
    if rng.random() < 0.1 and not path.endswith(URGENT_NAME):
        del files[path]
    return files


def first_damage(before: Files, after: Files) -> tuple[str, int]:
    """Return the segment with the first byte that is another one, and where in it that is."""
    for path in segments_of(before):
        one, other = before[path], after.get(path, b"")
        if one != other:
            pairs = enumerate(zip(one, other, strict=False))
            same = min(len(one), len(other))
            return path, next((at for at, (a, b) in pairs if a != b), same)
    return NO_DAMAGE


def read_on(log: Log, max_bytes: int) -> Iterator[bytes]:
    """Yield the batches that a consumer sees who passes over what it is refused."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        begin = offset
        with suppress(KafkaError):
            for batch in read(log, offset, max_bytes):
                yield batch
                offset = max(offset, parse_header(batch, 0).next_offset)
        offset = max(offset, begin + 1)


def read(log: Log, offset: int, max_bytes: int) -> Iterator[bytes]:
    """Yield the batches that one read gives, up to what is none.

    Raises:
        KafkaError: the reader is told that something is wrong.
    """
    end = log.log_end_offset
    taken = log.read(offset, max_bytes=max_bytes, limit_offset=end, at_least_one=True)
    assert taken is not None, "whoever reads on waits for ever"
    log.aborted_in(taken, offset, limit_offset=end, may_wait=True)
    rest = bytes_of(taken)
    while rest:
        header = parse_header(rest, 0)
        check_header(header, len(rest))
        yield rest[: header.size_bytes]
        rest = rest[header.size_bytes :]


def is_sound(batch: bytes) -> bool:
    return crc_matches(memoryview(batch), 0, parse_header(batch, 0))


class Inspection:
    """What must hold of a damaged log, each time that it is opened.

    State: the batches that it may have, and up to where it must have them.
    """

    def __init__(self, lived: Lived, files: Files) -> None:
        self.batches = lived.batches
        self.bodies = {batch[OUTSIDE:] for batch in lived.batches.values()}
        self.start_offset = lived.start_offset
        damage = first_damage(lived.files, files)
        self.undamaged = damage == NO_DAMAGE
        self.kept_end = lived.end_before(damage)
        self.end_offset = lived.end_offset
        self.recovery_point = lived.recovery_point
        self.closed = lived.closed
        self.epochs_known = files.get(EPOCHS, b"") == lived.files.get(EPOCHS)

    def check(self, store: LogStore, max_bytes: int) -> None:
        log = store.logs[PARTITION]
        assert self.closed or not store.was_clean
        assert store.previous_broker_epoch in {BROKER_EPOCH, UNKNOWN_BROKER_EPOCH}
        assert log.log_start_offset <= log.log_end_offset <= self.end_offset
        # Nobody is refused anything that stands before the damage.
        start_offset = max(log.log_start_offset, self.start_offset)
        self.check_sound(log, start_offset, self.kept_end, max_bytes)
        # What was synced is not looked at again: whoever reads it has to look at checksums.
        for batch in read_on(log, max_bytes):
            assert batch[OUTSIDE:] in self.bodies or not is_sound(batch)
        if not store.was_clean:
            start_offset = max(log.log_start_offset, self.recovery_point)
            self.check_sound(log, start_offset, log.log_end_offset, max_bytes)
        for timestamp_ms in (None, NOW_MS):
            with suppress(KafkaError):
                find_time(log, timestamp_ms)

    def check_sound(self, log: Log, offset: int, end_offset: int, max_bytes: int) -> None:
        """See that all is there between two offsets, and as it was written."""
        while offset < end_offset:
            for batch in read(log, offset, max_bytes):
                written = self.batches[max(base for base in self.batches if base <= offset)]
                assert (batch[:12], batch[OUTSIDE:]) == (written[:12], written[OUTSIDE:])
                assert batch == written or not self.epochs_known
                offset = parse_header(batch, 0).next_offset
                if offset >= end_offset:
                    break

    def go_on(self, store: LogStore) -> None:
        """Append to it."""
        log = store.logs[PARTITION]
        base = append(log, b"more", leader_epoch=max(99, log.leader_epochs.latest_epoch))
        (batch,) = read(log, base, 1)
        assert is_sound(batch)
        assert batch.endswith(b"more\0")
        self.batches = {other: b for other, b in self.batches.items() if other < base}
        self.batches[base] = batch
        self.bodies.add(batch[OUTSIDE:])
        self.end_offset = log.log_end_offset
        if self.undamaged:
            self.kept_end = self.end_offset


def recover(lived: Lived, rng: Random) -> None:
    """Damage the files, and open them twice."""
    files = damaged(lived.files, rng)
    disk = disk_of(files, rng)
    inspection = Inspection(lived, files)
    max_bytes = rng.choice([1, 1000, 1 << 20])
    store = open_data(disk)
    inspection.check(store, max_bytes)
    inspection.go_on(store)
    inspection.closed = rng.random() < 0.5
    if inspection.closed:
        store.close(clean=True, now_ms=NOW_MS)
    disk.restart()
    inspection.check(open_data(disk), max_bytes)


@pytest.mark.parametrize("part", range(PARTS))
def test_what_stands_before_the_damage_is_kept_and_nothing_wrong_comes_out(part: int) -> None:
    for number in range(RUNS // PARTS // DAMAGES_PER_HISTORY):
        seed = (SEED * PARTS + part) << 32 | number
        lived = live(seed)
        for again in range(DAMAGES_PER_HISTORY):
            recover(lived, Random(f"{seed} {again}"))


@pytest.mark.parametrize(
    ("seed", "again"),
    [
        # A batch's offset was damaged before those of the next ones, in a log that had been closed:
        # whoever asked for the offset before it was given what stands behind it.
        (724427838849878, 9),
    ],
)
def test_what_was_found_once_is_found_again(seed: int, again: int) -> None:
    recover(live(seed), Random(f"{seed} {again}"))
