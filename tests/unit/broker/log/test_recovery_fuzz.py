"""Recovery over damaged segments: it neither fails nor hangs, and lets no wrong record in.

``FUZZ_RUNS=100000`` for a long run by hand.
"""

# pyright: reportPrivateUsage=false

import os
from collections.abc import Callable
from random import Random

import pytest

from quorate.broker.log.store import open_store
from quorate.records.record import ProducerStamp
from quorate.settings import TopicConfig
from tests.simulation.disk import Inode, SimDisk
from tests.unit.broker.log.batches import (
    NOW_MS,
    PARTITION,
    TOPIC_ID,
    append,
    find_time,
    make_batch,
    new_disk,
    open_data,
    read_all,
)

RUNS = int(os.environ.get("FUZZ_RUNS", "3000"))
PARTS = 6
FOLDER = f"/data/{PARTITION}"


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


def make_disk(seed: int) -> tuple[SimDisk, dict[int, bytes]]:
    """Return a disk with a log of several segments, producers and epochs, and what is in it."""
    rng = Random(seed)
    disk = new_disk(seed)
    store = open_data(disk)
    config = TopicConfig(segment_bytes=2500, index_interval_bytes=200)
    log = store.create(PARTITION, TOPIC_ID, config, now_ms=NOW_MS)
    for number in range(30):
        if number % 3:
            append(log, rng.randbytes(rng.randint(0, 300)), leader_epoch=number // 10)
        else:
            stamp = ProducerStamp(5, 0, number)
            batch = make_batch([b"x" * 20] * 3, producer=stamp, codec=number % 5)
            log.append(batch, leader_epoch=number // 10, now_ms=NOW_MS)
    flush = log.start_checkpoint()
    flush.run()
    log.finish_flush(flush)
    return disk, read_all(log)


def files_of(disk: SimDisk) -> dict[str, Inode]:
    folder = disk._folder(FOLDER)
    return {name: entry for name, entry in folder.entries.items() if isinstance(entry, Inode)}


def recovered(disk: SimDisk) -> dict[int, bytes]:
    disk.restart()
    store = open_store(disk, "/data", cluster_id="cluster", node_id=1, now_ms=NOW_MS)
    log = store.get(PARTITION)
    assert log is not None
    found = read_all(log)
    assert log.log_end_offset >= log.log_start_offset
    append(log, b"the log goes on", leader_epoch=max(99, log.leader_epochs.latest_epoch))
    assert len(read_all(log)) == len(found) + 1
    find_time(log, NOW_MS)
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_wrong_comes_out_of_damaged_segments(part: int) -> None:
    rng = Random(part)
    pristine, written = make_disk(part)
    originals = {name: bytes(inode.data) for name, inode in files_of(pristine).items()}
    logs = [name for name in originals if name.endswith(".log")]
    for _ in range(RUNS // PARTS):
        disk = SimDisk(rng)
        disk.root = pristine.root
        folder = disk._folder(FOLDER)
        folder.entries = {name: Inode(bytearray(data)) for name, data in originals.items()}
        for _ in range(rng.randint(1, 3)):
            name = rng.choice(logs if rng.random() < 0.7 else list(originals))
            data = files_of(disk)[name].data
            if data:
                rng.choice(DAMAGES)(data, rng)
        if rng.random() < 0.1:
            del folder.entries[rng.choice(list(folder.entries))]
        folder.entries["partition.json"] = Inode(bytearray(originals["partition.json"]))
        epochs = folder.entries.get("leader-epochs")
        epochs_known = (
            isinstance(epochs, Inode) and bytes(epochs.data) == originals["leader-epochs"]
        )

        found = recovered(disk)

        for base, batch in found.items():
            assert written[base][:12] == batch[:12]
            assert written[base][16:] == batch[16:]
            assert written[base] == batch or not epochs_known
