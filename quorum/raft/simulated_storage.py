"""A disk in memory that forgets: for tests and simulations of crashes and power cuts."""

import errno
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Final

from quorate.dataclass import dataclass
from quorate.quorum.raft.storage import StorageFullError

if TYPE_CHECKING:
    from random import Random

SECTOR_BYTES: Final = 512


class SimulatedCrash(BaseException):
    """The process dies at this moment."""


@dataclass(slots=True)
class _File:
    """What is on the disk, what the process sees, and the writes that make the difference."""

    durable: bytearray
    seen: bytearray
    unsynced: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])


class SimulatedStorage:
    """Named files whose unsynced bytes may be lost.

    ``fuse`` counts down with every mutating step (also between the steps of one call) and kills the
    process at zero. ``full`` makes every write fail for want of space.
    """

    def __init__(self, rng: "Random") -> None:
        self._rng = rng
        self._files: dict[str, _File] = {}
        self._dead = False
        self.fuse: int | None = None
        self.full = False
        self.steps = 0

    def read(self, name: str) -> bytes | None:
        """Return a file's content as the process sees it."""
        file = self._files.get(name)
        return None if file is None else bytes(file.seen)

    def put(self, name: str, data: bytes) -> None:
        """Replace a file: a crash leaves the old one or the new one."""
        self._step()
        if self.full:
            raise StorageFullError(errno.ENOSPC, "No space left on device")
        self._files[name] = _File(bytearray(data), bytearray(data))
        self._step()

    def write_at(self, name: str, position: int, data: bytes) -> None:
        """Write to the page cache; when the space ends, some of it."""
        self._step()
        file = self._files.setdefault(name, _File(bytearray(), bytearray()))
        if self.full:
            written = data[: self._rng.randrange(len(data) + 1)]
            _overwrite(file.seen, position, written)
            file.unsynced.append((position, written))
            raise StorageFullError(errno.ENOSPC, "No space left on device")
        _overwrite(file.seen, position, data)
        file.unsynced.append((position, data))

    def sync(self, name: str) -> None:
        """Make a file durable."""
        self._step()
        file = self._files[name]
        for position, data in file.unsynced:
            _overwrite(file.durable, position, data)
        file.unsynced.clear()
        self._step()

    def close(self) -> None:
        """Do nothing: there are no descriptors."""

    def crash(self, *, power_cut: bool) -> None:
        """End the process. With the power, a random part of the unsynced sectors is lost, too.

        Without a power cut nothing is lost, but what was not synced is not durable, either.
        """
        if power_cut:
            for file in self._files.values():
                survives = self._power_cut_fate()
                for position, data in file.unsynced:
                    _overwrite_sectors(file.durable, position, data, survives)
                file.unsynced.clear()
                file.seen = bytearray(file.durable)
        self._dead = False
        self.fuse = None

    def damage(self, name: str, position: int, byte: int) -> None:
        """Change a byte on the disk behind everybody's back."""
        self._files[name].durable[position] = byte
        self._files[name].seen[position] = byte

    def cut_off(self, name: str, size_bytes: int) -> None:
        """Cut a file short on the disk behind everybody's back."""
        del self._files[name].durable[size_bytes:]
        del self._files[name].seen[size_bytes:]

    def _power_cut_fate(self) -> "Callable[[], bool]":
        share = self._rng.choice((0.0, 0.6, 1.0))
        return lambda: self._rng.random() < share

    def _step(self) -> None:
        if self._dead:
            raise SimulatedCrash
        self.steps += 1
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                self._dead = True
                raise SimulatedCrash


def _overwrite(content: bytearray, position: int, data: bytes) -> None:
    if len(content) < position + len(data):
        content.extend(bytes(position + len(data) - len(content)))
    content[position : position + len(data)] = data


def _overwrite_sectors(
    content: bytearray, position: int, data: bytes, survives: Callable[[], bool]
) -> None:
    """Write those sectors of ``data`` that survive; sectors lie at multiples of their size."""
    done = 0
    while done < len(data):
        sector_end = ((position + done) // SECTOR_BYTES + 1) * SECTOR_BYTES - position
        end = min(len(data), sector_end)
        if survives():
            _overwrite(content, position + done, data[done:end])
        done = end
