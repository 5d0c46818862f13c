"""Disks that fail and forget, below unmodified processes."""

import mmap
import struct
from pathlib import Path
from random import Random
from typing import Final

from quorate.broker.log.directory import RUNNING_NAME
from quorate.jepsen.lab.native import build_library
from quorate.jepsen.lab.power import Disk, copy_tree, cut_power, read_journal

SHIM_C: Final = Path(__file__).with_name("shim.c")

FIELDS: Final = (
    "sync_errno",
    "write_errno",
    "space_bytes",
    "sync_delay_us",
    "sync_for_real",
    "kill_at_change",
    "changes",
    "faults",
    "sync_lies",
    "delays",
)
"""The numbers of the control page, in the order of shim.c's ``struct control``."""

NUMBER: Final = struct.Struct("=q")
UNLIMITED: Final = -1


class Shim:
    """The disk below one directory, as one process after the other sees it.

    Owns the control page, the journal and the library: files in ``work``.
    """

    def __init__(
        self,
        root: Path,
        work: Path,
        *,
        journal: bool,
        library: Path | None = None,
        keep: bool = False,
    ) -> None:
        """Begin with a disk that works, or is as it was to ``keep``; ``root`` is watched."""
        self.root = root
        self.journal_path = work / "shim.journal"
        self._control_path = work / "shim.control"
        begins = not (keep and self._control_path.exists())
        if begins:
            self._control_path.write_bytes(bytes(mmap.PAGESIZE))
        with self._control_path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self._journal = journal
        self._library = library or build_library(SHIM_C, work)
        if begins:
            self.set("space_bytes", UNLIMITED)
            self.set("sync_for_real", 1)

    def environment(self) -> dict[str, str]:
        """Return what a process must have in its environment to use this disk."""
        variables = {
            "LD_PRELOAD": str(self._library),
            "QUORATE_SHIM_ROOT": str(self.root.absolute()),
            "QUORATE_SHIM_CONTROL": str(self._control_path),
        }
        if self._journal:
            variables["QUORATE_SHIM_JOURNAL"] = str(self.journal_path)
        return variables

    def set(self, field: str, value: int) -> None:
        """Change a number of the control page; it holds at once."""
        NUMBER.pack_into(self._page, FIELDS.index(field) * NUMBER.size, value)

    def get(self, field: str) -> int:
        """Return a number of the control page."""
        value: int = NUMBER.unpack_from(self._page, FIELDS.index(field) * NUMBER.size)[0]
        return value

    def close(self) -> None:
        """Let go of the control page."""
        self._page.close()


class MachineDisk:
    """What is below a directory, as its machine's owner knows it: a power cut can hit it.

    Owns a copy of the directory, of which everything is safe, and the journal of all processes
    since that was made; both lie in ``work``.
    """

    def __init__(self, root: Path, work: Path, library: Path) -> None:
        """Begin with what is in the directory now; it counts as safe."""
        root.mkdir(parents=True, exist_ok=True)
        work.mkdir(parents=True, exist_ok=True)
        self.root = root
        self._safe = work / "safe"
        self.shim = Shim(root, work, journal=True, library=library)
        self.shim.set("sync_for_real", 0)
        self.start_anew()

    def start_anew(self) -> None:
        """Take all that is in the directory now for safe; no process uses it."""
        self.shim.journal_path.unlink(missing_ok=True)
        copy_tree(self.root, self._safe)

    def cut_power(self, rng: Random) -> int:
        """Forget what was not synced, the process has ended; return about how much that was."""
        self._end_journal()
        lost = cut_power(self.root, self._safe, self.shim.journal_path, rng)
        for note in self.root.rglob(RUNNING_NAME):
            note.unlink()  # the machine had another boot id then; this one was not started again
        copy_tree(self.root, self._safe)
        return lost

    def settle(self) -> None:
        """Go on from what is on the disk now, the process has ended.

        What it left unsynced stays so, for a later power cut to take, unless it was killed between
        a change and noting it: then all there is counts as safe.
        """
        self._end_journal()
        disk = Disk(self.root, self._safe)
        disk.replay(self.shim.journal_path.read_bytes())
        seen = {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file()
        }
        if disk.seen() != seen:
            self.start_anew()

    def _end_journal(self) -> None:
        """Drop what a process that was killed was about to note."""
        path = self.shim.journal_path
        journal = path.read_bytes() if path.exists() else b""
        whole = 0
        for entry in read_journal(journal):
            whole = entry.end
        path.write_bytes(journal[:whole])
