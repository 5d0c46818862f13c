"""ColdDisk: a disk that knows what of it is in memory, and who waited for what is not."""

from collections.abc import Callable
from random import Random

from tests.simulation.disk import Inode, SimDisk, SimFile

PAGE_BYTES = 4096


class ColdFile(SimFile):
    """A file of which some pages are in memory: those that were read or written."""

    def __init__(self, disk: "ColdDisk", inode: Inode) -> None:
        super().__init__(disk, inode)
        self.cold_disk = disk

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        super().write_at(data, position)
        self.cold_disk.warm |= self._pages(len(data), position)

    def read_at(self, size_bytes: int, position: int) -> bytes:
        self.cold_disk.need(self._pages(size_bytes, position))
        return super().read_at(size_bytes, position)

    def read_cached(self, size_bytes: int, position: int) -> bytes | None:
        if self._pages(size_bytes, position) <= self.cold_disk.warm:
            return super().read_at(size_bytes, position)
        return None

    def _pages(self, size_bytes: int, position: int) -> set[tuple[int, int]]:
        end = min(position + size_bytes, len(self.inode.data))
        pages = range(position // PAGE_BYTES, -(-end // PAGE_BYTES))
        return {(id(self.inode), page) for page in pages}


class ColdDisk(SimDisk):
    """A disk that can be chilled, below a broker whose worker threads are in the test's hands.

    ``waits`` counts how often the event loop waited for it.
    """

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.warm: set[tuple[int, int]] = set()
        self.waits = 0
        self.at_work: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._in_thread = False
        self.make_directory("/data")
        self.sync_directory("/")

    def open(self, path: str, *, create: bool) -> ColdFile:
        file = ColdFile(self, super().open(path, create=create).inode)
        name = (id(file.inode), -1)
        if create:
            self.warm.add(name)
        self.need({name})
        return file

    def chill(self) -> None:
        """Forget all that is in memory."""
        self.warm.clear()

    def need(self, pages: set[tuple[int, int]]) -> None:
        """Have these in memory, after waiting for them if they are not."""
        if not pages <= self.warm:
            self.waits += not self._in_thread
        self.warm |= pages

    def aside(self, run: Callable[[], None], then: Callable[[], None], /) -> None:
        """Take work for a thread."""
        self.at_work.append((run, then))

    def work(self) -> None:
        """Let the thread do the next thing, and the loop what comes of it."""
        run, then = self.at_work.pop(0)
        self._in_thread = True
        run()
        self._in_thread = False
        then()
