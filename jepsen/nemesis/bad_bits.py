"""Bits that flip in the files of a node that does not run, and disks that are replaced."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final

from quorate.broker.log.checkpoints import SavedCheckpoints, load_checkpoints
from quorate.broker.log.files import OsFileSystem
from quorate.broker.log.scan import PlacedBatch, crc_in_file, scan_headers
from quorate.errors import QuorateError
from quorate.jepsen.lab.cluster import Lab
from quorate.jepsen.lab.hosts import Host
from quorate.jepsen.nemesis import damage, roles
from quorate.jepsen.nemesis.fault import Note, NotNowError
from quorate.jepsen.nemesis.partitions import seen_within
from quorate.model import TopicPartition

LISTENS_S_MAX: Final = 30.0
REFUSES_S_MAX: Final = 15.0
JOURNAL: Final = "journal"
SNAPSHOT: Final = "snapshot*"


def flip(path: Path, at: int, rng: Random) -> None:
    """Turn over one bit of a file's byte."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def _settle(host: Host) -> None:
    """Take what we did to the files for what was always there."""
    if host.disk is not None:
        host.disk.start_anew()


class FlippedLog:
    """A broker comes back from a crash, and a batch that it had not synced fails its checksum.

    Damage to what was synced is not looked for at the start: that is left to the disk.
    """

    def __init__(self) -> None:
        self._host: Host | None = None
        self._lab: Lab | None = None
        self._place: tuple[Path, PlacedBatch] | None = None

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Kill it, turn over a bit, start it."""
        (host,) = roles.leader(lab, rng)
        damage.check_allowed(lab, [host])
        note([host])
        self._lab, self._host = lab, host
        host.kill()
        batches = list(_unsynced_batches(host.data))
        if not batches:
            raise NotNowError(f"{host.name} has synced everything")
        path, batch = rng.choice(batches)
        self._place = path, batch
        flip(path, batch.position + rng.randrange(batch.header.size_bytes), rng)
        assert not _is_sound(path, batch), "one bit is enough"
        _settle(host)
        host.start()
        host.wait_until_it_listens(time.monotonic() + LISTENS_S_MAX)

    def verified(self) -> str:
        """Say that the batch is not there any more as it was damaged."""
        assert self._place is not None
        path, batch = self._place
        where = f"byte {batch.position} of {path.parent.name}/{path.name}"
        if not seen_within(LISTENS_S_MAX, lambda: _is_sound_or_gone(path, batch)):
            return ""
        return f"the batch at {where} failed its checksum, and was cut off"

    def heal(self) -> None:
        """Start it, if it does not run."""
        if self._host is not None and not self._host.runs:
            self._host.start()
        if self._lab is not None:
            damage.note_loss(self._lab)


def _unsynced_batches(data: Path) -> Iterator[tuple[Path, PlacedBatch]]:
    """Yield the batches of a broker that has ended which its next start has to check."""
    saved = load_checkpoints(OsFileSystem(), str(data))
    for folder in sorted(each for each in data.iterdir() if each.is_dir()):
        paths = sorted(folder.glob("*.log"))
        if paths:
            begin = _recovery_point(saved, folder.name)
            found = ((paths[-1], batch) for batch in _batches(paths[-1]))
            yield from (pair for pair in found if pair[1].header.base_offset >= begin)


def _recovery_point(saved: SavedCheckpoints, name: str) -> int:
    topic, _, number = name.rpartition("-")
    checkpoint = saved.logs.get(TopicPartition(topic, int(number))) if number.isdigit() else None
    return 0 if checkpoint is None else checkpoint.recovery_point


def _batches(path: Path) -> list[PlacedBatch]:
    file = OsFileSystem().open(str(path), create=False)
    try:
        return list(scan_headers(file, 0, file.size_bytes()))
    except QuorateError:  # what a killed process was about to write
        return []


def _is_sound(path: Path, batch: PlacedBatch) -> bool:
    """Whether the very batch is there, whole."""
    file = OsFileSystem().open(str(path), create=False)
    end = file.size_bytes()
    try:
        found = next(scan_headers(file, batch.position, end), None)
        return found == batch and crc_in_file(file, batch) == batch.header.crc
    except QuorateError:
        return False


def _is_sound_or_gone(path: Path, batch: PlacedBatch) -> bool:
    return (
        not path.exists()
        or path.stat().st_size <= batch.position
        or _is_sound(path, batch)
        or _is_another(path, batch)
    )


def _is_another(path: Path, batch: PlacedBatch) -> bool:
    """Whether another whole batch is there now."""
    file = OsFileSystem().open(str(path), create=False)
    try:
        found = next(scan_headers(file, batch.position, file.size_bytes()), None)
        return found is not None and crc_in_file(file, found) == found.header.crc
    except QuorateError:
        return False


class FlippedIndex:
    """A broker comes back from a crash, and a bit of its newest indexes has turned over."""

    def __init__(self) -> None:
        self._host: Host | None = None
        self._said = ""

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Kill it, turn over a bit, start it."""
        (host,) = roles.leader(lab, rng)
        note([host])
        self._host = host
        host.kill()
        kind = rng.choice(("*.index", "*.timeindex"))
        folders = sorted(each for each in host.data.iterdir() if each.is_dir())
        newest = [paths[-1] for each in folders if (paths := sorted(each.glob(kind)))]
        written = [path for path in newest if path.stat().st_size]
        if not written:
            raise NotNowError(f"{host.name} has no index yet")
        path = rng.choice(written)
        at = rng.randrange(path.stat().st_size)
        flip(path, at, rng)
        _settle(host)
        self._said = f"a bit of byte {at} of {path.parent.name}/{path.name} turned over"
        host.start()
        host.wait_until_it_listens(time.monotonic() + LISTENS_S_MAX)

    def verified(self) -> str:
        """Say where."""
        return self._said

    def heal(self) -> None:
        """Start it, if it does not run."""
        if self._host is not None and not self._host.runs:
            self._host.start()


class FlippedController:
    """A controller refuses to start over a damaged file, until it has that file as it was."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._host: Host | None = None
        self._path: Path | None = None
        self._content = b""

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Kill it, turn over a bit, start it."""
        host = _follower_with(lab, rng, self._pattern)
        note([host])
        self._host = host
        host.kill()
        self._path = _file_of(host, self._pattern)
        if self._path is None or not self._path.stat().st_size:
            raise NotNowError(f"{host.name} has no {self._pattern}")
        self._content = self._path.read_bytes()
        # The very end may be a tail that a crash tore off: that is cut, not complained of.
        flip(self._path, rng.randrange(len(self._content) * 3 // 4), rng)
        _settle(host)
        host.start()
        host.may_end = True

    def verified(self) -> str:
        """Repeat what it said when it refused."""
        host = self._host
        assert host is not None
        if not seen_within(REFUSES_S_MAX, lambda: host.has_ended):
            return ""
        said = [line for line in host.log_tail().splitlines() if re.match("error: ", line)]
        return f"{host.name} refused: {said[-1][:120]}" if said else ""

    def heal(self) -> None:
        """Give it its file back, and start it."""
        if self._host is None:
            return
        self._host.close()
        if self._path is not None and self._content:
            self._path.write_bytes(self._content)
            _settle(self._host)
        self._host.start()


def _follower_with(lab: Lab, rng: Random, pattern: str) -> Host:
    active = lab.active_controller()
    found = [host for host in lab.controllers if host.answers and host is not active]
    found = [host for host in found if _file_of(host, pattern) is not None]
    if active is None or not found:
        raise NotNowError(f"no controller that only follows has a {pattern}")
    return rng.choice(found)


def _file_of(host: Host, pattern: str) -> Path | None:
    found = sorted(p for p in host.data.rglob(pattern) if p.is_file() and p.suffix != ".tmp")
    return found[-1] if found else None


class Wiped:
    """A broker comes back with an empty disk; what it had, others have."""

    def __init__(self, choose: Callable[[Lab, Random], list[Host]]) -> None:
        self._choose = choose
        self._lab: Lab | None = None
        self._host: Host | None = None
        self._lost = 0

    def inflict(self, lab: Lab, rng: Random, note: Note) -> None:
        """Kill it and empty its disk."""
        (host,) = self._choose(lab, rng)
        damage.check_allowed(lab, [host])
        note([host], silent=[host.name])
        self._lab, self._host = lab, host
        host.kill()
        self._lost = sum(path.stat().st_size for path in host.data.rglob("*.log"))
        host.wipe()

    def verified(self) -> str:
        """Say how much was there."""
        assert self._host is not None
        is_empty = not any(self._host.data.iterdir())
        return f"{self._host.name} lost {self._lost} bytes of logs" if is_empty else ""

    def heal(self) -> None:
        """Start it."""
        if self._host is not None and not self._host.runs:
            self._host.start()
        if self._lab is not None:
            damage.note_loss(self._lab)
