"""Builds shim.c and speaks to it: the faults of a process's disk, the journal of its changes."""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("shim.c")

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
)
"""The numbers of the control page, in the order of shim.c's ``struct control``."""

NUMBER: Final = struct.Struct("=q")
UNLIMITED: Final = -1


def compiler() -> str | None:
    """Return a C compiler, if there is one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build_library(source: Path, folder: Path) -> Path:
    """Compile something to preload into a folder, unless it is there; it takes a moment."""
    target = folder / source.with_suffix(".so").name
    if target.exists():
        return target
    command = compiler()
    assert command is not None, "asked for before"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(
        [command, *flags, "-o", str(target), str(source), "-ldl", "-lpthread"], check=True
    )
    return target


class Shim:
    """The disk below one directory, as one process after the other sees it.

    Owns the control page, the journal and the library: files in ``work``.
    """

    def __init__(
        self, root: Path, work: Path, *, journal: bool, library: Path | None = None
    ) -> None:
        """Begin with a disk that works; ``root`` is what is watched."""
        self.root = root
        self.journal_path = work / "shim.journal"
        self._control_path = work / "shim.control"
        self._control_path.write_bytes(bytes(mmap.PAGESIZE))
        with self._control_path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self._journal = journal
        self._library = library or build_library(SOURCE, work)
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
